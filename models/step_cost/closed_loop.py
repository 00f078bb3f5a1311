"""How long does a request take where b of them run in a closed loop, each replaced as it ends?

Derivation. A request lives through c passes that prefill it (one, or one a chunk), S = (n - 1) / τ passes that decode
it, and w passes that go by before the engine takes it in (it arrives while passes are in flight; with a single slot
none are). Passes are common to all slots, so that a slot is in prefill in a share q = c / (c + S + w) of them, and the
number j of prefills in a pass is binomial, B(b, q), where requests are out of step with one another. With T(j) the time
of a pass that carries j prefills,

    own   = E[j T(j)] / E[j]               a pass that prefills this request
    other = E[(b - j) T(j)] / E[b - j]     a pass that does not: it decodes, or waits
    TTFT  = r + w · other + c · own        r: the host's work for one request
    E2E   = TTFT + S · other = r + (c + S + w) · E[T(j)]
    TPOT  = S · other / (n - 1)

Where a prefill only adds its own time, T(j) = T(0) + j · t_prefill and w = r = 0, the last line but one is the known
E2E = b · t_prefill + steps · T_step, since E[j] = b q; with a single slot it is t_prefill + S · T(0) exactly. What the
closed form adds is the cost of a *mixed* pass: prefills raise every pass that carries one to a floor, and fewer passes
(speculation) carry fewer floors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.step_cost.passes import PREFILL_GRID

_EXACT = 4  # passes with 0 to 3 prefills (PREFILL_GRID begins so) are weighed one by one, those with more at their mean


@dataclass(frozen=True, slots=True)
class PassCosts:
    """What passes of one arm cost; equal-length arrays, one row a deployment and traffic."""

    running: Floats  # slots of the loop: sequences that run at once
    pass_ms: Floats  # (n, G): a pass with PREFILL_GRID prefills beside the decodes of the other slots
    prefill_chunks: Floats  # passes that one prompt's prefill takes
    joining_passes: Floats  # passes in flight that a new request waits for
    request_ms: Floats  # the host's work for one request, once

    @property
    def step_ms(self) -> Floats:
        """A pass of decodes alone: the step time."""
        return self.pass_ms[:, 0]

    def scaled(self, factor: Floats | float) -> PassCosts:
        """The same arm on a machine that takes `factor` times as long."""
        of_rows = np.broadcast_to(np.asarray(factor, dtype=np.float64), self.running.shape)
        return PassCosts(
            self.running, self.pass_ms * of_rows[:, None], self.prefill_chunks, self.joining_passes,
            self.request_ms * of_rows,
        )  # fmt: skip

    def rows(self, index: NDArray[np.int64] | slice) -> PassCosts:
        """Some of the rows."""
        return PassCosts(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def concatenate(cls, arms: Sequence[PassCosts]) -> PassCosts:
        """The rows of several arms, one after the other."""
        return cls(*(np.concatenate([getattr(arm, field.name) for arm in arms]) for field in fields(cls)))


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of one request in the loop, in milliseconds; equal-length arrays."""

    end_to_end_ms: Floats
    first_token_ms: Floats
    tpot_ms: Floats  # per output token after the first, the prefills of the others included


def closed_loop(costs: PassCosts, *, tokens_per_step: Floats, output_tokens: Floats) -> Latencies:
    """Latencies of requests of `output_tokens` tokens (the mean of answers) at τ tokens a decode step."""
    left = np.maximum(output_tokens - 1.0, 1e-9)
    # The first token is the prefill's; what is left takes one step at least.
    steps = np.maximum(left / tokens_per_step, np.minimum(left, 1.0))
    b, chunks = costs.running, costs.prefill_chunks
    waits = costs.joining_passes * (1.0 - 1.0 / np.maximum(b, 1.0))
    cycle = chunks + steps + waits
    at, weight = _prefills(b, chunks / cycle)
    pass_ms = np.column_stack([costs.pass_ms[:, :_EXACT], _interpolated(costs.pass_ms, at[:, _EXACT])])
    own = _mean(pass_ms, weight * at, costs.pass_ms[:, 1])
    other = _mean(pass_ms, weight * np.maximum(b[:, None] - at, 0.0), costs.pass_ms[:, 0])
    first = costs.request_ms + waits * other + chunks * own
    return Latencies(first + steps * other, first, steps * other / left)


def _mean(values: Floats, weight: Floats, otherwise: Floats) -> Floats:
    """Weighted mean of each row, `otherwise` where nothing weighs anything."""
    whole = weight.sum(axis=1)
    some = whole > 1e-12
    mean: Floats = np.where(some, (values * weight).sum(axis=1) / np.where(some, whole, 1.0), otherwise)
    return mean


def _prefills(slots: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Numbers of prefills in a pass (n, 5) and their probabilities: B(slots, share), the tail at its mean."""
    q = np.minimum(share, 1.0 - 1e-9)
    odds = q / (1.0 - q)
    at = np.empty((slots.shape[0], _EXACT + 1))
    weight = np.empty_like(at)
    probability = np.exp(slots * np.log1p(-q))
    for j in range(_EXACT):
        at[:, j], weight[:, j] = j, probability
        probability = probability * np.maximum(slots - j, 0.0) / (j + 1.0) * odds
    rest = np.clip(1.0 - weight[:, :_EXACT].sum(axis=1), 0.0, 1.0)
    seen = (weight[:, :_EXACT] * at[:, :_EXACT]).sum(axis=1)
    mean = (slots * q - seen) / np.maximum(rest, 1e-12)
    at[:, _EXACT] = np.clip(np.where(rest > 1e-9, mean, _EXACT), 0.0, np.maximum(slots, _EXACT))
    weight[:, _EXACT] = rest
    return at, weight


def _interpolated(costs: Floats, at: Floats) -> Floats:
    """Costs (n, G) at another number of prefills (n,), linear between those of PREFILL_GRID."""
    right = np.clip(np.searchsorted(PREFILL_GRID, at, side="right"), 1, PREFILL_GRID.size - 1)
    low, high = PREFILL_GRID[right - 1], PREFILL_GRID[right]
    part = (at - low) / (high - low)
    rows = np.arange(costs.shape[0])
    between: Floats = costs[rows, right - 1] * (1.0 - part) + costs[rows, right] * part
    return between
