"""Do two live servers keep a policy, by what their /metrics have shown until now?

Every estimated rule has its share of the error that the policy's confidence leaves: with m of them each interval holds
at all looks with 1 - (1 - confidence) / m (Bonferroni), so that the gate as a whole, however often it looks, passes or
fails wrongly with probability 1 - confidence at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from advisor.gate.canary import (
    BLOCK_MEMORY,
    FEWEST_BLOCKS,
    Canary,
    end_to_end,
    mean_tpot,
    spoken_counts,
    time_per_token,
    tpot,
    ttft,
)
from advisor.gate.histograms import p95_regression, same_bucket, slower_share
from advisor.gate.policy import GatePolicy
from advisor.gate.rules import bounded, exact, judge_age, judge_method, unknown
from advisor.gate.sequential import long_run_inflation, ratio_interval
from advisor.gate.verdict import GateVerdict, RuleOutcome, combine

_ESTIMATED = ("min_speedup", "max_ttft_p95_regression", "max_tpot_p95_regression", "max_slower_share")
_WAIT = "watch longer (--window), or send more traffic to both"
_NO_TPOT = "an engine without vllm:request_time_per_output_token_seconds; inter-token latencies cannot compare the arms"
_NEWER = "serve a vLLM that shows it (0.11 or later)"


def judge_canary(
    policy: GatePolicy, canary: Canary, *, method: str | None = None, now: datetime | None = None
) -> GateVerdict:
    """The verdict on what was read until now; `method` is what the caller knows of the canary's drafter."""
    now = now or datetime.now(UTC)
    speculation = canary.canary.window().speculation
    notes = []
    if speculation is not None and not speculation.drafted_tokens:
        notes.append("the canary drafted nothing inside the window")
    elif speculation is not None and speculation.acceptance_length is not None:
        notes.append(f"the canary's acceptance length was {speculation.acceptance_length:.2f}")
    return combine(
        _rules(policy, canary, method=method, now=now),
        kind="canary",
        subject=f"{canary.canary.url} against {canary.control.url}, {canary.seconds:.0f} s",
        confidence=policy.confidence_asked,
        now=now,
        notes=notes,
    )


def _rules(policy: GatePolicy, canary: Canary, *, method: str | None, now: datetime) -> Iterator[RuleOutcome]:
    stated = policy.rules.stated
    alpha = (1.0 - policy.confidence_asked) / max(1, sum(rule in _ESTIMATED for rule in stated))
    for rule in stated:
        if rule in _ESTIMATED:
            yield _estimated(policy, rule, canary, alpha=alpha)
        elif rule == "min_kv_headroom":
            yield _headroom(policy, canary)
        elif rule == "max_age":
            yield judge_age(policy, now, now=now, what="the window", renew="")
        else:
            yield judge_method(
                policy, method, evidence="as --method says" if method else "/metrics does not tell the method",
                remedy="say it with --method",
            )  # fmt: skip


def _estimated(policy: GatePolicy, rule: str, canary: Canary, *, alpha: float) -> RuleOutcome:
    of_tpot = rule == "max_tpot_p95_regression" or (
        rule in ("min_speedup", "max_slower_share") and policy.objective_judged == "tpot"
    )
    if of_tpot and not canary.has_tpot():
        return unknown(policy, rule, _NO_TPOT, remedy=_NEWER)
    counts = spoken_counts(canary)
    if len(canary.blocks) < FEWEST_BLOCKS:
        return unknown(policy, rule, f"{counts}; {FEWEST_BLOCKS} blocks are needed", remedy=_WAIT)
    limit = getattr(policy.rules, rule)
    if rule == "min_speedup":
        above, below = canary.block_means(mean_tpot if of_tpot else time_per_token)
        if not len(above):
            return unknown(policy, rule, "an engine that does not count latencies and answers", remedy=_NEWER)
        inflation = long_run_inflation(above - above.mean() / below.mean() * below, least_lag=BLOCK_MEMORY)
        value, low, high = ratio_interval(above, below, alpha=alpha, inflation=inflation)
        what = "mean time per output token" if of_tpot else "end-to-end time per output token"
        return bounded(
            rule, value, low, high, limit=limit, at_least=True, spec="x",
            evidence=f"{what} {above.mean():.4g} ms on the control, {below.mean():.4g} ms on the canary; {counts}",
        )  # fmt: skip
    both = canary.samples(ttft if rule == "max_ttft_p95_regression" else tpot if of_tpot else end_to_end)
    if both is None:
        return unknown(policy, rule, "an engine that does not show this latency", remedy=_NEWER)
    if rule == "max_slower_share":
        found = slower_share(*both, alpha=alpha)
        return bounded(
            rule, found.value, found.low, found.high, limit=limit, at_least=False, spec="%",
            evidence=f"rank by rank over {len(both[0].bounds)} buckets; {counts}",
        )  # fmt: skip
    found = p95_regression(*both, alpha=alpha)
    base, spec = (sample.whole.quantile(0.95) or 0.0 for sample in both)
    bucket = same_bucket(*both)
    read = (
        "" if bucket is None else f", both inside the bucket {bucket[0]:g} to {bucket[1]:g} ms, read by interpolation"
    )
    return bounded(
        rule, found.value, found.low, found.high, limit=limit, at_least=False, spec="+%",
        evidence=f"p95 {base:.4g} ms on the control, {spec:.4g} ms on the canary{read}; {counts}",
    )  # fmt: skip


def _headroom(policy: GatePolicy, canary: Canary) -> RuleOutcome:
    limit, fullest = policy.rules.min_kv_headroom, canary.canary.fullest
    assert limit is not None
    if fullest is None:
        return unknown(policy, "min_kv_headroom", "the canary does not show its KV usage", remedy=_NEWER)
    return exact(
        "min_kv_headroom", 1.0 - fullest, limit=limit, at_least=True, spec="%",
        evidence=f"the canary's fullest reading in {canary.seconds:.0f} s",
    )  # fmt: skip
