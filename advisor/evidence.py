"""What did the user's own engine count, and of what? And what did a probe measure on it?

Counts say how much of what was drafted was accepted; a profile (`specworth profile`) also says how much faster it was,
and under which traffic: what the request leaves open is then taken as it was probed.

Refused: counts that contradict themselves (models.acceptance says which) or that could be of several drafters, a
profile of another method, and ids of profiles, which only a service with storage could look up. A speedup that was
measured on another GPU says nothing here and is left out, with a warning; its acceptance stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from advisor.candidates import Candidate
from advisor.recommendation import Acceptance, Basis, Warned
from advisor.request import EvidenceSpec, ModelSpec, RecommendationRequest, SpeculationSpec, TrafficSpec
from models.acceptance import AcceptanceEvidence
from models.acceptance.coefficients import DEFAULT_LOOKUP_MIN
from models.estimate import Estimate
from profiler.catalog import find_gpu
from profiler.deployment import METHODS, Deployment
from profiler.errors import EvidenceError, UnknownNameError
from profiler.probe.profile import Counts, Point, Profile, Ratio


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One probed load; speedups with the log-sd of their measurement."""

    concurrency: float
    input_tokens: float
    output_tokens: float
    temperature: float | None
    end_to_end: Estimate | None  # of one element
    tpot: Estimate | None
    baseline_ms: float | None  # mean time of a request without speculation


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured of one method with one k."""

    method: str
    k: int
    acceptance: AcceptanceEvidence | None
    points: tuple[MeasuredPoint, ...] = ()
    warnings: tuple[Warned, ...] = ()


def adopt_profile(request: RecommendationRequest) -> RecommendationRequest:
    """The request with what it leaves open taken from its profile; the request itself where it has none."""
    profile = request.evidence.profile if request.evidence is not None else None
    if profile is None:
        return request
    deployment, traffic = request.deployment, request.traffic
    if deployment.speculation is None:
        deployment = deployment.model_copy(update={"speculation": speculation_of(profile)})
    point = _asked(profile)
    if point is not None:
        found: dict[str, Any] = {}
        if traffic.concurrency is None and traffic.request_rate is None:
            found["concurrency"] = point.concurrency
        found |= {n: v for n, v in probed_traffic(profile).items() if getattr(traffic, n) is None}
        try:
            traffic = TrafficSpec.model_validate({**traffic.model_dump(exclude_none=True), **found})
        except ValidationError as error:
            raise unusable(error, "evidence.profile.points[0]") from None
    return request.model_copy(update={"deployment": deployment, "traffic": traffic})


def probed_traffic(profile: Profile) -> dict[str, float]:
    """Lengths and temperature of the requests at the point that was asked for, those that are known."""
    point = _asked(profile)
    if point is None:
        return {}
    known = {"temperature": point.sent_temperature, "input_tokens": point.input_tokens,
             "output_tokens": point.output_tokens}  # fmt: skip
    return {name: value for name, value in known.items() if value is not None}


def speculation_of(profile: Profile) -> SpeculationSpec:
    """What was probed, as a request says it. Raises EvidenceError where the profile does not know."""
    probed = profile.speculation
    method = spoken_method(probed.method)
    if method not in METHODS:
        raise EvidenceError(
            "The profile does not say how the server speculated",
            expected="its method",
            got=repr(probed.method) if probed.method else "a server that ran already",
            remedy="name method, draft and num_speculative_tokens",
            field="deployment.speculation.method",
        )
    config = probed.config or {}
    known = {name: config[name] for name in ("draft_sample_method", "prompt_lookup_max", "prompt_lookup_min")
             if config.get(name) is not None}  # fmt: skip
    if method == "ngram" and not {"prompt_lookup_max", "prompt_lookup_min"} & set(known):
        known |= dict.fromkeys(("prompt_lookup_max", "prompt_lookup_min"), int(DEFAULT_LOOKUP_MIN))
    draft = ModelSpec(name=probed.draft) if probed.draft is not None else None
    fields = {"method": method, "draft": draft, "num_speculative_tokens": probed.num_speculative_tokens, **known}
    try:
        return SpeculationSpec.model_validate(fields)
    except ValidationError as error:
        raise unusable(error, "evidence.profile.speculation") from None


def unusable(error: ValidationError, field: str) -> EvidenceError:
    """A profile that says what no request may say."""
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"])
    return EvidenceError(
        "The profile cannot be used", expected=str(first["msg"]), got=str(first.get("input"))[:80],
        field=f"{field}.{place}" if place else field,
    )  # fmt: skip


def spoken_method(name: str | None) -> str | None:
    """vLLM's names for one model's own prediction layers (deepseek_mtp, ...) are the one method mtp."""
    return "mtp" if name is not None and name.endswith("_mtp") else name


def resolve_evidence(
    spec: EvidenceSpec | None,
    speculation: SpeculationSpec | None,
    candidates: Sequence[Candidate],
    deployment: Deployment,
) -> Evidence | None:
    """What was measured, with the method and k that it is of; None without evidence."""
    if spec is None:
        return None
    if spec.profile_id is not None:
        raise EvidenceError(
            "No profile of this id is stored",
            expected="counts (drafts, accepted_tokens, ...) or the profile in the evidence itself",
            got=repr(spec.profile_id),
            field="evidence.profile_id",
        )
    if len(candidates) > 1:
        raise EvidenceError(
            "Evidence is of one drafter, and several are known for this target",
            expected="the one that was measured: " + " or ".join(c.draft_name or c.method for c in candidates),
            got="none named",
            field="deployment.speculation.draft",
        )
    if spec.profile is not None:
        return _of_profile(spec.profile, candidates[0], deployment)
    # The request has been validated: evidence comes with a method and k, and with drafts.
    assert speculation is not None
    assert speculation.method is not None
    assert speculation.num_speculative_tokens is not None
    assert spec.drafts is not None
    positions = spec.accepted_per_position
    acceptance = AcceptanceEvidence(
        method=speculation.method,
        num_speculative_tokens=speculation.num_speculative_tokens,
        drafts=float(spec.drafts),
        accepted_tokens=None if spec.accepted_tokens is None else float(spec.accepted_tokens),
        accepted_per_position=None if positions is None else tuple(float(count) for count in positions),
        drafted_tokens=None if spec.drafted_tokens is None else float(spec.drafted_tokens),
        decode_tokens=None if spec.decode_tokens is None else float(spec.decode_tokens),
        temperature=spec.temperature,
        probabilistic=speculation.draft_sample_method == "probabilistic",
    )
    return Evidence(acceptance.method, acceptance.num_speculative_tokens, acceptance)


def basis_of(evidence: Evidence | None, acceptance: Acceptance, *, measured: bool) -> Basis:
    """What the answer rests on; measured: whether the speedup was, at the asked load or next to it."""
    if acceptance.basis == "measured" and measured:
        return "measured"
    some = acceptance.basis == "measured" or measured or (evidence is not None and bool(evidence.points))
    return "mixed" if some else "predicted"


def _of_profile(profile: Profile, candidate: Candidate, deployment: Deployment) -> Evidence:
    probed = profile.speculation
    method = spoken_method(probed.method)
    if method is not None and method != candidate.method:
        raise EvidenceError(
            "The profile is of another method",
            expected=candidate.method,
            got=method,
            field="deployment.speculation.method",
        )
    k = probed.num_speculative_tokens or candidate.ks[0]
    warnings = list(_differences(profile, deployment))
    points = [_point(p) for p in profile.points if p.input_tokens and p.output_tokens and p.end_to_end is not None]
    if any(w.code == "profile_of_another_gpu" for w in warnings):
        points = []
    return Evidence(
        method=candidate.method,
        k=k,
        acceptance=_acceptance(profile, candidate, k),
        points=tuple(points),
        warnings=tuple(warnings),
    )


def _acceptance(profile: Profile, candidate: Candidate, k: int) -> AcceptanceEvidence | None:
    counts = profile.acceptance
    if counts is None or (not counts.drafts and not counts.decode_tokens):
        return None
    point = _asked(profile)
    positions = counts.accepted_per_position
    return AcceptanceEvidence(
        method=candidate.method,
        num_speculative_tokens=max(k, len(positions)),
        drafts=float(counts.drafts),
        accepted_tokens=float(counts.accepted_tokens),
        accepted_per_position=tuple(float(count) for count in positions) or None,
        drafted_tokens=float(counts.drafted_tokens),
        decode_tokens=_decode_tokens(counts),
        temperature=point.sent_temperature if point is not None else None,
        probabilistic=(profile.speculation.config or {}).get("draft_sample_method") == "probabilistic",
    )


def _decode_tokens(counts: Counts) -> float:
    """At least what the drafts themselves emitted: tokens accepted beyond a request's end are counted, not sent."""
    return float(max(counts.decode_tokens, counts.accepted_tokens + counts.drafts))


def _point(point: Point) -> MeasuredPoint:
    base = point.baseline.end_to_end_ms if point.baseline is not None else None
    return MeasuredPoint(
        concurrency=float(point.concurrency),
        input_tokens=point.input_tokens or 1.0,
        output_tokens=point.output_tokens or 1.0,
        temperature=point.sent_temperature,
        end_to_end=_estimate(point.end_to_end),
        tpot=_estimate(point.tpot),
        baseline_ms=base.mean if base is not None else None,
    )


def _estimate(ratio: Ratio | None) -> Estimate | None:
    return None if ratio is None else Estimate(np.array([ratio.value]), np.array([ratio.log_sd]))


def _asked(profile: Profile) -> Point | None:
    """The point that the probe was asked for: the first."""
    return profile.points[0] if profile.points else None


def _differences(profile: Profile, deployment: Deployment) -> Iterable[Warned]:
    """What of the profile is not of this deployment."""
    there, here = profile.environment, deployment
    if there.platform == "cpu" and _known_gpu(here.gpu.name) is not None:
        yield _other_gpu("a CPU", here.gpu.name)
    elif there.gpus and _known_gpu(here.gpu.name) not in (None, _known_gpu(there.gpus[0])):
        yield _other_gpu(there.gpus[0], here.gpu.name)
    if _last(profile.target) != _last(here.target.name):
        text = f"the profile was measured with {profile.target}, the deployment serves {here.target.name}"
        yield Warned(code="profile_of_another_target", text=f"{text}: it is taken as the same model")
    if profile.status == "partial":
        yield Warned(code="profile_partial", text=f"the profile's session ended early: {profile.ended}")
    cut, longest = profile.prompts.cut_share, profile.prompts.max_tokens
    if longest is not None and cut is not None and cut > 0.1:
        text = f"{cut:.0%} of the probe's answers were cut at {longest} tokens: the speedup is that of answers so long"
        yield Warned(code="answers_cut", text=text)


def _other_gpu(there: str, here: str) -> Warned:
    text = f"the profile was measured on {there}, not on {here}: its acceptance is used, its speedup is not"
    return Warned(code="profile_of_another_gpu", text=text)


def _known_gpu(name: str) -> str | None:
    """The catalog's name; None for a GPU of the request's own."""
    try:
        return find_gpu(name).name
    except UnknownNameError:
        return None


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1].lower()
