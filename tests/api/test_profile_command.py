"""`specworth profile` with processes of its own: whatever ends it, none is left and what was measured is kept.

The servers are stand-ins (tests/fake_serve.py) that are started as vLLM is; tests/real_vllm starts vLLM itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from profiler.probe.profile import Profile

SERVE = Path(__file__).resolve().parents[1] / "fake_serve.py"
CONFIG = '{"method": "ngram", "num_speculative_tokens": 4}'
SLOW = {"ttft_s": 0.01, "step_s": 0.02, "speculative": {"tokens_per_step": 3}}  # far above what a busy host adds


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Sixty prompts at temperature 0."""
    lines = [
        json.dumps({"prompt": f"Write story {i} about the cat on the mat", "max_tokens": 13, "temperature": 0})
        for i in range(60)
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def command(sample: Path, tmp_path: Path) -> Any:
    """The command line for servers with these knobs; the model's name marks their processes."""

    def line(*more: str, model: str = f"fake-{tmp_path.name}", **knobs: Any) -> list[str]:
        return [
            shutil.which("specworth", path=str(Path(sys.executable).parent)) or "specworth", "profile", str(sample),
            "--target", model, "--speculative-config", CONFIG, "--python", f"{sys.executable} {SERVE}",
            "--serve-arguments", f"--knobs '{json.dumps(SLOW | knobs)}'", "--concurrency", "4", "--budget", "30",
            "--out", str(tmp_path / "profile.json"), "--log-folder", str(tmp_path / "logs"), *more,
        ]  # fmt: skip

    return line


def started(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def server_pids(model: str) -> list[int]:
    """Processes that serve this model."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(SERVE).encode() in words and model.encode() in words:
                found.append(int(entry.name))
    return found


def wait_for(condition: Any, *, timeout_s: float = 30.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("nothing happened in time")


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def read(tmp_path: Path) -> Profile:
    return Profile.model_validate_json((tmp_path / "profile.json").read_text())


def test_two_servers_in_turn_give_a_verdict(command: Any, tmp_path: Path) -> None:
    """The baseline is gone before the speculative server starts; the profile has both, and the verdict."""
    done = subprocess.run(command("--no-look-around"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    profile = read(tmp_path)
    assert profile.status == "complete"
    assert profile.decision.verdict == "enable"
    assert profile.decision.decisive
    assert profile.points[0].tpot is not None
    assert 1.5 < profile.points[0].tpot.value < 4.0
    assert set(profile.spent) == {"baseline", "speculative"}
    assert {w.arm: w.prompts for w in profile.waves} == {
        "baseline": 16,
        "speculative": 16,
    }
    assert "Enable speculation" in done.stdout
    assert done.stderr.index("baseline: server stopped") < done.stderr.index("speculative: starting")
    assert not server_pids(profile.target)


def test_an_open_question_starts_the_baseline_again_for_more_prompts(command: Any, tmp_path: Path) -> None:
    """Two servers alike leave 1.0 open: both answer all sixty prompts, each once, and the second start is told."""
    alike = {"jitter_s": 0.3, "speculative": {"tokens_per_step": 1}}
    words = command("--min-speedup", "1", "--confidence", "0.9999", "--no-look-around", **alike)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    profile = read(tmp_path)
    assert not profile.decision.decisive
    assert "the prompts ended first" in profile.decision.text
    asked = {a: sum(w.prompts for w in profile.waves if w.arm == a) for a in ("baseline", "speculative")}
    assert asked == {"baseline": 60, "speculative": 60}
    assert profile.points[0].pairs == 60
    assert profile.points[0].end_to_end is not None
    assert profile.points[0].end_to_end.looks == 3  # rounds of 16, 16 and 28
    assert any("16 prompts left the question open" in note for note in profile.notes)
    assert done.stderr.index("speculative: server stopped") < done.stderr.rindex("baseline: starting")
    assert not server_pids(profile.target)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_in_a_wave_leaves_a_partial_profile_and_no_process(
    command: Any, tmp_path: Path, number: signal.Signals
) -> None:
    """The server and what it started end with us; what was answered is kept."""
    model = f"fake-{tmp_path.name}"
    process = started(command("--events", child=True))
    assert process.stdout is not None
    waves = 0
    for line in process.stdout:
        waves += json.loads(line)["event"] == "wave_started"
        if waves == 2:
            break
    group = os.getpgid(server_pids(model)[0])
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert not group_lives(group)
    assert not server_pids(model)
    assert len(errors.strip().splitlines()) == 1
    assert "partial" in errors
    profile = read(tmp_path)
    assert profile.status == "partial"
    assert profile.ended.startswith("stopped by")
    assert profile.waves[0].answered == 16
    assert profile.waves[0].stopped_early is None
    assert [w.stopped_early for w in profile.waves[1:]] in ([], ["interrupted"])  # nothing, or what was answered


def test_a_signal_amid_a_wave_keeps_its_answers(command: Any, tmp_path: Path) -> None:
    """The wave that was running is in the profile, with the answers that had come, and named as interrupted."""
    process = started(command("--events"))
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "progress" and told.get("answered", 0) >= 5:
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "(partial)" in errors
    profile = read(tmp_path)
    (wave,) = profile.waves
    assert wave.stopped_early == "interrupted"
    assert 5 <= wave.answered < 16
    assert wave.ttft_ms is not None
    assert profile.status == "partial"
    assert not server_pids(f"fake-{tmp_path.name}")


def test_nobody_reading_the_events_costs_nothing_that_was_measured(command: Any, tmp_path: Path) -> None:
    """`--events | head` closes the pipe amid a wave: it ends there, the answers are kept, no server is left."""
    process = started(command("--events"))
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "progress" and told.get("answered", 0) >= 5:
            break
    process.stdout.close()
    assert process.wait(60) == 141
    profile = read(tmp_path)
    assert profile.status == "partial"
    assert profile.waves[0].answered >= 5
    assert not server_pids(f"fake-{tmp_path.name}")


@pytest.mark.parametrize("phase", ["starting", "in a wave"])
def test_no_server_outlives_us_even_when_we_are_killed(command: Any, tmp_path: Path, phase: str) -> None:
    """SIGKILL leaves nobody to clean up but the watchdog; what the server started ends, too."""
    model = f"fake-{tmp_path.name}"
    process = started(command("--events", child=True, **({"start": "never"} if phase == "starting" else {})))
    assert process.stdout is not None
    if phase == "in a wave":
        for line in process.stdout:
            if json.loads(line)["event"] == "wave_started":
                break
    group = os.getpgid(wait_for(lambda: server_pids(model))[0])
    assert group != os.getpgid(process.pid)
    time.sleep(0.2)  # a watchdog starts right after the server
    process.kill()
    process.communicate(timeout=60)
    wait_for(lambda: not group_lives(group), timeout_s=25.0)
    assert not server_pids(model)


def test_a_signal_while_a_server_starts_leaves_no_process(command: Any, tmp_path: Path) -> None:
    """Nothing was measured, so nothing is written; the half-started server ends all the same."""
    model = f"fake-{tmp_path.name}"
    process = started(command(start="never", child=False))
    pid = wait_for(lambda: server_pids(model))[0]
    group = os.getpgid(pid)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert not group_lives(group)
    assert "nothing was measured" in errors
    assert not (tmp_path / "profile.json").exists()


def test_a_server_that_is_killed_is_one_line_and_a_partial_profile(command: Any, tmp_path: Path) -> None:
    """Killed in its second wave: exit code 1, the reason, what was measured, no process."""
    model = f"fake-{tmp_path.name}"
    process = started(command("--events"))
    assert process.stdout is not None
    waves = 0
    for line in process.stdout:
        waves += json.loads(line)["event"] == "wave_started"
        if waves == 2:
            break
    os.kill(server_pids(model)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert len(errors.strip().splitlines()) == 1
    assert "SIGKILL" in errors
    assert "while it served" in errors
    assert "(partial)" in errors
    profile = read(tmp_path)
    assert profile.status == "partial"
    assert profile.waves[0].answered == 16
    assert not server_pids(model)


def test_a_server_that_does_not_start_says_why(command: Any, tmp_path: Path) -> None:
    """The reason is read from its log; what the baseline measured is kept."""
    failing = SLOW["speculative"] | {"start": "oom"}  # type: ignore[operator]
    done = subprocess.run(command(speculative=failing), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "out of memory" in done.stderr.strip().splitlines()[-1]
    profile = read(tmp_path)
    assert {w.arm for w in profile.waves} == {"baseline"}
    assert profile.decision.verdict is None


def test_side_by_side_splits_the_memory_and_says_what_that_distorts(command: Any, tmp_path: Path) -> None:
    """Both servers get half of the utilization; the profile says that it was so."""
    done = subprocess.run(command("--co-resident", "--no-look-around"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    profile = read(tmp_path)
    assert profile.environment.mode == "co-resident"
    arguments = profile.environment.serve_arguments
    assert float(arguments[arguments.index("--gpu-memory-utilization") + 1]) == pytest.approx(0.46, abs=0.01)
    assert any("shared the GPU" in note for note in profile.notes)
    assert profile.decision.decisive


@pytest.mark.parametrize("where", ["arguments", "environment"])
def test_a_key_that_the_started_servers_ask_for_is_sent_and_not_told(
    command: Any, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--api-key among the servers' arguments, or VLLM_API_KEY around us: they are asked with it; no file has it."""
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    words = command("--no-look-around")
    place = words.index("--serve-arguments") + 1
    if where == "arguments":
        words[place] += " --api-key sesame"
    else:
        monkeypatch.setenv("VLLM_API_KEY", "sesame")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert read(tmp_path).decision.decisive
    assert "sesame" not in (tmp_path / "profile.json").read_text() + done.stdout + done.stderr


def test_two_signals_are_one_and_the_measurement_is_kept(command: Any, tmp_path: Path) -> None:
    """Whoever presses Ctrl-C again while the server stops still gets the partial profile, and leaves no process."""
    process = started(command("--events", child=True))
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "progress" and told.get("answered", 0) >= 5:
            break
    group = os.getpgid(server_pids(f"fake-{tmp_path.name}")[0])
    for pause_s in (0.0, 0.05, 0.2, 0.2):
        time.sleep(pause_s)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert read(tmp_path).waves[0].answered >= 5
    wait_for(lambda: not group_lives(group), timeout_s=25.0)


def test_a_signal_between_two_servers_leaves_none(command: Any, tmp_path: Path) -> None:
    """After the one and before the other: what the baseline answered is kept, and nothing runs."""
    process = started(command("--events", "--no-look-around"))
    assert process.stdout is not None
    for line in process.stdout:
        if "baseline: server stopped" in json.loads(line).get("text", ""):
            break
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "(partial)" in errors
    assert {w.arm for w in read(tmp_path).waves} == {"baseline"}
    assert not server_pids(f"fake-{tmp_path.name}")
    last = json.loads(output.splitlines()[-1])
    assert (last["event"], last["profile"]["status"]) == ("result", "partial")


def test_a_full_disk_costs_nothing_that_was_measured(command: Any, tmp_path: Path) -> None:
    """Where the file cannot be written the profile is printed, and the exit code says that something went wrong."""
    done = subprocess.run(command("--out", "/dev/full", "--no-look-around"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "no space left on device" in done.stderr
    assert Profile.model_validate_json(done.stdout.splitlines()[0]).status == "complete"


def test_what_a_full_disk_does_not_take_is_said_to_be_elsewhere(command: Any, tmp_path: Path) -> None:
    """Stopped and unwritable at once: the message does not point at a file that is not there."""
    process = started(command("--out", "/dev/full", "--events"))
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "progress" and told.get("answered", 0) >= 5:
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "on standard output (partial)" in errors
    assert "in /dev/full" not in errors


def test_events_are_json_lines_and_end_with_the_profile(command: Any) -> None:
    """A program reads everything from standard output, and nothing else stands there."""
    done = subprocess.run(command("--events", "--no-look-around"), capture_output=True, text=True, timeout=60)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "result"
    assert Profile.model_validate(events[-1]["profile"]).decision.decisive
    assert {"phase", "wave_started", "progress", "wave_finished", "look"} <= {e["event"] for e in events}


def test_quiet_says_nothing_but_the_result(command: Any) -> None:
    """No progress on standard error; the summary and where the profile is."""
    done = subprocess.run(command("--quiet", "--no-look-around"), capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().splitlines() == [done.stderr.strip()]
    assert "written to" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "m"], "--speculative-config is missing"),
        (["--speculative-config", CONFIG], "--target is missing"),
        (["--target", "m", "--speculative-config", "nowhere.json"], "--speculative-config"),
        (["--target", "m", "--speculative-config", CONFIG, "--serve-arguments", "--port 1"], "--port is set by"),
        (["--target", "m", "--speculative-config", CONFIG, "--serve-arguments", "'"], "--serve-arguments"),
        (["--target", "m", "--speculative-config", CONFIG, "--api-key-env", "X"], "servers that run already"),
        (["--target", "m", "--speculative-config", CONFIG, "--python", "/nowhere/python"], "--python"),
        (["--baseline-url", "http://127.0.0.1:9"], "--speculative-url"),
        (["--speculative-url", "http://127.0.0.1:9"], "does not answer"),
        (["--speculative-url", "ftp://x"], "is no address of a server"),
        (["--speculative-url", "http://x:port"], "is no address of a server"),
        (["--speculative-url", ""], "is no address of a server"),
        (["--target", "m", "--speculative-config", CONFIG, "--serve-arguments", "--ssl_keyfile k"], "is not reached"),
        (
            ["--target", "m", "--speculative-config", CONFIG, "--serve-arguments", "--speculative_config={}"],
            "is set by",
        ),
        (["--speculative-url", "http://x", "--co-resident"], "--co-resident"),
        (["--speculative-url", "http://x", "--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
        (["--speculative-url", "http://x", "--out", "/nowhere/p.json"], "no folder"),
        (["--speculative-url", "http://x", "--objective", "speed"], "end_to_end or tpot"),
    ],
)
def test_wrong_usage_is_one_line(in_process: Any, sample: Path, words: list[str], said: str) -> None:
    """Told before anything starts, without a traceback."""
    done = in_process("profile", sample, *words)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
