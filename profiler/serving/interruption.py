"""What happens to started servers when we are told to stop: Ctrl-C, SIGTERM and a closed terminal unwind the stack.

Python turns SIGINT alone into an exception; SIGTERM would end us at once and leave the server's process group behind.
Inside `interruptible()` each of them raises `Interrupted`, so that every `finally` runs. Inside `held()` they wait:
between the birth of a process and our knowing of it, and while it is being stopped, nothing may break in.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

Answer = TypeVar("Answer")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_depth = 0
_waiting: int | None = None


class Interrupted(KeyboardInterrupt):
    """A signal told us to stop; a KeyboardInterrupt, so that nothing that catches Exception swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def name(self) -> str:
        """The signal as people call it."""
        return "Ctrl-C" if self.number == signal.SIGINT else signal.Signals(self.number).name

    @property
    def exit_code(self) -> int:
        """As a shell has it: 128 plus the signal's number."""
        return 128 + self.number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the main thread for the length of a `with` block; elsewhere there is nothing to install."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _receive) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let no signal break in; one that came meanwhile is raised at the end."""
    global _depth, _waiting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0 and _waiting is not None:
            number, _waiting = _waiting, None
            raise Interrupted(number)


def run_interruptibly(work: Coroutine[Any, Any, Answer]) -> Answer:
    """asyncio.run, in which a signal cancels the work and is raised as Interrupted once everything is closed.

    A handler that raises amid the steps of the loop would leave tasks behind, with an error that nobody took.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(work)
    stopped: list[int] = []

    async def guarded() -> Answer:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int) -> None:
            if not stopped and task is not None:
                stopped.append(number)
                task.cancel()

        for number in _SIGNALS:
            loop.add_signal_handler(number, stop, number)
        try:
            return await work
        finally:
            # The loop puts the default handlers back when it closes; until ours are, nothing may come through.
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        if stopped:
            raise Interrupted(stopped[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _receive(number: int, _: FrameType | None) -> None:
    global _waiting
    if _depth:
        _waiting = number
        return
    raise Interrupted(number)
