"""What must a fit of acceptance not see when it predicts a workload, and what does it then say of it?

Rows of one prompt, at whatever temperature and by whatever method, are never apart. Three families: every fifth prompt
of each kind out (known kinds of work, unknown prompts), one kind of one prompt set out (unknown work), one whole
prompt set out. A held-out cell is predicted as advice is: one row with the mean structure of its prompts' tokens,
through the model that ships; nothing is known of its answers, unless told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.acceptance.coefficients import AcceptanceCoefficients
from models.acceptance.estimate import AcceptanceEstimate, AcceptanceInputs
from models.acceptance.model import AcceptanceModel
from models.estimate import Floats
from models.training.acceptance_copying import CopyScale
from models.training.acceptance_rows import AcceptanceRows, Labels, Mask

PROMPTS_OUT, KINDS_OUT, SETS_OUT = "every fifth prompt out", "one kind of prompts out", "one prompt set out"
FAMILIES = (PROMPTS_OUT, KINDS_OUT, SETS_OUT)
PARTS = 5
JUDGED_K = 4  # acceptance lengths are compared as four draft tokens would have them


def folds(rows: AcceptanceRows, family: str) -> Iterator[Mask]:
    """The rows that each fit of a family must not see, and that it then predicts; together all rows."""
    if family == PROMPTS_OUT:
        part = _parts(rows)
        labels: Labels = part.astype(np.str_)
    elif family == KINDS_OUT:
        labels = kinds(rows)
    else:
        labels = rows.prompt_set
    names = np.unique(labels)
    if len(names) > 1:
        for name in names:
            yield labels == name


def kinds(rows: AcceptanceRows) -> Labels:
    """Prompt set and class of each row, as files name them."""
    found: Labels = np.char.add(np.char.add(rows.prompt_set, "/"), rows.kind)
    return found


def _parts(rows: AcceptanceRows) -> np.ndarray:
    """Fold of each row: prompts of a kind, in their file's order, dealt out one by one."""
    place: dict[str, int] = {}
    seen: dict[str, int] = {}
    keys = [(str(s), str(k), int(str(p).rsplit("/", 1)[1]), str(p)) for s, k, p in
            zip(rows.prompt_set, rows.kind, rows.prompt, strict=True)]  # fmt: skip
    for prompt_set, kind, _, prompt in sorted(set(keys)):
        group = f"{prompt_set}/{kind}"
        place[prompt] = seen[group] = seen.get(group, -1) + 1
    return np.array([place[prompt] % PARTS for *_, prompt in keys], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Groups:
    """Held-out rows pooled: all prompts of one cell that one fold holds out. Observed, and what a fit said of them."""

    cell: Labels
    method: Labels  # with its way of drafting
    kind: Labels
    temperature: Floats
    tokens: Floats  # decode tokens
    steps: Floats
    drafts: Floats
    accepted: Floats  # of the first JUDGED_K positions
    length: Floats  # predicted AL at JUDGED_K
    share: Floats  # predicted m
    tokens_per_step: Floats  # predicted τ at the row's own k


def label(method: str, probabilistic: bool) -> str:
    """A method and its way of drafting in words."""
    return {"draft_model": "draft model", "ngram": "n-gram"}.get(method, method) + (
        ", probabilistic" if probabilistic else ""
    )


def predict_groups(
    rows: AcceptanceRows, coefficients: AcceptanceCoefficients, *, by: Labels, scale: CopyScale, answers: bool = False
) -> Groups:
    """Pool rows by label and predict each pool; answers: what these answers copy is known, as past ones tell it."""
    names, first, inverse = np.unique(by, return_index=True, return_inverse=True)

    def total(values: Floats) -> Floats:
        return np.bincount(inverse, weights=values, minlength=len(names)).astype(np.float64)

    tokens = rows.steps + rows.accepted.sum(axis=1)
    structure = np.stack([total(tokens * column) for column in rows.structure.T], axis=1)
    structure /= structure.sum(axis=1, keepdims=True)
    overlap = total(tokens * (scale.known(rows) if answers else scale.cold(rows))) / total(tokens)
    part = rows.take(first)

    def predict(k: np.ndarray) -> AcceptanceEstimate:
        return AcceptanceModel.of(coefficients).predict(
            AcceptanceInputs.of(
                method=part.method, num_speculative_tokens=k, temperature=part.temperature,
                probabilistic=part.probabilistic, size_ratio=part.size_ratio, overlap=overlap,
                lookup_min=part.lookup_min, structure=structure,
            )
        )  # fmt: skip

    short, own = predict(np.minimum(part.num_speculative_tokens, JUDGED_K)), predict(part.num_speculative_tokens)
    return Groups(
        cell=part.cell, kind=kinds(part), temperature=part.temperature,
        method=np.array([label(str(m), bool(p)) for m, p in zip(part.method, part.probabilistic, strict=True)]),
        tokens=total(tokens), steps=total(rows.steps), drafts=total(rows.drafts),
        accepted=total(rows.accepted[:, :JUDGED_K].sum(axis=1)),
        length=short.acceptance_length, share=short.draft_share, tokens_per_step=own.tokens_per_step,
    )  # fmt: skip


def stacked(groups: list[Groups]) -> Groups:
    """Groups of several folds, one after the other."""
    return Groups(**{name: np.concatenate([getattr(group, name) for group in groups]) for name in Groups.__slots__})
