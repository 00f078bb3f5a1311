"""What do passes of one replica cost, with each way of speculating and without, under a mix of classes?

The classes share every pass, so that a pass is priced with what the mix brings on average: prompts in proportion to
their arrivals, contexts and drafts in proportion to how long requests stay. A class keeps its own acceptance and
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.candidates import Candidate
from advisor.fusion import Rows
from advisor.plan.measured import Measured
from advisor.plan.passes import Classes, Replica
from advisor.plan.uncertainty import BETWEEN_PROMPTS_LOG_SD
from advisor.plan.work import Work
from advisor.predictions import Case, Conditions, Ints, predict_acceptance, step_cost_model
from advisor.speedup import Speedups, compare
from models.estimate import Estimate, Floats
from models.step_cost import PassCosts, step_cost_table
from profiler.deployment import Deployment

_GRID = 18  # concurrencies at which passes are priced; between them they are interpolated


@dataclass(frozen=True, slots=True)
class Acceptances:
    """Of each class (C,) and k of one candidate, (K, C); k = 0 drafts nothing."""

    gain: Floats
    gain_log_sd: Floats
    draft_share: Floats
    step_variance: Floats
    length: Floats
    length_log_sd: Floats


@dataclass(frozen=True, slots=True)
class Arm:
    """One candidate (None: without speculation) on one deployment under one mix, for each of its k."""

    candidate: Candidate | None
    ks: tuple[int, ...]
    concurrency: Floats  # (n,)
    costs: tuple[PassCosts, ...]  # for each k
    gaps: int
    work: tuple[Work, ...]
    share: Floats  # (C,) of the arrivals
    acceptances: Acceptances
    speedup: Estimate  # (K, n) end to end over the baseline at the same concurrency

    def replica(self, k: Floats | int, *, gain_factor: float = 1.0) -> Replica:
        """One replica with a fixed k, or with one for each concurrency; gain_factor: of what is accepted."""
        chosen = np.broadcast_to(np.asarray(k), self.concurrency.shape)
        row = np.array([self.ks.index(int(one)) for one in chosen])
        at = np.arange(row.size)
        pass_ms = np.stack([cost.pass_ms for cost in self.costs])[row, at]
        chunks = np.stack([cost.prefill_chunks for cost in self.costs])[row, at]
        most = np.array(self.ks, dtype=np.float64)[row][:, None] * self.acceptances.draft_share[row]
        gain = np.minimum(self.acceptances.gain[row] * gain_factor, most)  # (n, C)
        left = np.array([max(one.conditions.output_tokens - 1.0, 1e-9) for one in self.work])
        computed = np.array([one.computed_tokens for one in self.work])
        mean = float(self.share @ computed)
        quantiles = max(one.prompt_size.size for one in self.work)
        sizes = np.stack(
            [np.resize(one.prompt_size, quantiles) * c / mean for one, c in zip(self.work, computed, strict=True)]
        )
        classes = Classes(
            share=self.share,
            tokens_left=left,
            tokens_per_step=1.0 + gain,
            step_variance=self.acceptances.step_variance[row],
            gain_log_sd=BETWEEN_PROMPTS_LOG_SD * gain / (1.0 + gain),
            prompt_size=sizes,
            life_cv2=np.array([_cv2(self.work, self.share, left, 1.0 + gain[-1])]),
        )
        return Replica(
            self.concurrency, pass_ms, chunks, float(self.costs[0].joining_passes[0]),
            float(self.costs[0].request_ms[0]), classes,
        )  # fmt: skip

    def acceptance_length(self, k: int) -> Estimate:
        """AL over the drafts of all classes, of one element: its excess over 1 and that one's spread."""
        row = self.ks.index(k)
        a = self.acceptances
        weight = self.share * _steps(self.work, 1.0 + a.gain[row]) * a.draft_share[row]
        weight = weight / weight.sum()
        value = float(weight @ (a.length[row] - 1.0))
        return Estimate(np.array([value]), np.array([float(weight @ a.length_log_sd[row])]))


def mixed_conditions(work: Sequence[Work], share: Floats) -> Conditions:
    """The mean running request: each class weighs by how many of it run, by the tokens that it is long."""
    weight = share * np.array([one.conditions.output_tokens for one in work])
    weight = weight / weight.sum()

    def mean(name: str) -> float:
        return float(weight @ np.array([getattr(one.conditions, name) for one in work]))

    return Conditions(
        input_tokens=mean("input_tokens"), output_tokens=mean("output_tokens"),
        cached_prefix_share=mean("cached_prefix_share"), temperature=mean("temperature"), overlap=mean("overlap"),
        structure=weight @ np.stack([one.conditions.structure for one in work]),
    )  # fmt: skip


def predict_arm(
    deployment: Deployment, work: Sequence[Work], share: Floats, candidate: Candidate | None, *, limit: int,
    ks: Sequence[int] = (0,), measured: Measured | None = None,
) -> Arm:  # fmt: skip
    """Price one candidate with each of `ks` at concurrencies up to `limit`; None is the baseline.

    measured: what corrects times, and the speedups of this candidate.
    """
    grid = np.unique(np.round(np.geomspace(1.0, float(limit), _GRID)))
    tokens = tuple(ks) if candidate is not None else (0,)
    acceptances = _acceptances(deployment, work, candidate, tokens)
    speculation = None if candidate is None else candidate.speculation(max(max(tokens), 1))
    context = np.array([one.conditions.context_tokens for one in work])
    cached = float(share @ np.array([one.conditions.cached_tokens for one in work]))
    prefill = float(share @ np.array([one.computed_tokens for one in work]))
    stays = [share * _steps(work, 1.0 + acceptances.gain[row]) for row in range(len(tokens))]
    stays = [one / one.sum() for one in stays]
    table = step_cost_table(
        deployment,
        [speculation],
        which=np.zeros(grid.size * len(tokens), dtype=np.int64),
        concurrency=np.tile(grid, len(tokens)),
        context_tokens=np.repeat([float(one @ context) for one in stays], grid.size),
        prefill_tokens=prefill,
        cached_tokens=cached,
        num_speculative_tokens=np.repeat(np.array(tokens, dtype=np.float64), grid.size),
        draft_share=np.repeat([float(one @ acceptances.draft_share[row]) for row, one in enumerate(stays)], grid.size),
    )
    cost = step_cost_model().predict(table)
    arm = cost.without if candidate is None else cost.speculative
    rows = [slice(i * grid.size, (i + 1) * grid.size) for i in range(len(tokens))]
    answers = float(share @ np.array([one.conditions.output_tokens for one in work]))
    left = np.array([one.conditions.output_tokens - 1.0 for one in work])
    taus = np.array(
        [
            max(float(share @ left), 1e-9) / max(float((share * _steps(work, 1.0 + g)).sum()), 1e-9)
            for g in acceptances.gain
        ]
    )
    spread = np.array([float(one @ acceptances.gain_log_sd[row]) for row, one in enumerate(stays)])
    compared = compare(
        without=cost.without,
        speculative=arm,
        gain=Estimate(np.repeat(taus - 1.0, grid.size), np.repeat(spread, grid.size)),
        output_tokens=Estimate(np.full(grid.size * len(tokens), answers), np.zeros(grid.size * len(tokens))),
        log_sd_end_to_end=cost.log_sd_end_to_end,
        log_sd_tpot=cost.log_sd_tpot,
    )
    speedups = compared.end_to_end
    if measured is not None:
        places = _places(work, share, np.tile(grid, len(tokens)), np.repeat(tokens, grid.size), compared)
        speedups = _corrected(speedups, places, measured)
        # All passes of the arm, so that they give the corrected speedup.
        arm = arm.scaled(measured.time_factor * compared.end_to_end.value / speedups.value)
    shape = (len(tokens), grid.size)
    return Arm(
        candidate, tokens, grid, tuple(arm.rows(one) for one in rows), int(cost.gaps[0]),
        tuple(work), share, acceptances,
        Estimate(speedups.value.reshape(shape), speedups.log_sd.reshape(shape)),
    )  # fmt: skip


def _places(work: Sequence[Work], share: Floats, concurrency: Floats, ks: Ints, compared: Speedups) -> Rows:
    """Where the rows of an arm stand, for the fusion: at the mean running request."""
    mean, alike = mixed_conditions(work, share), np.ones_like(concurrency)
    return Rows.of(
        concurrency=concurrency, input_tokens=mean.input_tokens * alike, output_tokens=mean.output_tokens * alike,
        k=ks.astype(np.float64), temperature=mean.temperature * alike, log_sd=compared.end_to_end.log_sd,
        acceptance_log_sd=compared.end_to_end_acceptance_log_sd,
    )  # fmt: skip


def _corrected(prior: Estimate, places: Rows, measured: Measured) -> Estimate:
    """Speedups with what was measured; rows that do not draft stay what they are, the baseline."""
    fused = measured.correct(prior, places)
    drafts = places.log_place[:, 3] > 0.0  # the logarithm of k + 1
    return Estimate(np.where(drafts, fused.value, prior.value), np.where(drafts, fused.log_sd, prior.log_sd))


def _acceptances(
    deployment: Deployment, work: Sequence[Work], candidate: Candidate | None, ks: Sequence[int]
) -> Acceptances:
    """What each class accepts with each k."""
    shape = (len(ks), len(work))
    if candidate is None:
        zero = np.zeros(shape)
        return Acceptances(zero, zero, zero, zero, zero + 1.0, zero)
    of_class = [_accepted(deployment, candidate, one, np.array(ks)) for one in work]
    gains, spreads, shares, variances, excess, length_spreads = np.stack(of_class, axis=-1)
    return Acceptances(gains, spreads, shares, variances, excess + 1.0, length_spreads)


def _accepted(deployment: Deployment, candidate: Candidate, work: Work, ks: Ints) -> Floats:
    """Of one class, (6, K): gain, its spread, share of steps that draft, variance of a step, AL - 1, its spread."""
    cases = [Case(candidate, int(k), work.conditions, 1, 1) for k in ks]
    found = predict_acceptance(deployment, cases, work.evidence)
    per_position = np.nan_to_num(found.per_position)
    survival = np.cumprod(np.where(np.arange(per_position.shape[1]) < ks[:, None], per_position, 0.0), axis=1)
    second = (survival * (2.0 * np.arange(survival.shape[1]) + 1.0)).sum(axis=1)
    gain, m = found.gain, found.draft_share
    variance = np.maximum(m * second - gain.value**2, 0.0)
    columns = (gain.value, gain.log_sd, m, variance, found.acceptance_length - 1.0, found.length_log_sd)
    return np.stack([np.where(ks > 0, column, 0.0) for column in columns])


def _steps(work: Sequence[Work], tau: Floats) -> Floats:
    left = np.array([max(one.conditions.output_tokens - 1.0, 1e-9) for one in work])
    steps: Floats = left / tau
    return steps


def _cv2(work: Sequence[Work], share: Floats, left: Floats, tau: Floats) -> float:
    """Squared coefficient of variation of a request's decode steps over all classes."""
    steps = left / tau
    own = np.array([one.length_cv2 for one in work])
    mean = float(share @ steps)
    return float(share @ (steps**2 * (1.0 + own))) / mean**2 - 1.0
