"""A task tells its files as they grow, runs its command as if nobody had called it from Ray, and leaves nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import profiler
from profiler.cluster.sweep import grid_files
from profiler.cluster.task import INTERPRETER, OUTPUT, SECONDS_LEFT, Work, carry_out, look_for_vllm
from profiler.sweep.grid import only_engines, read_grid
from tests.profiler.test_sweep import GRIDS
from tests.profiler.test_sweep_process import gone

WRITE = """
import json, os, sys, time
rows = open("rows", "a", buffering=1)
for number in range(3):
    print("row", number, flush=True)
    rows.write(json.dumps({"n": number}) + "\\n")
    time.sleep(0.3)
rows.write("cut sho")
open("log", "wb").write(b"x" * 100_000)
open("environment", "w").write(json.dumps(dict(os.environ) | {"cwd": os.getcwd(), "words": sys.argv[1:]}))
sys.exit(7)
"""


def work(script, *words, **changes):
    files = {"script.py": script}
    return Work(name="base", command=(INTERPRETER, "script.py", *words), files=files, **changes)


def test_lines_come_while_the_command_runs():
    """Whole ones as they end, a cut one at the end; kept files in pieces; then the exit code."""
    told = list(carry_out(work(WRITE, told=("rows",), kept=("log", "missing"))))
    assert told[0].kind == "began"
    assert next(news.lines for news in told if news.name == "rows") == ('{"n": 0}',)
    assert [line for news in told if news.name == "rows" for line in news.lines][-1] == "cut sho"
    assert [line for news in told if news.name == OUTPUT for line in news.lines] == ["row 0", "row 1", "row 2"]
    assert b"".join(news.piece for news in told if news.kind == "file") == b"x" * 100_000
    assert (told[-1].kind, told[-1].exit_code) == ("ended", 7)


def test_the_command_runs_as_if_alone(monkeypatch):
    """Ray's variables and the thread count that it sets are gone, what it says of GPUs is there, and our source."""
    for name, value in {"RAY_JOB_ID": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "3"}.items():
        monkeypatch.setenv(name, value)
    told = list(carry_out(work(WRITE, SECONDS_LEFT, kept=("environment",), until=time.time() + 100)))
    seen = json.loads(b"".join(news.piece for news in told if news.kind == "file"))
    assert "RAY_JOB_ID" not in seen
    started = Path("/proc/self/environ").read_bytes().split(b"\0")
    assert ("OMP_NUM_THREADS" in seen) == any(pair.startswith(b"OMP_NUM_THREADS=") for pair in started)
    assert seen["CUDA_VISIBLE_DEVICES"] == "3"
    assert seen["PYTHONPATH"] == str(Path(profiler.__file__).parent.parent)
    assert 90 <= float(seen["words"][0]) <= 100
    assert not Path(seen["cwd"]).exists()


def test_a_cancelled_task_stops_its_command():
    """As Ray cancels it: an exception where it waits. The command may end in order first."""
    script = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"
    telling = carry_out(work(script, grace_s=5.0))
    pid = next(int(news.lines[0]) for news in telling if news.kind == "lines")
    with pytest.raises(KeyboardInterrupt):
        telling.throw(KeyboardInterrupt)
    assert gone(pid)


def test_a_killed_task_leaves_no_command():
    """Ray kills a task's process where its caller or its node is lost."""
    code = f"""if True:
        from profiler.cluster.task import Work, carry_out
        for news in carry_out(Work("base", ({sys.executable!r}, "-c", "import os, time; print(os.getpid()); time.sleep(600)"), grace_s=1.0)):
            print(*news.lines, flush=True)
    """  # noqa: E501
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "\n"  # it began
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    assert gone(pid)


@pytest.mark.parametrize(
    ("python", "why"), [("/no/such", "no program /no/such"), (None, f"{sys.executable} has no vLLM")]
)
def test_an_interpreter_without_vllm_is_told(python, why):
    """With the node's name."""
    assert look_for_vllm(python) == (os.uname().nodename, why)


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_an_engines_own_grid_has_the_same_cells(path, tmp_path):
    """What travels to a node names the same cells, whatever is left of an engine."""
    grid = read_grid(path)
    for spec in grid.engines:
        for points in (spec.points, spec.points[1:2]):
            for name, text in grid_files(grid, spec, points or spec.points).items():
                (tmp_path / name).write_text(text)
            (there,) = only_engines(read_grid(tmp_path / "grid.yaml"), [spec.name]).engines
            assert [there.key(p) for p in there.points] == [spec.key(p) for p in points or spec.points]
            assert there.settings == spec.settings
