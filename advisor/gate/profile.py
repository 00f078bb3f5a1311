"""Does a profile (`specworth profile`) keep a policy?

It measured both arms prompt by prompt at one concurrency or several: the policy says which where there are several. Its
speedups carry their interval, widened for the looks that the session took. Tails are told as measured, without an
interval, and only from as many prompts as one needs for any distribution-free bound of a p95.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
from scipy.special import ndtr

from advisor.gate.policy import GatePolicy
from advisor.gate.rules import bounded, exact, implied_log_sd, judge_age, judge_method, speedup_rule, unknown
from advisor.gate.sequential import share_bounds
from advisor.gate.verdict import GateVerdict, RuleOutcome, combine
from profiler.errors import EvidenceError
from profiler.probe.profile import Point, Profile

_MORE = "measure more prompts: specworth profile"
_TAILS = {"max_ttft_p95_regression": "ttft_ms", "max_tpot_p95_regression": "tpot_ms"}


def judge_profile(policy: GatePolicy, profile: Profile, *, now: datetime | None = None) -> GateVerdict:
    """The verdict.

    Raises:
        EvidenceError: nothing was measured by both arms, the policy's concurrency was not measured or is needed and not
            stated, or the profile's date is none.
    """
    now = now or datetime.now(UTC)
    probed = profile.speculation
    point = _point(policy, profile)
    k = f", k = {probed.num_speculative_tokens}" if probed.num_speculative_tokens else ""
    notes = [] if profile.status == "complete" else [f"the session ended early: {profile.ended}"]
    return combine(
        _rules(policy, profile, point, now=now),
        kind="profile",
        subject=f"{profile.target}, {probed.method or 'a method that is not told'}{k} at {point.concurrency} at once",
        confidence=policy.confidence_asked,
        now=now,
        notes=notes,
    )


def _point(policy: GatePolicy, profile: Profile) -> Point:
    points = [point for point in profile.points if point.pairs]
    if not points:
        raise EvidenceError(
            "the profile compares nothing", expected="prompts that both arms answered", got=profile.ended,
            remedy="measure again: specworth profile",
        )  # fmt: skip
    known = ", ".join(str(c) for c in sorted({point.concurrency for point in points}))
    wanted = [point for point in points if policy.concurrency in (None, point.concurrency)]
    if not wanted:
        raise EvidenceError(
            f"the profile did not measure {policy.concurrency} requests at once", expected=f"one of {known}",
            got=str(policy.concurrency), field="policy.concurrency",
        )  # fmt: skip
    if policy.concurrency is None and len({point.concurrency for point in wanted}) > 1:
        raise EvidenceError(
            "the profile measured several concurrencies", expected="the policy's concurrency to be one of them",
            got=known, remedy="write concurrency = ... into the policy", field="policy.concurrency",
        )  # fmt: skip
    return max(wanted, key=lambda point: point.pairs)  # several temperatures: the one that tells most


def _rules(policy: GatePolicy, profile: Profile, point: Point, *, now: datetime) -> Iterator[RuleOutcome]:
    for rule in policy.rules.stated:
        if rule == "min_speedup":
            yield _speedup(policy, point)
        elif rule in _TAILS:
            yield _tail(policy, rule, point)
        elif rule == "min_kv_headroom":
            yield _headroom(policy, profile, point)
        elif rule == "max_slower_share":
            yield _slower(policy, point)
        elif rule == "max_age":
            created = _created(profile)
            yield judge_age(policy, created, now=now, what="the profile", renew="measure again: specworth profile")
        else:
            yield judge_method(
                policy, profile.speculation.method, evidence="the profile's speculative arm",
                remedy="profile with --speculative-config, which tells it",
            )  # fmt: skip


def _speedup(policy: GatePolicy, point: Point) -> RuleOutcome:
    ratio = point.end_to_end if policy.objective_judged == "end_to_end" else point.tpot
    if ratio is None:
        why = f"too few of {point.pairs} pairs tell a speedup"
        return unknown(policy, "min_speedup", why, remedy=_MORE)
    # The shown interval is widened for the looks, so the spread that it implies is the larger one after several.
    log_sd = max(ratio.log_sd, implied_log_sd(ratio.low, ratio.high, level=ratio.level))
    limit = policy.rules.min_speedup
    assert limit is not None
    reached = ratio.value >= limit
    probability = float(ndtr(math.log(ratio.value / limit) / log_sd)) if log_sd > 0.0 else float(reached)
    objective = "end to end" if policy.objective_judged == "end_to_end" else "per output token"
    return speedup_rule(
        policy, value=ratio.value, low=ratio.low, high=ratio.high,
        probability=probability,
        evidence=f"measured speedup {objective} over {ratio.pairs} prompts, {ratio.looks} looks",
    )  # fmt: skip


def _tail(policy: GatePolicy, rule: str, point: Point) -> RuleOutcome:
    limit = getattr(policy.rules, rule)
    base = getattr(point.baseline, _TAILS[rule], None)
    spec = getattr(point.speculative, _TAILS[rule], None)
    if base is None or spec is None or base.p95 <= 0.0:
        return unknown(policy, rule, "one of the arms has no such latency", remedy=_MORE)
    # Wilks 1941: the largest of n exceeds the p95 with probability 1 - 0.95^n; with fewer no bound of it exists.
    needed = math.ceil(math.log(1.0 - policy.confidence_asked) / math.log(0.95))
    if point.pairs < needed:
        why = f"{point.pairs} pairs; a p95 is bounded at {policy.confidence_asked:g} from {needed} on"
        return unknown(policy, rule, why, remedy=_MORE)
    return exact(
        rule, spec.p95 / base.p95 - 1.0, limit=limit, at_least=False, spec="+%",
        evidence=f"p95 {base.p95:.4g} ms without and {spec.p95:.4g} ms with, over {point.pairs} pairs; no interval",
    )  # fmt: skip


def _headroom(policy: GatePolicy, profile: Profile, point: Point) -> RuleOutcome:
    limit = policy.rules.min_kv_headroom
    assert limit is not None
    used = [
        wave.kv_usage
        for wave in profile.waves
        if wave.arm == "speculative" and wave.concurrency == point.concurrency and wave.kv_usage is not None
    ]
    if not used:
        return unknown(policy, "min_kv_headroom", "no wave tells its KV usage", remedy="profile a server with /metrics")
    return exact(
        "min_kv_headroom", 1.0 - max(used), limit=limit, at_least=True, spec="%",
        evidence=f"fullest reading of {len(used)} waves at {point.concurrency} at once",
    )  # fmt: skip


def _slower(policy: GatePolicy, point: Point) -> RuleOutcome:
    limit = policy.rules.max_slower_share
    assert limit is not None
    slower = point.slower_end_to_end if policy.objective_judged == "end_to_end" else point.slower_tpot
    if slower is None:
        return unknown(policy, "max_slower_share", "the profile does not count slower pairs", remedy=_MORE)
    alpha = 1.0 - policy.confidence_asked
    low, high = share_bounds(np.array([float(slower)]), np.array([float(point.pairs)]), alpha=alpha)
    return bounded(
        "max_slower_share", slower / point.pairs, float(low[0]), float(high[0]), limit=limit, at_least=False, spec="%",
        evidence=f"{slower} of {point.pairs} pairs took more time per token with speculation",
    )  # fmt: skip


def _created(profile: Profile) -> datetime:
    try:
        found = datetime.fromisoformat(profile.created)
    except ValueError:
        raise EvidenceError(
            "the profile's date is none", expected="created as ISO 8601 has it", got=repr(profile.created[:40]),
            field="profile.created",
        ) from None  # fmt: skip
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
