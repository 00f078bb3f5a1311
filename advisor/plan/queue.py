"""What do requests wait and take at one replica to which they come at random, at so many a second?

An open queue: Poisson arrivals at rate λ, of several classes, at an engine that batches continuously. Three parts,
each a known approximation; tests/advisor/plan/simulated.py simulates pass by pass what they approximate.

Passes (`advisor.plan.passes`). A Markov chain of what they carry: their mean m(n), their spread, and the time to first
token.

Requests. n, in the engine or before it, is a birth-death process with death rate n / E2E(n), E2E(n) = TTFT + S · m(n),
up to the number B that run at once and that of B beyond (processor sharing: its distribution depends on the mean length
alone), with more spread than that has: an arrival's prompt also holds up the others, by the share h of a pass that
prompts take, as if 1 + h had come; the logarithms of its ratios are divided by (1 + h)². Beyond B requests wait their
turn, an exponential time as in M/M/B, times (1 + cv²) / 2 (Allen and Cunneen), but not less than half-way between equal
and exponential lives: what began together ends together.

Percentiles. Arrivals see the stationary n. The time to first token is a mixture over it; the time per output token too,
with n drawn to its mean as far as a request outlives the swings of n, and with what the passes, the luck of acceptance
and the differences between prompts add, each lognormal by its first two moments. Arrivals slow down the passes and
make n larger: both parts move together (`_TOGETHER`), and the one drives the other (`_tpot`).

What it leaves out: arrivals that come in bursts (see peak_to_mean), routers better than random ones, preemption.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from advisor.plan.passes import Passes, Replica, open_passes
from models.estimate import Floats

PERCENTILE = 0.95
_LEAST_LOG_SD = 0.01
# Of the factor on waits: by benchmarks/plan_queue.py 0.5, of equal lives, is a third to a half too little.
_LEAST_WAIT = 0.75
# Cumulative probabilities between which n is taken at its mean: fine where a 95th percentile looks.
# Correlation of what arrivals during a request's life do to its passes as prompts and as company. With n the arrivals
# of the last life, linearised: an arrival at the share s of a life costs p once, and a (1 - s) as company before and
# after; their covariance is p a / 2, their variances p^2 and 2/3 a^2.
_TOGETHER = 0.5 / np.sqrt(2.0 / 3.0)
_EDGES = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 0.93, 0.955, 0.975, 0.99, 1.0])


@dataclass(frozen=True, slots=True)
class Mixture:
    """A time of each class: lognormals, with weights over the bins and the lengths of prompts, (bins, C, Q)."""

    weight: Floats
    centre: Floats
    log_sd: Floats

    @classmethod
    def of(cls, weight: Floats, mean: Floats, variance: Floats) -> Mixture:
        """By the first two moments of each."""
        log_sd = np.sqrt(np.maximum(np.log1p(variance / mean**2), _LEAST_LOG_SD**2))
        return cls(weight, np.log(mean) - log_sd**2 / 2.0, log_sd)

    def below(self, time_ms: float | Floats) -> Floats:
        """Share of each class that takes at most so long, (C,)."""
        at = np.log(np.broadcast_to(np.asarray(time_ms, dtype=np.float64), self.centre.shape[1:2]))
        share: Floats = (self.weight * ndtr((at[None, :, None] - self.centre) / self.log_sd)).sum(axis=(0, 2))
        return share

    @property
    def p95(self) -> Floats:
        """What 95 % of each class stay below, (C,)."""
        low = np.exp((self.centre - 5.0 * self.log_sd).min(axis=(0, 2)))
        high = np.exp((self.centre + 5.0 * self.log_sd).max(axis=(0, 2)))
        for _ in range(22):
            middle = np.sqrt(low * high)
            reached = self.below(middle) >= PERCENTILE
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        found: Floats = np.sqrt(low * high)
        return found


@dataclass(frozen=True, slots=True)
class Load:
    """What requests see at one arrival rate."""

    first_token: Mixture
    tpot: Mixture
    concurrency: float  # mean, those that wait included
    waiting: float  # probability that an arrival finds all slots taken

    @property
    def first_token_p95_ms(self) -> Floats:
        """Of each class."""
        return self.first_token.p95

    @property
    def tpot_p95_ms(self) -> Floats:
        """Of each class."""
        return self.tpot.p95


def offered(replica: Replica, request_rate: float) -> Load | None:
    """Requests at `request_rate` a second; None where more come than leave, so that the queue grows without bound."""
    settled = _settled_at(replica, request_rate)
    if settled is None:
        return None
    passes, states, life, death = settled
    return Load(
        _first_token(replica, passes, states),
        _tpot(replica, passes, states, life, death),
        states.mean,
        states.waiting,
    )


def stable(replica: Replica, request_rate: float) -> bool:
    """Whether as many requests leave as come."""
    return _settled_at(replica, request_rate) is not None


def _settled_at(replica: Replica, request_rate: float) -> tuple[Passes, _States, Floats, Floats] | None:
    """Passes, states, lives of each class (n, C) and death rates of 1 to B requests."""
    rate = request_rate / 1e3
    passes = open_passes(replica, rate)
    if passes is None:
        return None
    c = replica.classes
    steps = c.tokens_left / c.tokens_per_step
    life = passes.first_ms[:, None] + passes.backlog_ms + steps * passes.mean_ms[:, None]  # (n, C)
    n = np.arange(1.0, replica.limit + 1.0)
    death = n / np.interp(n, replica.concurrency, life @ c.share)
    states = _states(
        rate,
        death,
        held_up=np.interp(n, replica.concurrency, passes.held_up),
        wait_factor=_wait_factor(float(c.life_cv2[0])),
    )
    return None if states is None else (passes, states, life, death)


@dataclass(frozen=True, slots=True)
class _States:
    """What arrivals see, in bins of equal kind: others in the system, and the wait for a slot."""

    weight: Floats
    others: Floats
    wait_ms: Floats
    idle: float  # probability that the engine is empty
    mean: float
    waiting: float


def _wait_factor(cv2: float) -> float:
    """Mean wait over that of M/M/B where requests' lives have the squared coefficient of variation cv²."""
    return max((1.0 + cv2) / 2.0, _LEAST_WAIT)


def _states(rate: float, death: Floats, *, held_up: Floats, wait_factor: float) -> _States | None:
    """held_up: share of the passes' time that prompts take, at 1 to B requests: an arrival keeps the others longer."""
    limit = death.size
    if rate >= death[-1]:
        return None
    logs = np.concatenate([[0.0], np.cumsum((np.log(rate) - np.log(death)) / (1.0 + held_up) ** 2)])
    weight = np.exp(logs - logs.max())
    ratio = np.exp(logs[-1] - logs[-2])
    beyond = weight[-1] * ratio / (1.0 - ratio)  # more than run at once
    total = weight.sum() + beyond
    weight, beyond = weight / total, beyond / total
    n = np.arange(limit + 1.0)
    waiting = float(weight[-1] + beyond)
    mean = float(weight @ n) + beyond * (limit + 1.0 / (1.0 - ratio))
    cdf = np.concatenate([[0.0], np.cumsum(weight)])
    upto = np.concatenate([[0.0], np.cumsum(weight * n)])
    edges = np.minimum(_EDGES, cdf[-1])
    inside = np.interp(edges, cdf, upto) + np.maximum(_EDGES - cdf[-1], 0.0) * limit
    size = np.diff(_EDGES)
    middle = _EDGES[:-1] + size / 2.0
    late = np.maximum(middle - (1.0 - waiting), 0.0)
    left = np.clip((1.0 - middle) / max(waiting, 1e-300), 1e-12, 1.0)
    wait = np.where(late > 0.0, -np.log(left) / (death[-1] - rate) * wait_factor, 0.0)
    return _States(size, np.diff(inside) / size, wait, float(weight[0]), mean, waiting)


def _first_token(replica: Replica, passes: Passes, states: _States) -> Mixture:
    grid, c = replica.concurrency, replica.classes
    n = np.minimum(states.others + 1.0, replica.limit)
    mean = np.interp(n, grid, passes.first_ms) + states.wait_ms
    variance = np.interp(n, grid, passes.first_variance)
    # A longer prompt than the mean takes longer by what its own tokens add.
    more = (np.interp(n, grid, replica.chunk_ms * replica.chunks))[:, None, None] * (c.prompt_size[None] - 1.0)
    floor = 0.25 * np.min(passes.first_ms)
    scale = replica.first_token_scale
    values = np.maximum(mean[:, None, None] + more, floor) * scale  # (bins, C, Q)
    spread = np.broadcast_to(variance[:, None, None] * scale**2, values.shape)
    weight = np.broadcast_to(states.weight[:, None, None] / c.prompt_size.shape[1], values.shape)
    return Mixture.of(weight, values, spread)


def _tpot(replica: Replica, passes: Passes, states: _States, life: Floats, death: Floats) -> Mixture:
    grid, c = replica.concurrency, replica.classes
    own = np.minimum(states.others + 1.0, replica.limit)
    mean = float(states.weight @ own)
    slope = np.gradient(death) if death.size > 1 else np.zeros(1)
    returning = max(float(np.interp(mean, np.arange(1.0, death.size + 1.0), slope)), 0.0)
    values, variances = np.empty((2, own.size, c.share.size, 1))
    for i in range(c.share.size):

        def at(values: Floats, n: Floats) -> Floats:
            interpolated: Floats = np.interp(n, grid, values)
            return interpolated

        left = max(float(c.tokens_left[i]), 1.0)
        lives = float(np.interp(mean, grid, life[:, i])) * returning  # correlation times of n that the request lives
        # The swings of n that a request sees on average.
        n = np.clip(mean + np.sqrt(_averaged(lives)) * (own - mean), 1.0, replica.limit)
        tau = at(c.tokens_per_step[:, i], n)
        steps = np.maximum(left / tau, 1.0)
        decoding = steps * at(passes.mean_ms, n)
        value = (decoding + at(passes.backlog_ms[:, i], n)) / left
        centre = float(states.weight @ value)
        swing = np.sqrt(float(states.weight @ (value - centre) ** 2)) / centre
        # Slower passes keep requests longer, which makes passes slower, as far as that happens within a life.
        driven = 1.0 + (1.0 / max(min(lives, 1.0), 0.1) - 1.0) * _settled(lives)
        pace = (
            at(passes.relative_variance, n) / steps + at(passes.backlog_variance[:, i], n) / decoding**2
        ) * driven**2
        luck = at(c.step_variance[:, i], n) / tau**2 / steps + at(c.gain_log_sd[:, i], n) ** 2
        relative = pace + 2.0 * _TOGETHER * swing * np.sqrt(pace) + luck
        values[:, i, 0], variances[:, i, 0] = value, relative * value**2
    return Mixture.of(states.weight[:, None, None], values, variances)


def _averaged(lives: float) -> float:
    """Variance of a mean over so many correlation times of an exponentially correlated process, over a value's."""
    return 1.0 - lives / 3.0 if lives < 1e-3 else 2.0 * (lives - 1.0 + np.exp(-lives)) / lives**2


def _settled(lives: float) -> float:
    """How much of an exponential response is there on average within so many of its times."""
    return lives / 2.0 if lives < 1e-3 else 1.0 - (1.0 - np.exp(-lives)) / lives
