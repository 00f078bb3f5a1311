"""What do passes of one replica take, to which prompts come at random, by how many requests it holds?

Beside n requests a pass carries the prompts that came during the pass before it: their number j is a Markov chain,
j' ~ Poisson(λ · T(n, j)), whose stationary distribution gives the mean m(n) and the spread of a pass. An arrival falls
into a pass in proportion to its length; it waits for the rest of it and for what asynchronous scheduling has in flight,
and shares its own pass with the others that came meanwhile. Prompts of unequal length are batches of (1 + cv²) mean
ones; one of several chunks weighs as all of them in one pass. What came during the own prefill is computed while the
request decodes, so that its first passes are longer than the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from models.estimate import Floats
from models.step_cost.passes import PREFILL_GRID

_FULL = 0.999  # share of the time from which prompts come faster than they are computed
_MOST_BATCHES = 64  # that the chain of passes tells apart; more in one pass count as so many


@dataclass(frozen=True, slots=True)
class Classes:
    """What comes; arrays of C classes, those over the grid of concurrencies (n, C)."""

    share: Floats  # of the arrivals, sum 1
    tokens_left: Floats  # of an answer after its first
    tokens_per_step: Floats  # (n, C)
    step_variance: Floats  # (n, C): of the tokens that one step yields
    gain_log_sd: Floats  # (n, C): of the mean tokens per step from request to request
    prompt_size: Floats  # (C, Q): equally probable computed prompt lengths over the mean of all classes
    life_cv2: Floats  # squared coefficient of variation of a request's tokens over all classes, alone (1,)


@dataclass(frozen=True)
class Replica:
    """One replica under one mix of classes."""

    concurrency: Floats  # (n,) rising from 1 to the most that run at once
    pass_ms: Floats  # (n, G), G = PREFILL_GRID
    chunks: Floats  # (n,) passes that the mean prompt takes
    joining_passes: float
    request_ms: float
    classes: Classes
    first_token_scale: float = 1.0  # of the time to first token beyond what the passes' own scale does

    @property
    def limit(self) -> float:
        """Requests that run at once."""
        return float(self.concurrency[-1])

    def scaled(self, factor: Floats | float, *, first_token: float = 1.0) -> Replica:
        """The same replica where all takes `factor` times as long (one factor, or one for each concurrency)."""
        of_rows = np.broadcast_to(np.asarray(factor, dtype=np.float64), self.concurrency.shape)
        return replace(self, pass_ms=self.pass_ms * of_rows[:, None], first_token_scale=first_token)

    @cached_property
    def chunk_ms(self) -> float:
        """What one more chunk adds to a pass that has many: of the fullest pass, whose slots are not all prefills."""
        at = np.minimum(PREFILL_GRID, self.limit)
        last = int(np.argmax(at == at[-1]))  # beyond the slots costs do not rise any more
        return float((self.pass_ms[-1, last] - self.pass_ms[-1, last - 1]) / (at[last] - at[last - 1]))

    @cached_property
    def costs_ms(self) -> Floats:
        """`pass_ms` where also more chunks come than there are slots: arrivals do not know how many those are."""
        beyond = np.maximum(PREFILL_GRID[None, :] - self.concurrency[:, None], 0.0)
        costs: Floats = self.pass_ms + beyond * self.chunk_ms
        return costs

    @cached_property
    def batch(self) -> float:
        """Mean chunks that stand for one arrival, so that the spread of prompt lengths is that of batches."""
        weight = self.classes.share[:, None] / self.classes.prompt_size.shape[1]
        return float(np.sum(weight * self.classes.prompt_size**2) / np.sum(weight * self.classes.prompt_size) ** 2)


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of the open replica, by requests in the engine (n,)."""

    mean_ms: Floats
    relative_variance: Floats  # of one pass over its mean, those after one another correlated as they are
    first_ms: Floats  # time to first token of the mean prompt
    first_variance: Floats
    load: Floats  # share of the time that prompts take
    held_up: Floats  # the same, with what else makes passes with prompts longer: above all their launches
    backlog_ms: Floats  # (n, C): what came during the own prefill adds to the decoding after it
    backlog_variance: Floats  # (n, C)


def open_passes(replica: Replica, rate: float) -> Passes | None:
    """The chain of passes at `rate` arrivals a millisecond; None where prompts come faster than they are computed."""
    unit = replica.batch * replica.chunks  # chunks of one batch, (n,)
    batches = np.full(unit.shape, rate / replica.batch)  # a millisecond, (n,)
    load = batches * unit * replica.chunk_ms
    if load.min() >= _FULL:
        return None
    batches = np.minimum(batches, _FULL / np.maximum(unit * replica.chunk_ms, 1e-12))
    load = np.minimum(load, _FULL)
    many = batches * (replica.pass_ms[:, 1] + unit * replica.chunk_ms) / (1.0 - load)
    count = int(np.clip(np.ceil(many.max() + 6.0 * np.sqrt(many.max()) + 4.0), 8, _MOST_BATCHES))
    j = np.arange(float(count))
    times = _interpolated(replica.costs_ms, j * unit[:, None])
    own = _interpolated(replica.costs_ms, j * unit[:, None] + replica.chunks[:, None])
    coming = _poisson(batches[:, None] * times, count)  # (n, j, k)
    share = _poisson(many[:, None], count)[:, 0, :]
    for _ in range(8):  # from a Poisson number the chain is there within a few passes
        share = np.matmul(share[:, None, :], coming)[:, 0, :]
    first, second, third = ((share * times**power).sum(axis=1) for power in (1, 2, 3))
    seen = share * times / first[:, None]
    carried = np.matmul(coming, own[..., None])[..., 0]
    own_ms = (seen * carried).sum(axis=1)
    own_variance = (seen * np.matmul(coming, own[..., None] ** 2)[..., 0]).sum(axis=1) - own_ms**2
    rest, rest2 = second / (2.0 * first), third / (3.0 * first)
    together = (seen * times / 2.0 * carried).sum(axis=1) - rest * own_ms
    more = max(replica.joining_passes - 1.0, 0.0)
    # Alone there is no pass to wait for.
    waits = 1.0 - 1.0 / np.maximum(replica.concurrency, 1.0)
    extra_variance = more * (second - first**2) + more * max(1.0 - more, 0.0) * first**2
    whole = own_ms + (replica.chunks - 1.0) * replica.pass_ms[:, 0]
    mean = replica.request_ms + waits * (rest + more * first) + whole
    variance = waits * (rest2 - rest**2 + 2.0 * together + extra_variance) + own_variance
    relative = np.maximum(second / first**2 - 1.0, 0.0) * (1.0 + load) / (1.0 - load)
    # Prompts that come during the own prefill are work for later, and so are those that come meanwhile (a busy period).
    sizes = replica.classes.prompt_size.mean(axis=1)
    prefill = whole[:, None] + (replica.chunks * replica.chunk_ms)[:, None] * (sizes - 1.0)
    late = np.maximum(prefill - first[:, None], 0.0)
    backlog = (load / (1.0 - load))[:, None] * late
    backlog_variance = (batches * (unit * replica.chunk_ms) ** 2 / (1.0 - load) ** 3)[:, None] * late
    held_up = 1.0 - times[:, 0] / first
    return Passes(first, relative, mean, np.maximum(variance, 0.0), load, held_up, backlog, backlog_variance)


def _interpolated(pass_ms: Floats, at: Floats) -> Floats:
    """Passes (n, G) at other numbers of chunks (n, J), linear between those of PREFILL_GRID."""
    right = np.clip(np.searchsorted(PREFILL_GRID, at, side="right"), 1, PREFILL_GRID.size - 1)
    part = (at - PREFILL_GRID[right - 1]) / (PREFILL_GRID[right] - PREFILL_GRID[right - 1])
    rows = np.arange(at.shape[0])[:, None]
    between: Floats = pass_ms[rows, right - 1] * (1.0 - part) + pass_ms[rows, right] * part
    return between


def _poisson(mean: Floats, count: int) -> Floats:
    """Probabilities (..., count) of 0, 1, ... at each mean, what is beyond at the last."""
    k = np.arange(float(count))
    mean = np.maximum(mean, 1e-12)[..., None]
    found: Floats = np.exp(k * np.log(mean) - mean - gammaln(k + 1.0))
    found[..., -1] += np.maximum(1.0 - found.sum(axis=-1), 0.0)
    return found
