"""How far off is predicted acceptance on prompts, kinds of work and sources that a fit did not see?

Everything is judged at four draft tokens. Beside the model stand the published tables alone, the mean of everything
that was measured at the temperature, and the mean of the prompts whose likeliest structure class is the same.
Residuals of kinds that were out give the spreads that ship: to whoever asks, a workload is one that was never
measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.acceptance.coefficients import AcceptanceCoefficients
from models.acceptance.model import logit
from models.training.acceptance_copying import CopyScale
from models.training.acceptance_fit import AcceptanceFit, coefficients_of_fit, fit_acceptance
from models.training.acceptance_folds import (
    FAMILIES,
    JUDGED_K,
    KINDS_OUT,
    PROMPTS_OUT,
    Groups,
    folds,
    kinds,
    predict_groups,
    stacked,
)
from models.training.acceptance_priors import Published
from models.training.acceptance_rows import AcceptanceRows, Labels
from models.training.acceptance_tables import (
    COUNTED_DRAFTS,
    Table,
    counted,
    kinds_table,
    observed_length,
    rounded,
    temperatures_table,
)


@dataclass(frozen=True, slots=True)
class _Predictor:
    """Coefficients, and the scale of copying that they were fitted with."""

    coefficients: AcceptanceCoefficients
    scale: CopyScale

    def groups(self, rows: AcceptanceRows, by: Labels, *, answers: bool = False) -> Groups:
        """Rows pooled by label, and predicted."""
        return predict_groups(rows, self.coefficients, by=by, scale=self.scale, answers=answers)


@dataclass(frozen=True, slots=True)
class Held:
    """What one predictor said of held-out cells and prompts of a family."""

    cells: Groups
    prompts: Groups


def held_out(rows: AcceptanceRows, published: Published, full: AcceptanceFit, family: str) -> dict[str, Held]:
    """Predictions of every row by fits that did not see its fold, by predictor; full: the fit to all of these rows."""
    found: dict[str, list[tuple[Groups, Groups]]] = {}
    nothing = fit_acceptance(rows.take(np.zeros(len(rows), dtype=bool)), published)
    alone = _Predictor(coefficients_of_fit(nothing, published), nothing.scale)
    for hidden in folds(rows, family):
        seen, asked = rows.take(~hidden), rows.take(hidden & (rows.num_speculative_tokens >= JUDGED_K))
        fit = fit_acceptance(seen, published, start=full)
        # The fold's own scale of copying, with the held-out answers looked up on it.
        ours = _Predictor(coefficients_of_fit(fit, published), replace(fit.scale, overlaps=full.scale.overlaps))
        by_prompt = np.char.add(np.char.add(asked.cell, " "), asked.prompt)
        said = [_said(asked, seen, ours, alone, by, family)
                for by in (asked.cell, by_prompt)]  # fmt: skip
        for name in said[0]:
            found.setdefault(name, []).append((said[0][name], said[1][name]))
    return {
        name: Held(cells=stacked([cells for cells, _ in parts]), prompts=stacked([prompts for _, prompts in parts]))
        for name, parts in found.items()
    }


def _said(
    asked: AcceptanceRows, seen: AcceptanceRows, ours: _Predictor, alone: _Predictor, by: Labels, family: str
) -> dict[str, Groups]:  # fmt: skip
    """What each predictor says of one fold's held-out rows, pooled by label."""
    said = {
        "model": ours.groups(asked, by),
        "model, answers known": ours.groups(asked, by, answers=True),
        "published tables alone": alone.groups(asked, by),
        "mean at the temperature": _means(asked, seen, alone, by, alike=None),
        "mean of the class": _means(asked, seen, alone, by, alike=(_likeliest(asked), _likeliest(seen))),
    }
    if family == PROMPTS_OUT:
        said["mean of its kind, told"] = _means(asked, seen, alone, by, alike=(kinds(asked), kinds(seen)))
    return said


def _likeliest(rows: AcceptanceRows) -> Labels:
    found: Labels = rows.structure.argmax(axis=1).astype(np.str_)
    return found


def _means(
    asked: AcceptanceRows, seen: AcceptanceRows, shape: _Predictor, by: Labels, *,
    alike: tuple[Labels, Labels] | None,
) -> Groups:  # fmt: skip
    """Held-out groups with the mean of rows of the same setting, and of the same label where there are any."""
    groups = shape.groups(asked, by)
    enough = seen.num_speculative_tokens >= JUDGED_K
    seen, alike = seen.take(enough), None if alike is None else (alike[0], alike[1][enough])
    _, first, inverse = np.unique(by, return_index=True, return_inverse=True)
    wide = asked.setting[first]
    sums = _sums(seen, seen.setting)
    length, share, tokens = groups.length.copy(), groups.share.copy(), groups.tokens_per_step.copy()
    narrow, narrow_sums = wide, sums
    if alike is not None:
        narrow_sums = _sums(seen, np.char.add(np.char.add(seen.setting, " "), alike[1]))
        narrow = np.char.add(np.char.add(wide, " "), _commonest(inverse, alike[0]))
    for i, (own, other) in enumerate(zip(narrow.tolist(), wide.tolist(), strict=True)):
        drafts, steps, first_few, every = narrow_sums.get(own) or sums.get(other) or (0.0, 0.0, 0.0, 0.0)
        if drafts > 0:
            length[i], share[i], tokens[i] = 1.0 + first_few / drafts, drafts / steps, 1.0 + every / steps
    return replace(groups, length=length, share=share, tokens_per_step=tokens)


def _sums(rows: AcceptanceRows, labels: Labels) -> dict[str, tuple[float, float, float, float]]:
    """Drafts, steps, and accepted tokens of the judged and of all positions, of all rows of each label."""
    names, inverse = np.unique(labels, return_inverse=True)
    judged, every = rows.accepted[:, :JUDGED_K].sum(axis=1), rows.accepted.sum(axis=1)
    sums = [np.bincount(inverse, weights=values) for values in (rows.drafts, rows.steps, judged, every)]
    return dict(zip(names.tolist(), zip(*(part.tolist() for part in sums), strict=True), strict=True))


def _commonest(group: NDArray[np.int64], labels: Labels) -> Labels:
    """The label that most rows of each group have."""
    names, codes = np.unique(labels, return_inverse=True)
    counts = np.zeros((int(group.max()) + 1, len(names)))
    np.add.at(counts, (group, codes), 1.0)
    found: Labels = names[counts.argmax(axis=1)]
    return found


def errors_table(held: dict[str, Held]) -> Table:
    """Mean absolute errors by method and predictor: of AL by cell and by prompt, of m and τ by cell."""
    table: Table = []
    methods = sorted(set(held["model"].cells.method.tolist()))
    for method in methods:
        for name, found in held.items():
            cells, prompts = counted(found.cells, method), counted(found.prompts, method)
            if not len(cells.cell):
                continue
            error = cells.length - observed_length(cells)
            own = np.abs(prompts.length - observed_length(prompts))
            row: dict[str, object] = {
                "method": method, "predictor": name, "cells": len(cells.cell),
                "MAE of AL": rounded(np.abs(error).mean()), "p90": rounded(np.quantile(np.abs(error), 0.9)),
                "bias": rounded(error.mean()), "MAE of AL by prompt": rounded(own.mean()) if len(own) else None,
                "MAE of tokens a step": rounded(np.abs(cells.tokens_per_step - cells.tokens / cells.steps).mean()),
            }  # fmt: skip
            table.append(row)
    return table


@dataclass(frozen=True, slots=True)
class Spreads:
    """Sd of log(AL - 1) and of the log-odds of m on kinds of work that were out; nan where nothing tells."""

    length: dict[str, float]
    share: float


def spreads(held: Held) -> Spreads:
    """Root mean squares of the residuals by method, drafting ways together."""
    cells = held.cells
    judged = (cells.drafts >= COUNTED_DRAFTS) & (cells.accepted > 0)
    residual = np.log(cells.length - 1.0) - np.log(np.where(judged, cells.accepted / np.maximum(cells.drafts, 1), 1.0))
    length = {}
    for method, start in (("draft_model", "draft model"), ("ngram", "n-gram")):
        chosen = judged & np.char.startswith(cells.method, start)
        length[method] = float(np.sqrt(np.mean(residual[chosen] ** 2))) if chosen.any() else float("nan")
    copying = np.char.startswith(cells.method, "n-gram")
    away = logit(cells.share) - logit(np.clip(cells.drafts / cells.steps, 0.005, 0.995))
    share = float(np.sqrt(np.mean(away[copying] ** 2))) if copying.any() else float("nan")
    return Spreads(length, share)


def with_spreads(
    coefficients: AcceptanceCoefficients, found: Spreads | None, published: Published
) -> AcceptanceCoefficients:
    """The coefficients with honest spreads for drafters and workloads that nobody measured.

    Heads: what published sources show when they are out. Draft models: two pairs tell of a third, so EAGLE-3's spread
    of sources as of a mean of two, and at least that of kinds that were out. n-gram: kinds that were out, and how one
    task differs between targets in published prompt lookup.
    """
    summary, lookup = published.document["summary"], published.document["lookup"]
    eagle3 = summary["left_out_log_sd"]["eagle3"]
    contrast = float(np.hypot(eagle3, 0.15))
    length = {
        "eagle3": eagle3, "eagle": contrast, "mtp": max(summary["left_out_log_sd"]["mtp"], eagle3),
        "medusa": float(np.hypot(contrast, 0.3)), "draft_model": eagle3 * np.sqrt(1.5), "ngram": lookup["log_sd"],
    }  # fmt: skip
    share = max(lookup["log_sd"], 0.5)
    if found is not None:
        own = {name: value for name, value in found.length.items() if np.isfinite(value)}
        length["draft_model"] = max(length["draft_model"], own.get("draft_model", 0.0))
        length["ngram"] = own.get("ngram", 1.5 * lookup["log_sd"])
        if np.isfinite(found.share):
            share = float(np.hypot(found.share, lookup["log_sd"]))
    length["suffix"] = 1.5 * length["ngram"]
    logits = {"ngram": share, "suffix": 1.5 * share}
    return replace(
        coefficients, length_log_sd=np.array([length[name] for name in coefficients.methods]),
        share_logit_sd=np.array([logits.get(name, 0.0) for name in coefficients.methods]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Error tables by family, the table of kinds that were out, and the spreads that follow (None without rows)."""

    families: dict[str, Table]
    kinds: Table
    temperatures: Table
    spreads: Spreads | None
    held: dict[str, Groups]  # the model's own cells by family


def evaluate_rows(rows: AcceptanceRows, published: Published, full: AcceptanceFit) -> Evaluated:
    """Every family of folds."""
    plain = rows.take(~rows.structured)
    held = {family: held_out(plain, published, full, family) for family in FAMILIES}
    kinds = held[KINDS_OUT].get("model")
    return Evaluated(
        families={family: errors_table(found) for family, found in held.items() if found},
        kinds=[] if kinds is None else kinds_table(kinds.cells),
        temperatures=temperatures_table(held[PROMPTS_OUT]["model"].cells) if held[PROMPTS_OUT] else [],
        spreads=None if kinds is None else spreads(kinds),
        held={family: found["model"].cells for family, found in held.items() if found},
    )


def structured_table(rows: AcceptanceRows, published: Published, fit: AcceptanceFit) -> Table:
    """Cells whose output was held to JSON, which the fit leaves out."""
    part = rows.take(rows.structured)
    if not len(part):
        return []
    groups = _Predictor(coefficients_of_fit(fit, published), fit.scale).groups(part, part.cell)
    return [
        {"kind": str(groups.kind[i]), "temperature": float(groups.temperature[i]),
         "AL": rounded(observed_length(groups)[i]), "predicted": rounded(groups.length[i])}
        for i in np.flatnonzero(groups.drafts >= COUNTED_DRAFTS)
    ]  # fmt: skip
