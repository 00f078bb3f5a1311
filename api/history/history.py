"""How does the service wait for its database? Beside the event loop, for a bounded time, and never in silence.

**The rule.** An answer goes out only after its commit. A database that is locked, away, full or restarting is asked
again until `wait_s` is over, counted from the moment the work was handed over; then UnavailableError says so (over HTTP
503 with Retry-After), and the client has no answer that could be lost. Whether a commit whose confirmation did not
arrive took place is nobody's knowledge: such a recommendation may be stored without having been acknowledged, never
the other way round.

Statements run in threads, as many as there are connections. One that hangs beyond the limit (a server that was stopped
in the middle of a statement) is left to itself and keeps its connection; the caller is told in time all the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from api.history import schema
from api.history.database import Database
from api.history.errors import StorageError, UnavailableError

T = TypeVar("T")
Observer = Callable[[str, float, bool], None]  # operation, seconds, did it work

CONNECTIONS = 4  # SQLite writes one after the other anyway; PostgreSQL commits together what comes together
_PAUSE_S = 0.05  # between two attempts
_GRACE_S = 0.5  # in which a thread tells by itself why it gave up

logger = logging.getLogger("specworth.history")


def _unobserved(_operation: str, _seconds: float, _worked: bool) -> None:
    return None


def patiently(function: Callable[[], T], *, until: float) -> T:
    """The result; asked for again while the database is not available, until time.monotonic() reaches `until`."""
    while True:
        try:
            return function()
        except UnavailableError:
            if time.monotonic() + _PAUSE_S >= until:
                raise
        time.sleep(_PAUSE_S)


class History:
    """The database as routes use it: functions of `api.history.recommendations` and `profiles`, run with patience."""

    def __init__(self, database: Database, *, wait_s: float, max_waiting: int, observe: Observer = _unobserved) -> None:
        self.database = database
        self._wait_s = wait_s
        self._max_waiting = max_waiting
        self._observe = observe
        self._limiter: anyio.CapacityLimiter | None = None
        self._prepared = False

    async def run(self, operation: str, function: Callable[[Database], T], *, wait_s: float | None = None) -> T:
        """The function's result. Raises UnavailableError after `wait_s` (the service's setting where left out)."""
        wait = self._wait_s if wait_s is None else wait_s
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(CONNECTIONS)
        began, worked = time.monotonic(), False
        try:
            if self._limiter.statistics().tasks_waiting >= self._max_waiting:
                raise UnavailableError(f"the database keeps {self._max_waiting} requests waiting already")
            with anyio.fail_after(wait + _GRACE_S):
                result = await anyio.to_thread.run_sync(
                    partial(patiently, partial(self._attempt, function), until=began + wait),
                    limiter=self._limiter,
                    abandon_on_cancel=True,
                )
            worked = True
            return result
        except TimeoutError:
            raise UnavailableError(f"the database did not answer within {wait:g} s") from None
        finally:
            self._observe(operation, time.monotonic() - began, worked)

    def _attempt(self, function: Callable[[Database], T]) -> T:
        self.prepare()
        return function(self.database)

    def prepare(self) -> None:
        """Bring the tables up to date, once; called before any statement, and by whoever starts the service."""
        if not self._prepared:
            schema.prepare(self.database)
            self._prepared = True

    def prepare_if_there(self) -> None:
        """The same at the start of a service, which may come up before its database does."""
        try:
            self.prepare()
        except UnavailableError as error:
            logger.warning("not ready: %s; the service starts and asks again", error)

    async def check(self) -> None:
        """Raise StorageError where the database does not answer, or has not our tables."""
        found = await self.run("check", schema.inspect, wait_s=1.0)
        if not found.current:
            raise StorageError(
                "the database has other tables", expected=f"revision {found.wanted}", got=str(found.found),
                remedy="specworth database upgrade",
            )  # fmt: skip

    async def wipe_deleted(self) -> None:
        """Leave nothing of what was deleted in the database's log; where that is busy, the next deletion does."""
        try:
            await self.run("wipe", Database.wipe_deleted)
        except UnavailableError as error:
            logger.warning("deleted, but %s", error)

    def close(self) -> None:
        """Close the connections; SQLite then folds its log into the file."""
        self.database.close()
