"""What was measured of classes of requests, and what it changes in a plan.

Counts and profiles come class by class, as advice takes them (`advisor.evidence`). Acceptance takes the place of what
is predicted for that class. Speedups and times of a probe are of a load of its own; the gap to what the models say at
that load is carried over to the mix by the same conditioning as in advice (`advisor.fusion`), less the farther away in
concurrency, lengths and k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from advisor.candidates import Candidate
from advisor.correction import ComparedPoints, compare_points, predict_points, time_factor
from advisor.evidence import probed_traffic, resolve_evidence, speculation_of, unusable
from advisor.fusion import Rows, fuse
from advisor.plan.request import ClassSpec, PlanRequest
from advisor.plan.work import Work
from advisor.predictions import Case
from models.estimate import Estimate
from models.structure import STRUCTURES
from profiler.deployment import Deployment
from profiler.errors import EvidenceError


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Speedups of all classes' probes, and measured over predicted time of a request without speculation."""

    points: ComparedPoints | None
    time_factor: float

    def correct(self, prior: Estimate, rows: Rows) -> Estimate:
        """The rows' speedups with what was measured."""
        if self.points is None:
            return prior
        points = self.points
        return fuse(prior, rows, predicted=points.predicted, points=points.rows, measured=points.measured).estimate


def adopt_profiles(request: PlanRequest) -> PlanRequest:
    """The request with what it leaves open taken from its profiles. Raises EvidenceError with the class's place."""
    speculation = request.deployment.speculation
    classes: dict[str, ClassSpec] = {}
    for name, spec in request.classes.items():
        classes[name] = spec
        if spec.evidence is None or spec.evidence.profile is None:
            continue
        profile = spec.evidence.profile
        try:
            speculation = speculation or speculation_of(profile)
        except EvidenceError as error:
            raise _placed(error, name) from None
        if spec.prompts is not None or spec.features is not None:
            continue
        told: dict[str, Any] = dict(probed_traffic(profile))
        counted = {kind: number for kind, number in profile.prompts.structure.items() if kind in STRUCTURES and number}
        told |= {"structure": counted} if counted else {}
        given = {key: value for key in spec.model_fields_set if (value := getattr(spec, key)) is not None}
        if {"input_tokens", "output_tokens"} - {*told, *given}:
            raise EvidenceError(
                "The profile does not tell how long the requests were", expected="a point with both lengths",
                got=f"{len(profile.points)} points", remedy="state input_tokens and output_tokens",
                field=f"classes.{name}.evidence.profile",
            )  # fmt: skip
        try:
            classes[name] = ClassSpec.model_validate(told | given)
        except ValidationError as error:
            raise unusable(error, f"classes.{name}.evidence.profile") from None
    deployment = request.deployment.model_copy(update={"speculation": speculation})
    return request.model_copy(update={"classes": classes, "deployment": deployment})


def with_evidence(
    request: PlanRequest, work: Sequence[Work], candidates: Sequence[Candidate], deployment: Deployment
) -> tuple[Work, ...]:  # fmt: skip
    """The classes with what was measured of each. Raises EvidenceError with the class's place."""
    found = []
    for one in work:
        spec = request.classes[one.name].evidence
        try:
            evidence = resolve_evidence(spec, request.deployment.speculation, candidates, deployment)
        except EvidenceError as error:
            raise _placed(error, one.name) from None
        found.append(replace(one, evidence=evidence))
    return tuple(found)


def measured_of(deployment: Deployment, work: Sequence[Work], candidates: Sequence[Candidate]) -> Measured | None:
    """All that was timed of the classes; None where nothing was."""
    compared: list[ComparedPoints] = []
    factors: list[float] = []
    for one in work:
        if one.evidence is None or not one.evidence.points:
            continue
        there = predict_points(deployment, Case(candidates[0], one.evidence.k, one.conditions, 1, 1), one.evidence)
        points = compare_points(there, one.evidence, "end_to_end")
        compared += [] if points is None else [points]
        timed = sum(point.baseline_ms is not None for point in one.evidence.points)
        factors += [time_factor(there, one.evidence)] * timed
    if not compared and not factors:
        return None
    factor = float(np.exp(np.mean(np.log(factors)))) if factors else 1.0
    return Measured(_all(compared), factor)


def _all(compared: Sequence[ComparedPoints]) -> ComparedPoints | None:
    if not compared:
        return None

    def joined(name: str) -> Estimate:
        parts = [getattr(one, name) for one in compared]
        return Estimate(np.concatenate([p.value for p in parts]), np.concatenate([p.log_sd for p in parts]))

    return ComparedPoints(
        Rows.concatenate([one.rows for one in compared]), joined("predicted"), joined("measured")
    )  # fmt: skip


def _placed(error: EvidenceError, name: str) -> EvidenceError:
    """The error at the class's evidence; the deployment's speculation is of all classes."""
    field = error.field or "evidence"
    place = field if field.startswith("deployment") else f"classes.{name}.{field}"
    return EvidenceError(
        f"The class {name!r}: {error.what}", expected=error.expected, got=error.got, remedy=error.remedy, field=place
    )
