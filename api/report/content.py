"""What a report says, in which order: sections of tables, points, bars and commands, the same for every rendering."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from advisor import Recommendation, RecommendationRequest
from advisor.recommendation import Interval
from profiler.prompts.sample import PromptSample

GIB = 2**30
_SPOKEN = {
    "ngram": "n-gram",
    "suffix": "suffix decoding",
    "draft_model": "a draft model",
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "mtp": "multi-token prediction",
    "medusa": "Medusa",
}
_LEAST_SHARE = 0.01  # of a kind of prompt that is still listed


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first column is text, the others are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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
    crossover: int | None  # the largest concurrency that pays
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


def times(value: float) -> str:
    """A speedup as people say it."""
    return f"{value:.2f}x"


def gib(size_bytes: float) -> str:
    """Bytes in GiB."""
    return f"{size_bytes / GIB:,.2f}"


def _within(interval: Interval, spec: str = ".2f", unit: str = "") -> tuple[str, str]:
    return f"{interval.value:{spec}}{unit}", f"{interval.low:{spec}} to {interval.high:{spec}}"


def _method(method: str, k: int | None, draft: str | None) -> str:
    spoken = _SPOKEN.get(method, method)
    if draft and method == "draft_model":
        spoken = f"the draft model {draft}"
    elif draft:
        spoken = f"{spoken} ({draft})"
    return spoken if k is None else f"{spoken} with {k} draft token{'s' if k != 1 else ''}"


def method_brief(method: str, k: int | None, draft: str | None) -> str:
    """A method as a table has it: its drafter without the organisation."""
    named = f" {draft.rsplit('/', 1)[-1]}" if draft else ""
    return f"{_SPOKEN.get(method, method).removeprefix('a ')}{named}{f', k {k}' if k is not None else ''}"


def _spoken_objective(request: RecommendationRequest) -> str:
    return "end to end" if request.policy.objective == "end_to_end" else "per output token"


def headline(answer: Recommendation, request: RecommendationRequest) -> str:
    """The verdict in one sentence."""
    speedup = answer.speedup.end_to_end if request.policy.objective == "end_to_end" else answer.speedup.tpot
    running = answer.workload.concurrency
    spoken = f"{running:,.0f}" if running >= 10 or running == round(running) else f"{running:.1f}"
    load = f"at {spoken} concurrent request{'s' if spoken != '1' else ''}"
    gain = f"{times(speedup.value)} {_spoken_objective(request)} {load}"
    doubt = "" if answer.decisive else " This is not decisive: measure before you rely on it."
    candidate = answer.candidate
    what = _method(candidate.method, candidate.num_speculative_tokens, candidate.draft)
    if answer.verdict == "disable":
        return f"Leave speculative decoding off: the best candidate, {what}, is expected to give {gain}.{doubt}"
    return f"Enable speculative decoding: {what} is expected to give {gain}.{doubt}"


def _crossover(answer: Recommendation, minimum: float) -> str:
    if answer.crossover_reason == "none":
        return f"It reaches {times(minimum)} at no concurrency."
    if answer.crossover_concurrency is None or answer.crossover_reason == "beyond_capacity":
        return f"It reaches {times(minimum)} at every concurrency that this server can hold, from where it first pays."
    ranges = ", ".join(f"{low:,} to {high:,}" for low, high in answer.enable_ranges)
    return f"It reaches {times(minimum)} up to {answer.crossover_concurrency:,} concurrent requests (pays at {ranges})."


def _numbers(answer: Recommendation, request: RecommendationRequest) -> Section:
    measured = "measured" if answer.acceptance.basis == "measured" else "predicted"
    rows = (
        ("Speedup end to end", *_within(answer.speedup.end_to_end, unit="x")),
        ("Speedup of time per output token", *_within(answer.speedup.tpot, unit="x")),
        (f"Acceptance length ({measured})", *_within(answer.acceptance.length)),
        ("Tokens per decode step", *_within(answer.acceptance.tokens_per_step)),
        ("Steps that draft", f"{answer.acceptance.draft_share:.0%}", ""),
        (f"Probability of at least {times(request.policy.min_speedup)}", f"{answer.probability:.0%}", ""),
    )
    return Section("Numbers", Table(("", "expected", f"{answer.speedup.level:.0%} interval"), rows))


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
    crossover = answer.crossover_concurrency if answer.crossover_reason == "found" else None
    return Section(
        f"Speedup {_spoken_objective(request)} by concurrency", Chart(bars, crossover, _crossover(answer, minimum))
    )


def _memory(answer: Recommendation) -> Section:
    memory = answer.memory
    rows = (
        ("Target's weights", gib(memory.target_bytes), gib(memory.target_bytes)),
        ("Drafter", gib(0), gib(memory.drafter_bytes)),
        ("KV cache", gib(memory.kv_bytes_without), gib(memory.kv_bytes)),
        ("KV cache, tokens", f"{memory.kv_tokens_without:,}", f"{memory.kv_tokens:,}"),
        ("Requests of this length", f"{memory.concurrency_without:,.0f}", f"{memory.concurrency:,.0f}"),
        ("KV cache that this traffic leaves free", "", gib(memory.spare_bytes)),
    )
    used = f"GiB of {memory.requested_bytes / GIB:,.1f} on each GPU"
    return Section("Memory", Table((used, "without", "with speculation"), rows))


def _alternatives(answer: Recommendation) -> Section:
    rows = tuple(
        (
            method_brief(other.method, other.num_speculative_tokens, other.draft),
            times(other.speedup.end_to_end.value),
            f"{other.speedup.end_to_end.low:.2f} to {other.speedup.end_to_end.high:.2f}",
            f"{other.acceptance_length:.2f}",
            gib(other.drafter_bytes),
        )
        for other in answer.alternatives
    )
    return Section("Alternatives", Table(("", "end to end", "interval", "AL", "drafter GiB"), rows))


def _sentence(text: str) -> str:
    """With a capital (names of models and fields keep theirs) and a full stop."""
    first = text.split(" ", 1)[0]
    opening = text[:1].upper() if first.isalpha() else text[:1]
    return f"{opening}{text[1:].rstrip('.')}."


def _shares(shares: dict[str, float]) -> str:
    listed = sorted(((share, name) for name, share in shares.items() if share >= _LEAST_SHARE), reverse=True)
    return ", ".join(f"{name.replace('_', ' ')} {share:.0%}" for share, name in listed)


def _workload(answer: Recommendation, sample: PromptSample) -> Section:
    workload = answer.workload
    source = sample.source or "the request"
    lines = [
        f"Read from {source} as {sample.format}: {sample.usable:,} of {sample.records:,} records usable, "
        f"{len(sample.prompts):,} looked at.",
        f"They ask for: {_shares(workload.structure)}.",
        f"Prompts of {workload.input_tokens:,.0f} tokens (95 % below {workload.input_tokens_p95:,.0f}), answers of "
        f"{workload.output_tokens:,.0f}, temperature {workload.temperature:g}, {workload.overlap:.0%} of an answer "
        "repeats its prompt.",
    ]
    lines += [f"Skipped {count:,}: {reason}." for reason, count in sample.skipped.items()]
    lines += [f"Line {one.line}: {one.reason}." for one in sample.first_skipped]
    lines += [_sentence(note) for note in dict.fromkeys((*sample.notes, *workload.notes))]
    if workload.estimated:
        lines.append(f"Not given, so estimated: {'; '.join(what.rstrip('.') for what in workload.estimated)}.")
    return Section("What was read", Points(tuple(lines)))


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
    sections = [_numbers(answer, request)]
    if answer.curve:
        sections.append(_chart(answer, request))
    if answer.reasons:
        sections.append(
            Section("Why, largest effect first", Points(tuple(_sentence(reason.text) for reason in answer.reasons)))
        )
    if answer.warnings:
        told = tuple(f"{_sentence(warning.text)} [{warning.code}]" for warning in answer.warnings)
        sections.append(Section("Before you act on it", Points(told)))
    if answer.alternatives:
        sections.append(_alternatives(answer))
    sections.append(_memory(answer))
    sections.append(_workload(answer, sample))
    if answer.configuration.schedule:
        tiers = tuple(
            f"{first:,} to {last:,} sequences: {k} draft token{'s' if k != 1 else ''}"
            for first, last, k in answer.configuration.schedule
        )
        sections.append(Section("Draft tokens by batch size", Points(tiers)))
    sections.append(Section("Run it", Command(command_lines(answer.configuration.serve_arguments))))
    return Report(headline(answer, request), answer.verdict == "enable", answer.decisive, tuple(sections))


def answer_json(answer: Recommendation) -> str:
    """The HTTP service's answer, indented for people."""
    return json.dumps(answer.model_dump(mode="json"), indent=2, ensure_ascii=False)
