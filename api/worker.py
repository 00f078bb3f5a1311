"""Where CPU-bound answers are made: one thread, so that the event loop stays free for everyone else.

One, because predictions are many small array operations that hold the interpreter's lock: a second thread would only
make both slower. What waits is bounded; beyond that the honest answer is 503 with Retry-After, not a growing queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from pydantic import ValidationError

from api.problems import ProblemError, unexpected
from profiler.errors import SpecworthError

T = TypeVar("T")


class Worker:
    """Runs one function at a time in a thread; at most `max_waiting` callers wait."""

    def __init__(self, *, max_waiting: int) -> None:
        self._limiter = CapacityLimiter(1)
        self._max_waiting = max_waiting

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result; errors that have a form of their own come through.

        Raises a 503 problem when too many wait already, and a 500 one for what nobody foresaw: told here, it does not
        cost the client its connection.
        """
        waiting = self._limiter.statistics().tasks_waiting
        if waiting >= self._max_waiting:
            raise ProblemError(
                503,
                "busy",
                "The service is busy",
                f"{waiting} requests wait already; expected fewer than {self._max_waiting}; try again in a second",
                headers={"Retry-After": "1"},
            )
        try:
            return await anyio.to_thread.run_sync(function, limiter=self._limiter)
        except (ProblemError, SpecworthError, ValidationError):
            raise
        except Exception as error:
            raise unexpected(error) from None
