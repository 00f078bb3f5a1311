"""`specworth observe`: watches a server, saves and shows what was seen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from api.commands.duration import seconds
from api.commands.results import check_place, write_whole
from api.commands.running_servers import api_key, check_method
from api.report.content import Table
from api.report.terminal import print_table
from profiler.observe import Levels, Observation, ObservedSpeculation, Spread, summarise, watch
from profiler.serving.interruption import interruptible

_SPREADS = (
    ("prompt, tokens", "input_tokens", ",.0f"),
    ("answer, tokens", "output_tokens", ",.0f"),
    ("TTFT, ms", "ttft_ms", ",.0f"),
    ("TPOT, ms", "tpot_ms", ",.2f"),
    ("end to end, ms", "end_to_end_ms", ",.0f"),
)


def run_observe(options: Mapping[str, Any]) -> int:
    """Watch, save, show; 0."""
    length_s = seconds(options["window"], option="--for")
    every_s = min(seconds(options["every"], option="--every"), length_s)
    method = options["method"]
    check_method(method)
    out: Path | None = options["out"]
    if out is not None:
        check_place(out)
    with interruptible():  # SIGTERM ends the window as Ctrl-C does
        watched = watch(
            options["url"],
            seconds=length_s,
            every_s=every_s,
            api_key=api_key(options["api_key_env"]),
            model=options["model"],
            on_reading=_progress(length_s),
        )
    observation = summarise(
        watched, model=options["model"], method=method, num_speculative_tokens=options["num_speculative_tokens"]
    )
    text = observation.text()
    failure = None
    try:
        if out is not None:
            write_whole(out, text)
    except OSError as error:  # the window is past: it is printed, so that it can be kept all the same
        failure = (error.strerror or "an error").lower()
    if options["json"] or failure is not None:
        print(text, end="")
    else:
        _show(observation)
    if failure is not None:
        print(f"specworth: --out: {out} cannot be written: {failure}; it is on standard output", file=sys.stderr)
    elif out is not None:
        print(f"specworth: observation written to {out}", file=sys.stderr)
    return 0 if failure is None else 1


def _progress(length_s: float) -> Callable[[float], None] | None:
    """One line on a terminal that says how long it still takes; nothing where nobody looks."""
    if not sys.stderr.isatty():
        return None

    def tell(passed: float) -> None:
        left = max(0.0, length_s - passed)
        print(
            f"\rwatching, {left:.0f} s left " if left else "\r" + " " * 30 + "\r", end="", file=sys.stderr, flush=True
        )

    return tell


def _show(seen: Observation) -> None:
    rows = [
        ("requests per second", _number(seen.rates.requests_per_s, ".3g"), "", ""),
        ("prompt tokens per second", _number(seen.rates.prompt_tokens_per_s), "", ""),
        ("output tokens per second", _number(seen.rates.output_tokens_per_s), "", ""),
        _levels("running requests", seen.running, ".1f"),
        _levels("waiting requests", seen.waiting, ".1f"),
        _levels("KV cache in use", seen.kv_usage, ".1%"),
    ]
    for name, field, spec in _SPREADS:
        now, ever = getattr(seen, field), getattr(seen.since_start, field)
        rows.append(_spread(name, now, spec) if now or not ever else _spread(f"{name}, since its start", ever, spec))
    told = [row for row in rows if any(row[1:])]
    print_table(_title(seen), Table(("", "mean", "p95", "most / count"), tuple(told)), tuple(_sentences(seen)))


def _title(seen: Observation) -> str:
    version = f"vLLM {seen.engine_version}" if seen.engine_version else "vLLM"
    window = f"{seen.seconds:.0f} s" if seen.seconds else "since its start"
    engines = f", {len(seen.engines)} engines" if len(seen.engines) > 1 else ""
    return f"{seen.model or 'a model without name'} at {seen.url}, {version}{engines}: {window}"


def _sentences(seen: Observation) -> list[str]:
    lines = []
    if seen.kv_tokens is not None:
        lines.append(f"The KV cache holds {seen.kv_tokens:,} tokens.")
    for totals, since in ((seen, ""), (seen.since_start, ", since the server's start")):
        if totals.prefix_hit_share is not None:
            lines.append(f"The prefix cache served {totals.prefix_hit_share:.1%} of the prompt tokens{since}.")
            break
    if seen.preemptions:
        lines.append(f"{seen.preemptions:,} requests were preempted: the KV cache is too small for this load.")
    if seen.adapters:
        lines.append(f"LoRA adapters: {', '.join(seen.adapters)}; acceptance is not told for each.")
    lines.append(_speculation(seen.speculation))
    ever = seen.since_start.speculation
    if ever is not None and ever.drafted_tokens and seen.speculation and not seen.speculation.drafted_tokens:
        lines.append(f"Since its start: {_acceptance(ever)}.")
    return [*lines, *(f"Note: {note}." for note in seen.notes)]


def _speculation(seen: ObservedSpeculation | None) -> str:
    if seen is None:
        return "It does not speculate."
    speculates = f"It speculates{f' ({seen.method})' if seen.method else ''}"
    return f"{speculates}: {_acceptance(seen)}." if seen.drafted_tokens else f"{speculates}; nothing was drafted."


def _acceptance(seen: ObservedSpeculation) -> str:
    parts = [f"{seen.drafted_tokens:,} drafted tokens"]
    if seen.drafts is not None:
        parts = [f"{seen.drafts:,} drafts of {seen.num_speculative_tokens or 0:.3g} tokens"]
    if seen.acceptance_length is not None:
        parts.append(f"acceptance length {seen.acceptance_length:.2f}")
    if seen.acceptance_rate is not None:
        positions = ", ".join(f"{rate:.0%}" for rate in seen.position_rates or ())
        parts.append(f"{seen.acceptance_rate:.1%} accepted" + (f" (by position {positions})" if positions else ""))
    if seen.tokens_per_step is not None:
        parts.append(f"{seen.tokens_per_step:.2f} tokens per step over all steps")
    return "; ".join(parts)


def _number(value: float | None, spec: str = ",.0f") -> str:
    return "" if value is None else format(value, spec)


def _levels(name: str, seen: Levels | None, spec: str) -> tuple[str, str, str, str]:
    if seen is None:
        return (name, "", "", "")
    return (name, format(seen.mean, spec), format(seen.p95, spec), format(seen.most, spec))


def _spread(name: str, seen: Spread | None, spec: str) -> tuple[str, str, str, str]:
    if seen is None:
        return (name, "", "", "")
    return (name, format(seen.mean, spec), _number(seen.p95, spec), f"{seen.count:,}")
