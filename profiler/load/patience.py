"""How long is a request tried again that the server put off? As long as it asks for, within bounds.

HTTP 429 and 503 say "not now" (RFC 6585, RFC 9110): a limit of rate, mostly a gateway's before the server, or of the
server's own queue (vLLM 0.32 with --max-num-queued-reqs answers 503). Without a Retry-After the waits double, with
jitter, so that workers do not come back together. Given up: after some attempts, where the server asks for more than
the longest wait, and where the wave's time would be over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_result,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)


class PutOff(Protocol):
    """An attempt's outcome."""

    @property
    def retry_after_s(self) -> float | None:
        """Seconds that the server asks to wait; 0 where it does not say how long; None where there is no retrying."""


Outcome = TypeVar("Outcome", bound=PutOff)


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of trying again. The defaults wait 15 s in all where the server does not say how long."""

    attempts: int = 6
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0

    async def keep_trying(
        self, attempt: Callable[[], Awaitable[Outcome]], *, until_s: float | None = None
    ) -> tuple[Outcome, int, float]:
        """The last outcome, how often it was tried again, and the seconds waited; until_s: by the monotonic clock."""
        jitter = wait_random(0.0, self.first_wait_s)
        doubling = wait_exponential(multiplier=self.first_wait_s, max=self.longest_wait_s) + jitter

        def wait(state: RetryCallState) -> float:
            asked = _outcome(state).retry_after_s
            return asked + jitter(state) if asked else doubling(state)

        def stop(state: RetryCallState) -> bool:
            late = until_s is not None and time.monotonic() + state.upcoming_sleep > until_s
            return late or (_outcome(state).retry_after_s or 0.0) > self.longest_wait_s

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda outcome: outcome.retry_after_s is not None),
            wait=wait,
            stop=lambda state: stop_after_attempt(self.attempts)(state) or stop(state),
            retry_error_callback=_outcome,
        )
        outcome: Outcome = await retrying(attempt)
        told = retrying.statistics
        return outcome, int(told.get("attempt_number", 1)) - 1, float(told.get("idle_for", 0.0))

    def ran_out_of_time(self, outcome: PutOff, retries: int) -> bool:
        """Whether only `until_s` kept this outcome from being tried again: no fault of the server's."""
        asked = outcome.retry_after_s
        return asked is not None and asked <= self.longest_wait_s and retries + 1 < self.attempts


def retry_after_s(status: int, header: str | None) -> float | None:
    """What an answer says of trying again: seconds, 0 where it leaves them open, None where it does not put us off."""
    if status not in (429, 503):
        return None
    try:
        seconds = float(header or 0.0)
    except ValueError:
        try:
            then = parsedate_to_datetime(header or "")
        except ValueError:
            return 0.0
        seconds = ((then if then.tzinfo else then.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def _outcome(state: RetryCallState) -> Any:  # noqa: ANN401  # tenacity does not carry the type through
    assert state.outcome is not None  # set before any of these is asked
    return state.outcome.result()
