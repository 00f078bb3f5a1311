"""Profiling real servers: attached to ones that run, and started one after the other, as users do it.

Prompts are of this module alone: the servers of the session are shared, and a suffix tree remembers what it has seen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler.probe.events import Event
from profiler.probe.profile import Profile
from profiler.probe.session import Session
from profiler.probe.settings import Attached, ProbeSettings, Question
from profiler.prompts.sample import Message, Prompt
from tests.real_vllm.conftest import K

SPECWORTH = Path(sys.executable).with_name("specworth")
THINGS = (
    "lamp",
    "chair",
    "river",
    "stone",
    "window",
    "garden",
    "bottle",
    "ladder",
    "candle",
    "basket",
    "mirror",
    "drum",
)
HOST = '{"name": "this host", "memory_gib": 4, "bandwidth_gb_per_s": 50, "bf16_tflops": 1}'
BUDGET_ENDED = "the budget ended first"


def texts() -> list[tuple[str, str]]:
    """(class, prompt): half of them repeat themselves in the answer."""
    found = []
    for i, thing in enumerate(THINGS):
        copied = f'{{"name": "{thing}", "price": {i + 3}, "colour": "red"}}'
        found.append(("json", f"Copy this JSON four times: {copied}"))
        found.append(("creative", f"Tell a very short story about a {thing}."))
    return found


def sample(max_tokens: int = 16) -> list[Prompt]:
    """The prompts, at temperature 0."""
    return [Prompt((Message("user", text),), max_tokens=max_tokens, temperature=0.0) for _, text in texts()]


def prompt_file(folder: Path) -> Path:
    """The same as a file."""
    path = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": text, "max_tokens": 16, "temperature": 0}) for _, text in texts()]
    path.write_text("\n".join(lines))
    return path


def group_lives(group: int) -> bool:
    """Whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def servers_of(process: subprocess.Popen[str]) -> list[int]:
    """Process ids of the servers that a specworth has started: its children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == process.pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.fixture
def command(vllm_python, smollm, serve_arguments, tmp_path):
    """Starts baseline and suffix decoding in turn, with these prompts."""
    config = json.dumps({"method": "suffix", "num_speculative_tokens": K})
    return [
        str(SPECWORTH), "profile", str(prompt_file(tmp_path)), "--target", str(smollm), "--speculative-config", config,
        "--python", str(vllm_python), "--serve-arguments", " ".join(serve_arguments), "--concurrency", "4",
        "--no-look-around", "--out", str(tmp_path / "profile.json"), "--log-folder", str(tmp_path / "logs"),
    ]  # fmt: skip


def test_attached_servers_are_compared_prompt_by_prompt(baseline_server, suffix_server) -> None:
    """All texts are the same; acceptance by class, from the requests themselves, sums to the server's counters."""
    events: list[Event] = []
    run = Session(
        Question(prompts=sample(), structure=[name for name, _ in texts()], target="smollm"),
        ProbeSettings(concurrency=4, budget_s=120.0, look_around=False, confidence=0.9999),
        Attached(speculative_url=suffix_server.url, baseline_url=baseline_server.url),
        listen=events.append,
        one_class_per_wave=False,
    )
    ended = run.run()
    profile = run.profile(status="complete", ended=ended, created="now")
    point = profile.points[0]
    assert point.identical_share == 1.0
    assert point.pairs == len(run.record.answered("speculative", run.settings.main))
    assert profile.environment.platform == "cpu"
    assert profile.acceptance is not None
    by_class = profile.structure
    assert sum(c.drafts for c in by_class.values()) == profile.acceptance.drafts
    assert sum(c.accepted_tokens for c in by_class.values()) == profile.acceptance.accepted_tokens
    windows = [t.wave.window for t in run.record.waves if t.arm == "speculative"]
    counted = [w.speculation for w in windows if w is not None and w.speculation is not None]
    assert sum(c.drafts or 0 for c in counted) == profile.acceptance.drafts
    assert sum(c.accepted_tokens for c in counted) == profile.acceptance.accepted_tokens
    assert max(w.running or 0 for w in profile.waves) <= 4


def test_servers_in_turn_decide_or_say_that_the_budget_ended(command, serve_environment, tmp_path) -> None:
    """A decisive verdict, or an open one for lack of budget; advice with the profile agrees; no process is left."""
    done = subprocess.run(
        [*command, "--budget", "60"], capture_output=True, text=True, timeout=400, env=os.environ | serve_environment
    )
    assert done.returncode == 0, done.stderr
    profile = Profile.model_validate_json((tmp_path / "profile.json").read_text())
    assert profile.environment.engine_version is not None
    assert profile.environment.platform == "cpu"
    assert profile.environment.per_request_metrics
    assert profile.points[0].identical_share == 1.0
    assert profile.acceptance is not None
    decision = profile.decision
    assert decision.decisive or BUDGET_ENDED in decision.text or "the prompts ended first" in decision.text
    advised = subprocess.run(
        [str(SPECWORTH), "advise", str(tmp_path / "prompts.jsonl"), "--profile", str(tmp_path / "profile.json"),
         "--gpu", HOST, "--json"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    answer = json.loads(advised.stdout)
    assert answer["basis"] == "measured", advised.stderr
    measured = profile.points[0].end_to_end
    assert measured is not None
    assert measured.low <= answer["speedup"]["end_to_end"]["value"] <= measured.high
    if decision.decisive:
        assert answer["verdict"] == decision.verdict


def test_a_server_that_is_killed_leaves_a_partial_profile(command, serve_environment, tmp_path) -> None:
    """Killed amid its wave: one line with the reason, what was answered before, exit code 1, and no orphan."""
    process = subprocess.Popen(
        [*command, "--events"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | serve_environment,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "progress" and told.get("answered", 0) >= 3:
            break
    server = servers_of(process)[0]
    os.killpg(server, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert len(errors.strip().splitlines()) == 1, errors
    assert "SIGKILL" in errors
    assert not group_lives(server)
    profile = Profile.model_validate_json((tmp_path / "profile.json").read_text())
    assert profile.status == "partial"
    assert profile.waves[0].answered >= 3


def test_a_signal_while_vllm_starts_leaves_no_process(command, serve_environment) -> None:
    """vLLM's own children are amid their imports; all of the group ends."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | serve_environment
    )
    deadline = time.monotonic() + 60
    while not (found := servers_of(process)) or found[0] == process.pid or not _serves(found[0]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(5)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert not group_lives(found[0])
    assert "nothing was measured" in errors


def test_sampling_is_refused_before_anything_starts(command, serve_environment) -> None:
    """The build tells that it is for a CPU; the reason and the remedy stand in one line."""
    done = subprocess.run(
        [*command, "--temperature", "0.7"], capture_output=True, text=True, timeout=60,
        env=os.environ | serve_environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert "55005" in done.stderr
    assert "--temperature 0" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def _serves(pid: int) -> bool:
    try:
        return b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
