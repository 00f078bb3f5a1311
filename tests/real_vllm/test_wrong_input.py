"""What a real vLLM refuses is told in one line with its cause, and nothing of it is left running."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from profiler.errors import LaunchError
from profiler.serving.launch import ServeCommand, launched, serve_prefix
from tests.real_vllm.conftest import speculative_config


@pytest.fixture(scope="module")
def refusals(vllm_python, smollm, other_vocabulary, serve_environment, serve_arguments, tmp_path_factory):
    """The errors of four servers that cannot start, started side by side: each dies within seconds."""
    logs = tmp_path_factory.mktemp("logs")

    def refused(case):
        name, model, speculation = case
        more = ("--speculative-config", json.dumps(speculation)) if speculation else ()
        command = ServeCommand(
            serve_prefix(str(vllm_python)), str(model), (*serve_arguments, *more), environment=serve_environment
        )
        with pytest.raises(LaunchError) as told, launched(command, log=logs / f"{name}.log", timeout_s=240):
            pass
        return name, told.value

    cases = [
        ("model_not_found", smollm / "nothing", None),
        ("method", smollm, {"method": "telepathy", "num_speculative_tokens": 3}),
        ("vocabulary", smollm, speculative_config("draft_model", other_vocabulary)),
    ]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(pool.map(refused, cases))


@pytest.mark.parametrize("cause", ["model_not_found", "method", "vocabulary"])
def test_the_cause_is_read_from_the_servers_log(refusals, cause):
    """One line with the cause's name, a quote of vLLM's own words and what to do."""
    error = refusals[cause]
    assert error.code == cause
    assert error.got
    assert error.remedy
    assert "\n" not in str(error)


def test_an_interpreter_without_vllm_is_named(smollm, tmp_path):
    """The interpreter exists, but has no vLLM: that is what is said."""
    command = ServeCommand(("/usr/bin/env", "python3", "-S", "-m", "vllm.entrypoints.cli.main", "serve"), str(smollm))
    with pytest.raises(LaunchError) as told, launched(command, log=tmp_path / "serve.log", timeout_s=60):
        pass
    assert told.value.code == "no_vllm"


def test_a_server_that_is_stopped_while_it_starts_leaves_no_process(
    vllm_python, smollm, serve_environment, serve_arguments, tmp_path
):
    """Giving up on readiness ends the whole process group, engine processes included."""
    command = ServeCommand(serve_prefix(str(vllm_python)), str(smollm), serve_arguments, environment=serve_environment)
    groups: set[int] = set()

    class GaveUp(Exception):
        pass

    def give_up(waited):
        groups.update(_children())
        if waited > 3:
            raise GaveUp

    with pytest.raises(GaveUp), launched(command, log=tmp_path / "serve.log", tick=give_up):
        pytest.fail("no server is ready within 3 s")
    assert groups
    for group in groups:
        with pytest.raises(ProcessLookupError):
            os.killpg(group, 0)


def _children():
    """Process groups that lead our children: a server is started as the leader of its own."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parent, group = file.read().rpartition(")")[2].split()[1:3]
            except OSError:
                continue
            if int(parent) == os.getpid() and int(group) == int(entry):
                found.add(int(group))
    return found
