"""Real `vllm serve` on this CPU, shared by the tests: each start takes 25 s of two cores, so there are few.

`baseline_server`, `ngram_server`, `draft_model_server` and `suffix_server` serve one model under the name "smollm";
`SharedServers` says how long each lives. Modules are named so that those that share a server follow each other.

Text at temperature 0 is the same from all: float32 leaves no room for ties. Above 0 a CPU build with a drafter answers
gibberish (vLLM issue 55005), so tests stay at 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from profiler.serving.launch import ServeCommand, Server, launched, serve_prefix
from tests.real_vllm.install import Environment, environment_folder
from tests.real_vllm.servers import BASELINE, SharedServers

MODEL = "smollm"  # the name under which all servers serve it
# 300 MB hold two requests of the longest length with the drafter's layers; a server then needs 3 GB in all.
ARGUMENTS = (
    "--enforce-eager", "--dtype", "float32", "--max-model-len", "2048", "--max-num-seqs", "8",
    "--served-model-name", MODEL, "--kv-cache-memory-bytes", "300000000",
)  # fmt: skip
PER_REQUEST = ("--enable-per-request-metrics", "--per-request-spec-decode-metrics", "detailed")
METHODS = (BASELINE, "draft_model", "ngram", "suffix")  # in the order in which they are needed
K = 3  # draft tokens of every speculative server


def speculative_config(method: str, drafter: Path, k: int = K) -> dict[str, object]:
    """What vLLM is given for `method`."""
    if method == "ngram":
        return {"method": method, "num_speculative_tokens": k, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    if method == "draft_model":
        return {"method": method, "num_speculative_tokens": k, "model": str(drafter)}
    return {"method": method, "num_speculative_tokens": k}


@pytest.fixture(scope="session")
def vllm_environment() -> Environment:
    """The environment that has vLLM, installed if it is not there."""
    environment = Environment(environment_folder())
    environment.install()
    return environment


@pytest.fixture(scope="session")
def vllm_python(vllm_environment: Environment) -> Path:
    """The interpreter that has vLLM; ours has none."""
    return vllm_environment.python


@pytest.fixture(scope="session")
def smollm(vllm_environment: Environment) -> Path:
    """SmolLM2-135M-Instruct in float32."""
    return vllm_environment.models / "smollm"


@pytest.fixture(scope="session")
def drafter(vllm_environment: Environment) -> Path:
    """The same model with 14 of its 30 layers; about a quarter of its drafts are accepted."""
    return vllm_environment.models / "drafter"


@pytest.fixture(scope="session")
def other_vocabulary(vllm_environment: Environment) -> Path:
    """A drafter that no target of ours can take: its vocabulary has another size."""
    return vllm_environment.models / "other_vocabulary"


@pytest.fixture(scope="session")
def serve_environment(vllm_environment: Environment) -> dict[str, str]:
    """Environment variables of a CPU server."""
    return vllm_environment.serving_variables()


@pytest.fixture(scope="session")
def serve_arguments() -> tuple[str, ...]:
    """Arguments with which a small CPU server starts soon."""
    return ARGUMENTS


@pytest.fixture(scope="session")
def shared_servers(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    vllm_python: Path,
    smollm: Path,
    drafter: Path,
    serve_environment: dict[str, str],
) -> Iterator[SharedServers]:
    """All servers of the session."""
    logs = tmp_path_factory.mktemp("logs")

    def start(method: str) -> AbstractContextManager[Server]:
        speculation: tuple[str, ...] = ()
        if method != BASELINE:
            speculation = ("--speculative-config", json.dumps(speculative_config(method, drafter)), *PER_REQUEST)
        command = ServeCommand(
            prefix=serve_prefix(str(vllm_python)),
            model=str(smollm),
            arguments=(*ARGUMENTS, *speculation),
            environment=serve_environment,
        )
        return launched(command, log=logs / f"{method}.log", timeout_s=300.0)

    asked = {name.removesuffix("_server") for item in request.session.items for name in item.fixturenames}
    servers = SharedServers(start, [method for method in METHODS if method in asked])
    yield servers
    servers.stop_all()


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> None:
    """A test that asks for no shared server starts its own, and gets the memory for it."""
    if not any(name.endswith("_server") for name in request.fixturenames):
        request.getfixturevalue("shared_servers").stop_all()


@pytest.fixture(scope="module")
def baseline_server(shared_servers: SharedServers) -> Server:
    """A server that does not speculate."""
    return shared_servers.get(BASELINE)


@pytest.fixture(scope="module")
def ngram_server(shared_servers: SharedServers) -> Server:
    """A server that drafts by n-gram lookup, and tells per request what was accepted."""
    return shared_servers.get("ngram")


@pytest.fixture(scope="module")
def draft_model_server(shared_servers: SharedServers) -> Server:
    """A server that drafts with a small model, and tells per request what was accepted."""
    return shared_servers.get("draft_model")


@pytest.fixture(scope="module")
def suffix_server(shared_servers: SharedServers) -> Server:
    """A server that drafts from a suffix tree, and tells per request what was accepted."""
    return shared_servers.get("suffix")
