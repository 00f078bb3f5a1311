"""How fast do two answers come, and how much faster is one?

Times are the service's own, from sending to the arrival of each piece; tokens are the server's running count. The
speedup is that of one request at the same number of tokens, n = as many as both have by now:

    end to end  t_baseline(n) / t_speculative(n), with t(n) from sending to the n-th token
    decode      the same from the first token on, where both have had more than their first

so it neither favours the shorter answer nor depends on who is further. What a server does not count is unknown.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from profiler.load import Piece


@dataclass
class Pace:
    """When the tokens of one answer came."""

    started_s: float  # monotonic clock
    _tokens: list[int] = field(default_factory=list)  # running count after each piece
    _seconds: list[float] = field(default_factory=list)  # from sending
    first_s: float | None = None
    last_s: float | None = None

    def take(self, piece: Piece) -> int | None:
        """Count one piece; how many tokens it brought, None where that is not known."""
        self.last_s = piece.at_s - self.started_s
        if self.first_s is None and piece.text:
            self.first_s = self.last_s
        if piece.output_tokens is None:
            return None
        new = piece.output_tokens - self.tokens
        if new > 0:
            self._tokens.append(piece.output_tokens)
            self._seconds.append(self.last_s)
        return max(new, 0)

    @property
    def tokens(self) -> int:
        """How many have come."""
        return self._tokens[-1] if self._tokens else 0

    @property
    def counted_along(self) -> bool:
        """Whether the server counted while it answered, not at the end alone."""
        return len(self._tokens) > 1

    @property
    def first_tokens(self) -> int:
        """How many came with the first piece: no speed is known of these."""
        return self._tokens[0] if self._tokens else 0

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second after the first piece."""
        if not self.counted_along or self._seconds[-1] <= self._seconds[0]:
            return None
        return (self.tokens - self.first_tokens) / (self._seconds[-1] - self._seconds[0])

    @property
    def tokens_per_piece(self) -> float | None:
        """Mean tokens of a piece after the first: those of a decode step, while the server sends each step at once."""
        return (self.tokens - self.first_tokens) / (len(self._tokens) - 1) if self.counted_along else None

    def reached_s(self, tokens: int) -> float | None:
        """Seconds from sending until so many tokens had come."""
        position = bisect.bisect_left(self._tokens, tokens)
        return self._seconds[position] if position < len(self._seconds) else None

    def told(self) -> dict[str, float | int | None]:
        """The figures of this answer so far; times in ms."""
        return {
            "tokens": self.tokens if self._tokens else None,
            "ttft_ms": None if self.first_s is None else round(self.first_s * 1e3, 3),
            "elapsed_ms": None if self.last_s is None else round(self.last_s * 1e3, 3),
            "tokens_per_s": None if self.tokens_per_s is None else round(self.tokens_per_s, 3),
            "tokens_per_piece": None if self.tokens_per_piece is None else round(self.tokens_per_piece, 3),
        }


@dataclass(frozen=True, slots=True)
class RunningSpeedup:
    """Of one request, at the same number of tokens."""

    tokens: int
    end_to_end: float
    decode: float | None


def running_speedup(baseline: Pace, speculative: Pace) -> RunningSpeedup | None:
    """How much sooner the speculative server had as many tokens as both have; None while that is not known."""
    if not (baseline.counted_along and speculative.counted_along):
        return None
    tokens = min(baseline.tokens, speculative.tokens)
    slow, fast = baseline.reached_s(tokens), speculative.reached_s(tokens)
    if not slow or not fast:
        return None
    decode = None
    from_first = baseline.reached_s(1), speculative.reached_s(1)
    if tokens > max(baseline.first_tokens, speculative.first_tokens) and from_first[0] and from_first[1]:
        slow_decode, fast_decode = slow - from_first[0], fast - from_first[1]
        decode = slow_decode / fast_decode if slow_decode > 0 and fast_decode > 0 else None
    return RunningSpeedup(tokens, slow / fast, decode)
