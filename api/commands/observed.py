"""What of an observed server becomes part of the question: traffic, and counts of the same drafter.

The command line wins: what it states is not taken from the observation. Concurrency is that of one engine, since a
deployment is one: several engines behind an endpoint share the running requests. It is the mean over the readings at
which something ran, for that is what an answered request shared its steps with. Lengths, prefix share and counts that
the window does not tell are those since the server's start. Counts become evidence only where
method and k are those that are asked about; what is taken, and what is not and why, is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.observe import Observation, ObservedSpeculation

_SINCE_START = " since the server's start"


def with_observed(fields: Mapping[str, Any], seen: Observation) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The request's fields with what `seen` adds, and what was taken, one sentence each."""
    traffic = dict(fields.get("traffic", {}))
    said: list[str] = []

    def take(name: str, value: float | None, how: str) -> None:
        if value is not None and name not in traffic:
            traffic[name] = value
            said.append(f"{name}: {value:,.4g} observed, {how}")

    if "request_rate" not in traffic:
        take("concurrency", _concurrency(seen), _running(seen))
    lengths, since = (seen, "") if seen.output_tokens is not None else (seen.since_start, _SINCE_START)
    for name, spread in (("input_tokens", lengths.input_tokens), ("output_tokens", lengths.output_tokens)):
        if spread is not None and spread.mean >= 1:
            take(name, spread.mean, f"mean of {spread.count:,} requests{since}")
    share, since = (seen.prefix_hit_share, "")
    if share is None:
        share, since = (seen.since_start.prefix_hit_share, _SINCE_START)
    take("cached_prefix_share", share, f"share of prompt tokens that the cache served{since}")
    found: dict[str, Any] = {**fields, "traffic": traffic}
    counted, since = (seen.speculation, "")
    if counted is not None and not counted.drafted_tokens:
        counted, since = (seen.since_start.speculation, _SINCE_START)
    if counted is not None and "evidence" not in fields:
        asked = fields.get("deployment", {}).get("speculation") or {}
        reason = _unlike(counted, asked)
        if reason is None:
            found["evidence"] = _evidence(counted)
            told = "" if counted.method else f"; that they are of {asked['method']} is taken from --method"
            said.append(f"evidence: {counted.drafts:,} drafts observed{since}{told}")
        else:
            said.append(f"evidence: the observed acceptance is not used, since {reason}")
    return found, tuple(said)


def _concurrency(seen: Observation) -> int | None:
    if seen.running is None or seen.running.busy_mean is None:
        return None
    return max(1, round(seen.running.busy_mean / seen.engine_count))


def _running(seen: Observation) -> str:
    running = "mean of running requests while any ran"
    return running if seen.engine_count == 1 else f"{running}, for each of {seen.engine_count} engines"


def _unlike(seen: ObservedSpeculation, asked: Mapping[str, Any]) -> str | None:
    """Why the counts cannot be of the drafter that is asked about; None where they can."""
    method, k = asked.get("method"), asked.get("num_speculative_tokens")
    if seen.drafts is None or seen.accepted_tokens is None:
        return "this engine does not count drafts, or counts acceptances after a rejection"
    if not seen.drafts:
        return "nothing was drafted"
    if method is None or k is None:
        return "it is of one method and one k: name both with --method and -k"
    if seen.method is not None and seen.method != method:
        return f"the server speculates by {seen.method}, not {method}"
    observed_k = max(len(seen.accepted_per_position), seen.num_speculative_tokens or 0)
    if observed_k > k or len(seen.accepted_per_position) not in (0, k):
        return f"the server drafts up to {observed_k:.3g} tokens, not {k}"
    return None


def _evidence(seen: ObservedSpeculation) -> dict[str, Any]:
    counts = {
        "drafts": seen.drafts,
        "drafted_tokens": seen.drafted_tokens,
        "accepted_tokens": seen.accepted_tokens,
        # Tokens accepted beyond a request's end are not emitted, so a short window may accept more than it emits.
        "decode_tokens": seen.decode_tokens if (seen.decode_tokens or 0) > (seen.accepted_tokens or 0) else None,
        "accepted_per_position": list(seen.accepted_per_position) or None,
    }
    return {name: count for name, count in counts.items() if count is not None}
