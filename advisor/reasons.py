"""Why is the speedup what it is?

Each reason is a what-if: one thing changed, everything else as it is, and the speedup that the same models then
predict. The effect is that speedup minus the present one; the largest come first, and a change that turns the verdict
says so. What-ifs of one answer are predicted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.predictions import Case, Predictions
from advisor.recommendation import Reason
from advisor.speedup import Speedups, compare
from models.estimate import Estimate
from models.structure import STRUCTURES
from profiler.architecture import Architecture

_SPOKEN_STRUCTURE = {
    "code": "code", "json": "JSON", "sql": "SQL", "math": "math", "translation": "translations",
    "summarisation": "summaries", "question_answering": "answers to questions", "chat": "chat",
    "creative": "creative writing", "tool_calling": "tool calls",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One thing changed; `text` has a place for the speedup it gives and the present one."""

    factor: str
    case: Case
    concurrency: int
    text: str


def what_ifs(case: Case, *, concurrency: int, context: int | None) -> Iterator[WhatIf]:
    """The changes worth telling about this case."""
    conditions = case.conditions
    yield _temperature(case, concurrency)
    yield _structure(case, concurrency)
    yield from _load(case, concurrency)
    yield from _lengths(case, concurrency, context)
    yield from _draft_tokens(case, concurrency)
    yield from _drafter(case, concurrency)
    if case.candidate.method in ("ngram", "suffix"):
        other = 0.8 if conditions.overlap < 0.4 else 0.1
        changed = _with(case, overlap=other)
        text = (
            f"if {other:.0%} of an answer could be copied from what stands before it instead of "
            f"{conditions.overlap:.0%}"
        )
        yield WhatIf("overlap", changed, concurrency, text)
    if case.limit < min(concurrency, case.limit_without):
        text = (
            f"if speculation took nothing from the KV cache (now {case.limit:,} requests run instead of "
            f"{case.limit_without:,})"
        )
        yield WhatIf("memory", replace(case, limit=case.limit_without), concurrency, text)


def tell(
    predictions: Predictions,
    row: int,
    changes: Sequence[WhatIf],
    *,
    speedups: Sequence[float],
    present: float,
    most: float,
    pays_from: float,
    blocked: str | None = None,
) -> list[Reason]:
    """Reasons in order of the size of their effect; those that round to nothing are left out, but never all.

    present: the speedup of the chosen row; most: what it would be if all drafts were accepted; pays_from: the speedup
    from which it pays; blocked: why the engine would not start so.
    """
    balance = _acceptance(predictions, row, present=present, most=most)
    reasons = [balance] if _differ(most, present) else []
    reasons += [
        Reason(
            factor=change.factor,
            effect=speedup - present,
            text=f"{change.text}{_turn(speedup, present, pays_from)}: {speedup:.2f}x instead of {present:.2f}x",
        )
        for change, speedup in zip(changes, speedups, strict=True)
        if _differ(speedup, present)
    ]
    reasons.sort(key=lambda reason: -abs(reason.effect))
    if blocked is not None:
        text = f"it cannot run here: {blocked}; if it could, {present:.2f}x would be expected"
        reasons.insert(0, Reason(factor="cannot_run", effect=1.0 - present, text=text))
    return reasons or [balance]


def _turn(speedup: float, present: float, pays_from: float) -> str:
    """What a change does to the verdict, where it does something: it is the side of the threshold that decides."""
    if (speedup >= pays_from) == (present >= pays_from):
        return ""
    return " it would pay" if speedup >= pays_from else " it would not pay"


def _differ(one: float, other: float) -> bool:
    """Whether two speedups differ as they are told."""
    return f"{one:.2f}" != f"{other:.2f}"


def _acceptance(predictions: Predictions, row: int, *, present: float, most: float) -> Reason:
    """What a step yields and what it costs: the two sides of the balance."""
    index = predictions.case[row]
    case, yields = predictions.cases[index], 1.0 + float(predictions.gain.value[index])
    step, base = float(predictions.speculative.step_ms[row]), float(predictions.beside.step_ms[row])
    all_of = f"all {case.k} draft tokens" if case.k > 1 else "every draft token"
    return Reason(
        factor="acceptance",
        effect=most - present,
        text=f"a step yields {yields:.2f} tokens and takes {step:.2f} ms instead of {base:.2f} ms; if {all_of} were "
        f"accepted: {most:.2f}x instead of {present:.2f}x",
    )


def _with(case: Case, **changes: object) -> Case:
    """The case with some of its conditions changed."""
    return replace(case, conditions=replace(case.conditions, **changes))  # type: ignore[arg-type]


def _temperature(case: Case, concurrency: int) -> WhatIf:
    present = case.conditions.temperature
    other = 1.0 if present < 0.5 else 0.0
    return WhatIf(
        "temperature", _with(case, temperature=other), concurrency, f"at temperature {other:g} instead of {present:g}"
    )


def _structure(case: Case, concurrency: int) -> WhatIf:
    """The far end of what prompts can ask for: a poem is accepted least, JSON most."""
    present = STRUCTURES[int(np.argmax(case.conditions.structure))]
    other = "creative" if present in ("json", "code", "sql", "tool_calling", "math") else "json"
    shares = np.zeros(len(STRUCTURES))
    shares[STRUCTURES.index(other)] = 1.0
    text = f"if the prompts asked for {_SPOKEN_STRUCTURE[other]} instead of mostly {_SPOKEN_STRUCTURE[present]}"
    return WhatIf("structure", _with(case, structure=shares), concurrency, text)


def _load(case: Case, concurrency: int) -> Iterator[WhatIf]:
    if concurrency > 1:
        yield WhatIf("concurrency", case, 1, f"with a single request at a time instead of {concurrency:,}")
    more = min(concurrency * 4, case.limit, case.limit_without)
    if more > concurrency:
        yield WhatIf("concurrency", case, more, f"with {more:,} requests at once instead of {concurrency:,}")


def _lengths(case: Case, concurrency: int, context: int | None) -> Iterator[WhatIf]:
    """Four times as long or as short, whichever the context admits: prefill is what speculation cannot speed up."""
    now = case.conditions
    longer = now.input_tokens * 4
    if now.input_tokens > 1000 or (context is not None and longer + now.output_tokens > context):
        longer = max(now.input_tokens / 4, 1.0)
    text = f"with prompts of {longer:,.0f} tokens instead of {now.input_tokens:,.0f}"
    if round(longer) != round(now.input_tokens):
        yield WhatIf("context", _with(case, input_tokens=longer), concurrency, text)
    answers = now.output_tokens * 4
    if now.output_tokens > 500 or (context is not None and now.input_tokens + answers > context):
        answers = max(now.output_tokens / 4, 1.0)
    text = f"with answers of {answers:,.0f} tokens instead of {now.output_tokens:,.0f}"
    if round(answers) != round(now.output_tokens):
        yield WhatIf("output_length", _with(case, output_tokens=answers), concurrency, text)


def _draft_tokens(case: Case, concurrency: int) -> Iterator[WhatIf]:
    for k in (case.k - 1, case.k + 1):
        if 1 <= k <= 8:
            text = f"with {k} draft token{'s' if k > 1 else ''} a step instead of {case.k}"
            yield WhatIf("num_speculative_tokens", replace(case, k=k), concurrency, text)


def _drafter(case: Case, concurrency: int) -> Iterator[WhatIf]:
    candidate = case.candidate
    if candidate.method == "draft_model" and candidate.draft is not None and candidate.draft.num_layers > 1:
        half = _half_as_deep(candidate.draft)
        text = (
            f"with a drafter of {half.num_layers} layers instead of {candidate.draft_name}'s "
            f"{candidate.draft.num_layers}"
        )
        yield WhatIf("drafter_size", replace(case, candidate=replace(candidate, draft=half)), concurrency, text)
    if not candidate.probabilistic and candidate.method == "draft_model" and case.conditions.temperature > 0:
        other = replace(candidate, probabilistic=True)
        text = "with draft_sample_method probabilistic instead of greedy"
        yield WhatIf("draft_sample_method", replace(case, candidate=other), concurrency, text)


def _half_as_deep(draft: Architecture) -> Architecture:
    """The same model with half its layers; its tables stay."""
    share = (draft.num_layers // 2) / draft.num_layers
    return replace(
        draft,
        num_layers=draft.num_layers // 2,
        weights=tuple(
            group if group.role in ("embedding", "lm_head", "position") else replace(
                group, parameters=round(group.parameters * share), size_bytes=group.size_bytes * share,
                matmul_parameters=round(group.matmul_parameters * share),
            )
            for group in draft.weights
        ),
        layers=tuple(replace(group, count=max(1, group.count // 2)) for group in draft.layers),
    )  # fmt: skip


def all_accepted(predictions: Predictions, row: int) -> Speedups:
    """The speedups of one row if the target accepted every draft token: the most that its costs allow."""
    case = predictions.cases[predictions.case[row]]
    share = predictions.acceptance.draft_share[predictions.case[row]]

    only = slice(row, row + 1)
    return compare(
        without=predictions.without.rows(only),
        beside=predictions.beside.rows(only),
        speculative=predictions.speculative.rows(only),
        gain=Estimate(np.array([share * case.k]), np.zeros(1)),
        output_tokens=Estimate(np.array([case.conditions.output_tokens]), np.zeros(1)),
        log_sd_end_to_end=predictions.log_sd_end_to_end[only],
        log_sd_tpot=predictions.log_sd_tpot[only],
    )
