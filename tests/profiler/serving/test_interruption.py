"""Signals end a session by unwinding it, never amid the birth or the end of a process."""

import asyncio
import os
import signal
import threading
import time

import pytest

from profiler.serving.interruption import Interrupted, held, interruptible, run_interruptibly


def send(number: int = signal.SIGTERM) -> None:
    """Ours, and wait until Python has run the handler."""
    os.kill(os.getpid(), number)
    time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unwinds_the_stack(number: int) -> None:
    """Each of the three is raised where we are, and the handlers of before come back."""
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as told, interruptible():
        send(number)
    assert told.value.exit_code == 128 + number
    assert signal.getsignal(number) == before


def test_what_is_held_is_finished_first() -> None:
    """A signal that comes while a process is born or ended is raised after it."""
    done = []

    def bear() -> None:
        with held():
            send()
            done.append("inside")
        done.append("never")

    with pytest.raises(Interrupted), interruptible():
        bear()
    assert done == ["inside"]


def test_work_is_cancelled_and_closed() -> None:
    """Inside asyncio the work's own cleanup runs, and nothing is left over for the next signal."""
    closed = []

    async def work() -> None:
        try:
            asyncio.get_running_loop().call_later(0.05, send)
            await asyncio.sleep(30)
        finally:
            closed.append(True)

    with interruptible():
        with pytest.raises(Interrupted, match="SIGTERM"):
            run_interruptibly(work())
        with pytest.raises(Interrupted):
            send()
    assert closed == [True]


def test_work_that_ends_by_itself_is_answered() -> None:
    """Without a signal it is asyncio.run."""

    async def work() -> int:
        return 7

    assert run_interruptibly(work()) == 7
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_another_thread_is_left_alone() -> None:
    """Handlers belong to the main thread; elsewhere there is nothing to install, and nothing breaks."""
    found = []

    def elsewhere() -> None:
        async def work() -> str:
            return "done"

        with interruptible(), held():
            found.append(run_interruptibly(work()))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(10)
    assert found == ["done"]
