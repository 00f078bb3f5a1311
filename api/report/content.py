"""What a report says, in which order: sections of tables, points, bars and commands, the same for every rendering."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from advisor import Recommendation, RecommendationRequest
from advisor.recommendation import Alternative, Chosen, Interval
from api.report.wording import GIB, as_sentence, chance, draft_tokens, gib, method_brief, method_with, times
from profiler.prompts.sample import PromptSample

_LEAST_SHARE = 0.01  # of a kind of prompt that is still listed
_EVERY_STEP = 0.995  # from this share on, per cent without decimals say that every step drafts


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first column is text, the others are numbers. Notes stand under it, one a line."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Points:
    """One sentence a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Bar:
    """The speedup at one concurrency."""

    concurrency: int
    value: float
    pays: bool
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """Bars over concurrency, and what they say of the crossover."""

    bars: tuple[Bar, ...]
    crossover: int | None  # up to where it pays without a gap
    caption: str

    def crosses_before(self, index: int) -> bool:
        """Does the crossover lie between this bar and the one before it?"""
        if self.crossover is None or index == 0:
            return False
        return self.bars[index - 1].concurrency <= self.crossover < self.bars[index].concurrency


@dataclass(frozen=True)
class Command:
    """A command line to copy, one option a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    body: Table | Points | Chart | Command


@dataclass(frozen=True)
class Report:
    """One sentence, then sections."""

    headline: str
    enable: bool
    decisive: bool
    sections: tuple[Section, ...]


def _within(interval: Interval, spec: str = ".2f", unit: str = "") -> tuple[str, str]:
    return f"{interval.value:{spec}}{unit}", f"{interval.low:{spec}} to {interval.high:{spec}}"


def spoken_objective(request: RecommendationRequest) -> str:
    """Which speedup decides."""
    return "end to end" if request.policy.objective == "end_to_end" else "per output token"


def headline(answer: Recommendation, request: RecommendationRequest) -> str:
    """The verdict in one sentence, with its doubt."""
    speedup = answer.speedup.end_to_end if request.policy.objective == "end_to_end" else answer.speedup.tpot
    running = answer.workload.concurrency
    spoken = f"{running:,.0f}" if running >= 10 or running == round(running) else f"{running:.1f}"
    load = f"at {spoken} concurrent request{'s' if spoken != '1' else ''}"
    doubt = f"({answer.speedup.level:.0%} interval {speedup.low:.2f} to {speedup.high:.2f})"
    gain = f"{times(speedup.value)} {spoken_objective(request)} {load} {doubt}."
    candidate = answer.candidate
    what = method_with(candidate.method, candidate.num_speculative_tokens, candidate.draft)
    if cannot_run(answer):
        return f"Leave speculative decoding off: {what} cannot run here, and nothing that could is left to compare."
    if answer.verdict == "disable":
        action, what = "leave speculative decoding off", f"the best candidate, {what},"
    else:
        action = "enable speculative decoding"
    gives = "was measured to give" if answer.basis == "measured" else "is expected to give"
    if answer.decisive:
        return f"{action.capitalize()}: {what} {gives} {gain}"
    more = "more " if answer.basis == "measured" else ""
    return f"Not decisive, leaning to {action}: {what} {gives} {gain} Measure {more}before you rely on it."


def cannot_run(answer: Recommendation) -> bool:
    """Would the engine not start with any candidate?"""
    return bool(answer.reasons) and answer.reasons[0].factor == "cannot_run"


def crossover_sentence(answer: Recommendation, minimum: float) -> str:
    """At which concurrencies it pays."""
    if cannot_run(answer):
        return "It is what would be expected if it could run here."
    if answer.crossover_reason == "none":
        return f"It reaches {times(minimum)} at no concurrency."
    if answer.crossover_concurrency is None or answer.crossover_reason == "beyond_capacity":
        if len(answer.enable_ranges) == 1 and answer.enable_ranges[0][0] == 1:
            return f"It reaches {times(minimum)} at every concurrency that this server can hold."
    elif len(answer.enable_ranges) == 1 and answer.enable_ranges[0][0] == 1:
        return f"It reaches {times(minimum)} up to {answer.crossover_concurrency:,} concurrent requests."
    ranges = ", ".join(f"{low:,} to {high:,}" if low < high else f"{low:,}" for low, high in answer.enable_ranges)
    return f"It reaches {times(minimum)} at {ranges} concurrent requests."


def pays_up_to(answer: Recommendation) -> int | None:
    """Up to how many at once it pays without a gap in which it loses; None where charts mark nothing."""
    ranges = answer.enable_ranges
    if not ranges or ranges[0][0] > 1:
        return None
    return ranges[0][1] if len(ranges) > 1 or answer.crossover_reason == "found" else None


def numbers(answer: Recommendation, request: RecommendationRequest) -> Table:
    """Speedups, acceptance and probability with their intervals."""
    measured = "measured" if answer.acceptance.basis == "measured" else "predicted"
    rows: tuple[tuple[str, str, str], ...] = (
        ("Speedup end to end", *_within(answer.speedup.end_to_end, unit="x")),
        ("Speedup of time per output token", *_within(answer.speedup.tpot, unit="x")),
        (f"Acceptance length ({measured})", *_within(answer.acceptance.length)),
    )
    if answer.acceptance.draft_share < _EVERY_STEP:  # else the same as the acceptance length
        rows += (
            ("Steps that draft", f"{answer.acceptance.draft_share:.0%}", ""),
            ("Tokens per decode step", *_within(answer.acceptance.tokens_per_step)),
        )
    rows += ((f"Probability of at least {times(request.policy.min_speedup)}", chance(answer.probability), ""),)
    return Table(("", "expected", f"{answer.speedup.level:.0%} interval"), rows)


def _chart(answer: Recommendation, request: RecommendationRequest) -> Section:
    minimum = request.policy.min_speedup
    end_to_end = request.policy.objective == "end_to_end"
    here = min((p.concurrency for p in answer.curve), key=lambda c: abs(c - answer.workload.concurrency), default=0)
    bars = tuple(
        Bar(
            concurrency=point.concurrency,
            value=(value := (point.end_to_end if end_to_end else point.tpot).value),
            pays=value >= minimum,
            note="your traffic" if point.concurrency == here else "",
        )
        for point in answer.curve
    )
    caption = crossover_sentence(answer, minimum)
    if answer.configuration.schedule:
        k = draft_tokens(answer.candidate.num_speculative_tokens)
        caption += f" All of it is with {k} at every batch size, without the schedule below."
    return Section(f"Speedup {spoken_objective(request)} by concurrency", Chart(bars, pays_up_to(answer), caption))


def memory_plan(answer: Recommendation) -> Table:
    """What takes which part of each GPU."""
    memory = answer.memory
    rows = (
        ("Target's weights", gib(memory.target_bytes), gib(memory.target_bytes)),
        ("Drafter", gib(0), gib(memory.drafter_bytes)),
        ("KV cache", gib(memory.kv_bytes_without), gib(memory.kv_bytes)),
        ("KV cache, tokens", f"{memory.kv_tokens_without:,}", f"{memory.kv_tokens:,}"),
        ("Requests of this length that it holds", f"{memory.concurrency_without:,.0f}", f"{memory.concurrency:,.0f}"),
        ("KV cache that this traffic leaves free", "", gib(memory.spare_bytes)),
    )
    used = f"GiB, of {memory.requested_bytes / GIB:,.1f} for vLLM on each GPU"
    return Table((used, "without", "with speculation"), rows)


def alternatives(answer: Recommendation) -> Table:
    """Other methods and drafters, each with its best k."""
    rows = tuple(
        (
            method_brief(other.method, other.num_speculative_tokens, other.draft),
            times(other.speedup.end_to_end.value),
            f"{other.speedup.end_to_end.low:.2f} to {other.speedup.end_to_end.high:.2f}",
            f"{other.tokens_per_step:.2f}",
            gib(other.drafter_bytes),
        )
        for other in answer.alternatives
    )
    notes = tuple(as_sentence(other.text) for other in answer.alternatives if not _ranked_by_numbers(other, answer))
    header = ("method and drafter", "end to end", "interval", "tokens/step", "GiB")
    return Table(header, rows, notes)


def _ranked_by_numbers(other: Alternative, answer: Recommendation) -> bool:
    """Do the table's numbers say why it is not the first? Not where it cannot be used, or is predicted the same."""
    blocked = other.probability == 0.0 and other.verdict == "disable"
    same = other.speedup == answer.speedup and _named(other) != _named(answer.candidate)
    return not (blocked or same)


def _named(one: Alternative | Chosen) -> tuple[str, str | None, int]:
    return one.method, one.draft, one.num_speculative_tokens


def _shares(shares: dict[str, float]) -> str:
    listed = sorted(((share, name) for name, share in shares.items() if share >= _LEAST_SHARE), reverse=True)
    return ", ".join(f"{name.replace('_', ' ')} {share:.0%}" for share, name in listed)


def _tokens(count: float) -> str:
    return f"{count:,.0f} token{'s' if round(count) != 1 else ''}"


def workload_lines(answer: Recommendation, sample: PromptSample | None) -> list[str]:
    """What was read and what it asks for; sample: None where only the answer is left of it."""
    workload = answer.workload
    if sample is None:
        lines = [f"{workload.prompts:,} prompts, read as {workload.format}."]
    else:
        source = sample.source or "the request"
        drawn = "all of them read" if len(sample.prompts) == sample.usable else f"{len(sample.prompts):,} of them drawn"
        lines = [
            f"Read from {source} as {sample.format}: {sample.usable:,} of {sample.records:,} records usable, {drawn}."
        ]
    lines += [
        f"They ask for: {_shares(workload.structure)}.",
        f"Prompts of {_tokens(workload.input_tokens)} (95% below {workload.input_tokens_p95:,.0f}), answers of "
        f"{workload.output_tokens:,.0f}, temperature {workload.temperature:g}, {workload.overlap:.0%} of an answer "
        "can be copied from what stands before it.",
    ]
    lines += [f"Skipped {count:,}: {reason}." for reason, count in workload.skipped.items()]
    lines += [f"Line {one.line}: {one.reason}." for one in (sample.first_skipped if sample is not None else ())]
    return lines + [as_sentence(note) for note in workload.notes]


def command_lines(arguments: Sequence[str]) -> tuple[str, ...]:
    """`vllm serve` with these arguments, quoted for a shell, one option a line with its continuation."""
    groups: list[list[str]] = [["vllm", "serve"]]
    for argument in arguments:
        if argument.startswith("--"):
            groups.append([argument])
        else:
            groups[-1].append(argument)
    lines = [shlex.join(group) for group in groups]
    return tuple(line if i == 0 else f"  {line}" for i, line in enumerate(lines))


def build_report(answer: Recommendation, request: RecommendationRequest, sample: PromptSample) -> Report:
    """All that people are told of one answer."""
    sections = [Section("Numbers", numbers(answer, request))]
    if answer.curve:
        sections.append(_chart(answer, request))
    if answer.reasons:
        sections.append(
            Section("Why, largest effect first", Points(tuple(as_sentence(reason.text) for reason in answer.reasons)))
        )
    if answer.warnings:
        told = tuple(f"{as_sentence(warning.text)} [{warning.code}]" for warning in answer.warnings)
        sections.append(Section("Before you act on it", Points(told)))
    if answer.alternatives:
        sections.append(Section("Alternatives", alternatives(answer)))
    sections.append(Section("Memory", memory_plan(answer)))
    read = workload_lines(answer, sample)
    if answer.workload.estimated:
        read.append(f"Not given, so estimated: {'; '.join(what.rstrip('.') for what in answer.workload.estimated)}.")
    sections.append(Section("What was read", Points(tuple(read))))
    if answer.configuration.schedule:
        tiers = tuple(
            f"{first:,} to {last:,} sequences: {draft_tokens(k)}" for first, last, k in answer.configuration.schedule
        )
        sections.append(Section("Draft tokens by batch size", Points(tiers)))
    sections.append(Section("Run it", Command(command_lines(answer.configuration.serve_arguments))))
    return Report(headline(answer, request), answer.verdict == "enable", answer.decisive, tuple(sections))


def answer_json(answer: Recommendation) -> str:
    """The HTTP service's answer, indented for people."""
    return json.dumps(answer.model_dump(mode="json"), indent=2, ensure_ascii=False)
