"""The Kubernetes example: valid by Kubernetes' own schemas, and in step with the service that it starts."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import ValidationError

from api.jobs.destinations import AllowList
from api.settings import Settings, load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCUMENTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
DEPLOYMENT, WORKER = (document for document in DOCUMENTS if document["kind"] == "Deployment")
POD, WORKER_POD = (document["spec"]["template"]["spec"] for document in (DEPLOYMENT, WORKER))
(CONTAINER,), (WORKER_CONTAINER,) = POD["containers"], WORKER_POD["containers"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
@pytest.mark.parametrize("version", ["1.29", "1.33", kubernetes_validate.latest_version()])
def test_each_document_is_valid_and_has_no_field_that_kubernetes_does_not_know(document, version):
    """In old and new versions, strictly: a mistyped field is an error."""
    kubernetes_validate.validate(document, version, strict=True)


def test_the_check_itself_refuses_a_mistyped_field():
    """So that its silence means something."""
    wrong = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replica": 2}}
    with pytest.raises(ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_every_variable_is_a_setting_with_a_value_that_it_takes(monkeypatch):
    """What the example sets is read by the service as it stands."""
    for variable in CONTAINER["env"]:
        assert variable["name"].removeprefix("SPECWORTH_").lower() in Settings.model_fields, variable
        monkeypatch.setenv(variable["name"], variable.get("value", "postgresql://u:p@host/d"))
    settings = load_settings()
    assert settings.shutdown_s + 5 < POD["terminationGracePeriodSeconds"]
    assert settings.api_keys_file is not None
    (mount,) = (mount for mount in CONTAINER["volumeMounts"] if mount["name"] == "keys")
    assert settings.api_keys_file.parent == Path(mount["mountPath"])


def test_probes_ask_paths_that_the_service_has(client):
    """Without a key, and at the port that is opened."""
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = CONTAINER[probe]["httpGet"]
        assert client.get(asked["path"]).status_code == 200
        assert asked["port"] in [port["name"] for port in CONTAINER["ports"]]


def test_service_and_budget_select_the_pods():
    """By the labels that they carry."""
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for document in DOCUMENTS:
        if document["kind"] == "Service":
            assert document["spec"]["selector"].items() <= labels.items()
        if document["kind"] == "PodDisruptionBudget":
            assert document["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("pod", [POD, WORKER_POD], ids=["service", "worker"])
def test_nothing_runs_as_root_or_writes_to_its_image(pod):
    """The restricted profile of Kubernetes' pod security standards."""
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip


def test_the_worker_is_a_worker_of_the_same_service(in_process, monkeypatch):
    """Same image and database, the same servers allowed; settings with values that it takes; no requests lead to it."""
    assert in_process(*WORKER_CONTAINER["args"], "--help").returncode == 0
    assert WORKER_CONTAINER["image"] == CONTAINER["image"]
    of_service, of_worker = (
        {variable["name"]: variable for variable in container["env"]} for container in (CONTAINER, WORKER_CONTAINER)
    )
    assert of_worker.items() <= of_service.items()
    for name, variable in of_worker.items():
        monkeypatch.setenv(name, variable.get("value", "postgresql://u:p@host/d"))
    allowed = AllowList.parse(load_settings().attach_hosts)
    assert len(allowed.names) == 2
    assert allowed.networks
    labels = WORKER["spec"]["template"]["metadata"]["labels"]
    assert WORKER["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert not DEPLOYMENT["spec"]["selector"]["matchLabels"].items() <= labels.items()
