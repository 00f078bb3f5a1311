"""How many requests may one key send?

A sliding window over the time that the limit names, counted in this process: two processes behind one address allow
twice as many.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limits import RateLimitItem

NO_LIMIT = "none"


def checked_rate(text: str) -> str:
    """A rate as it is written, like 600/minute; ValueError for what is none."""
    if text.strip().lower() == NO_LIMIT:
        return NO_LIMIT
    from limits import parse

    try:
        parse(text)
    except ValueError:
        raise ValueError("a rate like 600/minute or 10/second, or none") from None
    return text


class RateLimiter:
    """Counts the requests of each key."""

    def __init__(self) -> None:
        from limits.storage import MemoryStorage
        from limits.strategies import SlidingWindowCounterRateLimiter

        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._parsed: dict[str, RateLimitItem] = {}

    def wait_s(self, rate: str, key: str) -> int | None:
        """Count one request; None where it may pass, else whole seconds until the next may."""
        if rate == NO_LIMIT:
            return None
        item = self._parsed.get(rate)
        if item is None:
            from limits import parse

            item = self._parsed[rate] = parse(rate)
        if self._limiter.hit(item, key):
            return None
        return max(1, math.ceil(self._limiter.get_window_stats(item, key).reset_time - time.time()))
