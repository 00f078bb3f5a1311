"""What do predictions become where a profile measured? The gap between both is carried over to all rows.

Acceptance is measured before (`models.acceptance`), so that the gap is mostly that of the step costs. It is found in
the speedup, corrected there (`advisor.fusion`) and told as the speculative step that gives the corrected speedup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.candidates import Candidate
from advisor.evidence import Evidence, MeasuredPoint
from advisor.fusion import Rows, fuse
from advisor.predictions import Case, Conditions, Ints, Predictions, predict_plainly
from advisor.request import Objective
from models.estimate import Estimate, Floats
from models.step_cost import closed_loop
from profiler.deployment import Deployment


def predict(
    deployment: Deployment,
    cases: Sequence[Case],
    *,
    case: Ints,
    concurrency: Ints,
    evidence: Evidence | None = None,
) -> Predictions:
    """Predict the rows (cases[case[i]], concurrency[i]) in one call of each model, corrected by what was measured."""
    plain = predict_plainly(deployment, cases, case=case, concurrency=concurrency, evidence=evidence)
    if evidence is None or not evidence.points:
        return plain
    reference = next((c for c in cases if c.candidate.method == evidence.method), None)
    if reference is None:
        return plain
    return _corrected(plain, predict_points(deployment, reference, evidence), evidence)


def predict_points(deployment: Deployment, case: Case, evidence: Evidence) -> Predictions:
    """What the models say where the evidence measured, one row a point; case: what a point does not tell of itself."""
    probed = [_at(case, point, evidence.k) for point in evidence.points]
    loads = np.array([round(point.concurrency) for point in evidence.points], dtype=np.int64)
    return predict_plainly(
        deployment, probed, case=np.arange(len(probed)), concurrency=loads,
        evidence=evidence if case.candidate.method == evidence.method else None,
    )  # fmt: skip


def _at(case: Case, point: MeasuredPoint, k: int) -> Case:
    """The case as it was probed; both arms ran what was asked."""
    conditions = replace(
        case.conditions,
        input_tokens=point.input_tokens,
        output_tokens=point.output_tokens,
        output_log_sd=0.0,
        temperature=case.conditions.temperature if point.temperature is None else point.temperature,
    )
    most = max(case.limit, case.limit_without, round(point.concurrency))
    return replace(case, k=k, conditions=conditions, limit=most, limit_without=most)


def _corrected(plain: Predictions, there: Predictions, evidence: Evidence) -> Predictions:
    """The rows of the measured method with their speedups, and the speculative step that these imply, corrected."""
    cases = np.array([c.candidate.method == evidence.method and c.k > 0 for c in plain.cases])
    rows = np.flatnonzero(cases[plain.case])
    if not rows.size:
        return plain
    end_to_end, near = _fused("end_to_end", plain, there, evidence, rows)
    tpot, _ = _fused("tpot", plain, there, evidence, rows)
    arm, before = plain.speculative, plain.speedups.end_to_end
    measured = np.zeros(plain.case.shape[0], dtype=np.bool_)
    measured[rows] = near
    slower = time_factor(there, evidence)
    without = plain.without
    return replace(
        plain,
        without=without.scaled(slower),
        # All passes of the speculative arm, so that they give the corrected speedup.
        speculative=arm.scaled(slower * before.value / end_to_end.value),
        speedups=replace(plain.speedups, end_to_end=end_to_end, tpot=tpot),
        measured=measured,
    )


def _fused(
    objective: Objective, plain: Predictions, there: Predictions, evidence: Evidence, rows: Ints
) -> tuple[Estimate, NDArray[np.bool_]]:
    """One of the two speedups, and which of `rows` count as measured."""
    prior: Estimate = getattr(plain.speedups, objective)
    points = compare_points(there, evidence, objective)
    if points is None:
        return prior, np.zeros(rows.size, dtype=np.bool_)
    fused = fuse(
        Estimate(prior.value[rows], prior.log_sd[rows]),
        _places(plain, rows, objective),
        predicted=points.predicted,
        points=points.rows,
        measured=points.measured,
    )
    value, log_sd = prior.value.copy(), prior.log_sd.copy()
    value[rows], log_sd[rows] = fused.estimate.value, fused.estimate.log_sd
    return Estimate(value, log_sd), fused.measured


@dataclass(frozen=True, slots=True)
class ComparedPoints:
    """Speedups where some were measured: places, what the models say there, and what was found."""

    rows: Rows
    predicted: Estimate
    measured: Estimate


def compare_points(there: Predictions, evidence: Evidence, objective: Objective) -> ComparedPoints | None:
    """The points that have this speedup, `there` as `predict_points` gives them; None where none has."""
    found = [(i, e) for i, p in enumerate(evidence.points) if (e := getattr(p, objective)) is not None]
    if not found:
        return None
    at = np.array([i for i, _ in found])
    predicted: Estimate = getattr(there.speedups, objective)
    measured = Estimate(np.concatenate([e.value for _, e in found]), np.concatenate([e.log_sd for _, e in found]))
    return ComparedPoints(
        _places(there, at, objective), Estimate(predicted.value[at], predicted.log_sd[at]), measured
    )  # fmt: skip


def _places(predictions: Predictions, rows: Ints, objective: Objective) -> Rows:
    """Where rows stand, for the fusion."""
    cases = [predictions.cases[i] for i in predictions.case[rows]]
    estimate: Estimate = getattr(predictions.speedups, objective)
    part: Floats = getattr(predictions.speedups, f"{objective}_acceptance_log_sd")
    return Rows.of(
        concurrency=predictions.concurrency[rows].astype(np.float64),
        input_tokens=np.array([c.conditions.input_tokens for c in cases]),
        output_tokens=np.array([c.conditions.output_tokens for c in cases]),
        k=np.array([float(c.k) for c in cases]),
        temperature=np.array([c.conditions.temperature for c in cases]),
        log_sd=estimate.log_sd[rows],
        acceptance_log_sd=part[rows],
    )


def request_time_factor(
    deployment: Deployment, evidence: Evidence | None, candidate: Candidate, conditions: Conditions
) -> float:
    """Measured over predicted time of a request without speculation, the geometric mean over the points; else 1."""
    if evidence is None or not evidence.points:
        return 1.0
    there = predict_points(deployment, Case(candidate, evidence.k, conditions, 1, 1), evidence)
    return time_factor(there, evidence)


def time_factor(there: Predictions, evidence: Evidence) -> float:
    """Measured over predicted time of a baseline request; both arms are as much slower, so that no speedup changes."""
    measured_ms = np.array([np.nan if p.baseline_ms is None else p.baseline_ms for p in evidence.points])
    arm = there.without
    predicted_ms = closed_loop(
        arm,
        tokens_per_step=np.ones_like(measured_ms),
        output_tokens=np.array([p.output_tokens for p in evidence.points]),
    ).end_to_end_ms
    known = np.isfinite(measured_ms)
    return float(np.exp(np.mean(np.log(measured_ms[known] / predicted_ms[known])))) if known.any() else 1.0
