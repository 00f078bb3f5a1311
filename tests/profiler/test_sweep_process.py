"""Nothing of an engine outlives its sweep, and nothing that it measured is lost, however the sweep ends."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler.sweep import session
from profiler.sweep.__main__ import main
from profiler.sweep.grid import read_grid
from profiler.sweep.process import attend, lead_group, running
from profiler.sweep.rows import RowsError, append_row, read_rows
from profiler.sweep.session import SweepOptions, run_sweep
from profiler.sweep.worker import DISK_FULL
from tests.profiler.test_sweep import small_grid

ROOT = Path(__file__).parents[2]
# A sweep's process as far as signals go: one engine whose core is a process of its own.
SWEEP = """
import multiprocessing, subprocess, sys, time
from profiler.serving.interruption import Interrupted, interruptible
from profiler.sweep.process import lead_group, running

def engine():
    lead_group()
    core = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(core.pid, flush=True)
    time.sleep(600)

try:
    with interruptible():
        process = multiprocessing.get_context("fork").Process(target=engine)
        with running(process):
            process.join()
except Interrupted as stop:
    sys.exit(stop.exit_code)
"""


def lives(pid):
    """Whether the process runs; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not lives(pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_engine_outlives_its_sweep(number):
    """Signals unwind the sweep; of SIGKILL the watchdog takes care. The engine's core ends with it either way."""
    process = subprocess.Popen([sys.executable, "-c", SWEEP], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    core = int(process.stdout.readline())
    time.sleep(0.3)  # a watchdog starts right after the engine
    process.send_signal(number)
    assert process.wait(20) == (-9 if number == signal.SIGKILL else 128 + number)
    assert gone(core)


def test_an_engine_that_has_not_opened_its_group_ends_too():
    """Interrupted in the moment of its birth, it is still in our group, which must not be ended."""
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    with running(process):
        assert process.pid is not None
        assert os.getpgid(process.pid) == os.getpgid(0)
    assert gone(process.pid)


def test_a_forked_engine_has_no_handlers_of_ours():
    """What a handler would raise belongs into the sweep; an engine just ends."""

    def engine(told):
        lead_group()
        told.put([signal.getsignal(n) == signal.SIG_DFL for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)])

    context = multiprocessing.get_context("fork")
    told = context.Queue()
    with running(context.Process(target=engine, args=(told,))):
        assert told.get(timeout=10) == [True, True, True]


def test_a_row_after_a_half_written_one_stands_on_a_line_of_its_own(tmp_path):
    """A kill amid a write costs that row alone, not the one that the resumed sweep measures next."""
    path = tmp_path / "rows.jsonl"
    append_row(path, {"key": "a"})
    with path.open("a") as file:
        file.write('{"key": "b", "tok')
    append_row(path, {"key": "c"})
    append_row(path, {"key": "d"})
    assert [row["key"] for row in read_rows([path])] == ["a", "c", "d"]
    assert path.read_text().count("\n") == 4


@pytest.mark.parametrize("damage", [b"[]\n", b"{}\n", b"7\n", b"\x00\x00\x00\n", b"\xff\xfe\n", b'"key"\n'])
def test_what_is_no_row_is_left_out_and_told(tmp_path, capsys, damage):
    """A torn page or an edited line is no reason to lose the others, nor for a traceback."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"key": "a"}\n' + damage + b'{"key": "b"}\n')
    assert [row["key"] for row in read_rows([path])] == ["a", "b"]
    assert "rows.jsonl:2" in capsys.readouterr().err


def test_a_full_disk_is_one_line_that_says_how_to_go_on():
    """/dev/full takes no byte."""
    with pytest.raises(RowsError, match="no space left") as told:
        append_row(Path("/dev/full"), {"key": "a"})
    assert "--resume" in told.value.line()


def test_a_full_disk_ends_the_sweep_at_once(tmp_path, monkeypatch, capsys):
    """No other engine is started for rows that cannot be kept; exit code 1 and one line."""
    started = []

    def engine(task, heartbeat, told):
        heartbeat.value += 1.0
        os._exit(DISK_FULL)

    monkeypatch.setattr(session, "import_vllm", lambda architectures=(): started.append("import") or "0")
    monkeypatch.setattr(session, "cuda_is_initialized", lambda: False)
    monkeypatch.setattr(session, "run_engine", engine)
    assert main([str(small_grid(tmp_path)), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "cannot be written" in told.err
    assert "other: 2 cells" in told.out
    assert "base: 2 cells" not in told.out


def test_a_sweep_in_which_every_engine_fails_is_a_failure(tmp_path, monkeypatch, capsys):
    """Exit code 1, so that a script does not take an empty folder for a measurement."""

    def engine(task, heartbeat, told):
        append_row(task.engines, {"engine": task.spec.name, "error": "told to fail"})
        os._exit(1)

    monkeypatch.setattr(session, "import_vllm", lambda architectures=(): "0")
    monkeypatch.setattr(session, "cuda_is_initialized", lambda: False)
    monkeypatch.setattr(session, "run_engine", engine)
    arguments = [str(small_grid(tmp_path)), "--out", str(tmp_path / "out"), "--start-method", "fork"]
    monkeypatch.setattr(session.multiprocessing, "get_context", lambda method: multiprocessing.context.ForkContext())
    assert main(arguments) == 1
    assert "0 cells" in capsys.readouterr().out


def test_a_sweep_with_nothing_left_imports_nothing(tmp_path, monkeypatch, capsys):
    """--resume on a finished folder answers at once: importing vLLM takes 10 to 20 s and may need the GPU host."""

    def never(architectures=()):
        raise AssertionError("vLLM was imported")

    monkeypatch.setattr(session, "import_vllm", never)
    grid, out = read_grid(small_grid(tmp_path)), tmp_path / "out"
    for spec in grid.engines:
        for point in spec.points:
            out.mkdir(exist_ok=True)
            append_row(out / "rows.jsonl", {"key": spec.key(point), "engine": spec.name, "ended_by": "enough"})
    assert run_sweep(grid, SweepOptions(out=out, work=tmp_path / "work", resume=True)) == (0, 0)
    assert "nothing is left" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["profiler.sweep", "profiler.sweep.served"])
def test_an_engine_that_the_grid_lacks_is_refused_without_the_command_line_too(tmp_path, capsys, module):
    """`python -m profiler.sweep --only nothing` would else measure nothing, and say that all went well."""
    from profiler.sweep import served

    run = main if module == "profiler.sweep" else served.main
    assert run([str(small_grid(tmp_path)), "--out", str(tmp_path / "out"), "--only", "nothing"]) == 2
    assert "no such engine" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    assert main([str(small_grid(tmp_path)), "--out", str(tmp_path / "file" / "out")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def beat_for_a_while(heartbeat, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        heartbeat.value = time.monotonic()
        time.sleep(0.02)
    time.sleep(60.0)


@pytest.mark.parametrize(
    ("target", "limit_s", "reason"),
    [(beat_for_a_while, 60.0, "no output"), (beat_for_a_while, 0.3, "the time limit came"), (None, 60.0, None)],
)
def test_an_engine_that_stands_still_or_takes_too_long_is_not_waited_for(tmp_path, target, limit_s, reason):
    """While it beats it is let be; what ends by itself needs no reason."""
    context = multiprocessing.get_context("fork")
    heartbeat, began = context.Value("d", time.monotonic()), time.monotonic()
    process = context.Process(target=target, args=(heartbeat, 0.6) if target else ())
    with running(process):
        found = attend(process, heartbeat, tmp_path / "no.log", until=began + limit_s, stall_s=0.5)
    assert (found or "").startswith(reason or "")
    assert (found is None) is (reason is None)
    assert time.monotonic() - began > (1.0 if reason == "no output" else 0.0)
    assert not process.is_alive()
