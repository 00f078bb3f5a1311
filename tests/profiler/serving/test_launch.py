"""A started server ends with us, and what keeps one from starting is named as what it is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler.errors import LaunchError
from profiler.serving.launch import ServeCommand, launched
from profiler.serving.watchdog import Watchdog

SERVE = Path(__file__).parents[2] / "fake_serve.py"


def command(*prefix: str) -> ServeCommand:
    return ServeCommand(prefix or (sys.executable, str(SERVE)), "fake")


@pytest.mark.parametrize("place", ["/proc/nowhere.log", "/dev/null/folder/server.log"])
def test_a_log_that_cannot_be_written_is_no_missing_interpreter(place: str) -> None:
    """The message names the log and the option for it, not --python."""
    with pytest.raises(LaunchError, match="log") as told, launched(command(), log=Path(place)):
        pass
    assert "--log-folder" in told.value.line()
    assert "--python" not in told.value.line()


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    """What cannot be run is in the message, with the option that names another."""
    missing = command("/nowhere/python")
    log = tmp_path / "server.log"
    with pytest.raises(LaunchError, match="cannot start /nowhere/python") as told, launched(missing, log=log):
        pass
    assert "--python" in told.value.line()


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


def test_a_dismissed_watchdog_ends_nothing_and_leaves_no_process() -> None:
    """In the ordinary case the server was stopped by us: the watchdog goes without a word."""
    process = sleeper()
    try:
        watchdog = Watchdog(process.pid)
        shell = watchdog._shell.pid
        watchdog.dismiss()
        time.sleep(0.2)
        assert process.poll() is None
        assert not Path(f"/proc/{shell}").exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_watchdog_ends_the_group_when_its_owner_is_gone(stubborn: bool) -> None:
    """SIGTERM ends what listens to it; what does not is killed after the grace period."""
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " if stubborn else ""
    code = f"{ignore}import time; print('up', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    owner = (
        "import sys; from profiler.serving.watchdog import Watchdog; Watchdog(int(sys.argv[1]), grace_s=1); "
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", owner, str(process.pid)], cwd=SERVE.parents[1], check=False)
    assert process.wait(10) == (-signal.SIGKILL if stubborn else -signal.SIGTERM)
    process.stdout.close()


def test_no_other_process_keeps_a_watchdog_asleep() -> None:
    """Only we hold its pipe: a child that outlives us must not."""
    process = sleeper()
    try:
        with Watchdog(process.pid) as watchdog:
            assert not os.get_inheritable(watchdog._held_open)
    finally:
        process.kill()
        process.wait()
