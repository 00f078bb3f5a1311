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
from models.estimate import Floats
from models.training.acceptance_copying import CopyScale, copy_scale
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

COUNTED_DRAFTS = 30.0  # fewer say too little of an acceptance length to judge one
Table = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Held:
    """What one predictor said of held-out cells and prompts of a family."""

    cells: Groups
    prompts: Groups


def held_out(rows: AcceptanceRows, published: Published, full: AcceptanceFit, family: str) -> dict[str, Held]:
    """Predictions of every row by fits that did not see its fold, by predictor."""
    found: dict[str, list[tuple[Groups, Groups]]] = {}
    everything = copy_scale(rows, published)  # what is known of answers, where it may be known
    alone = coefficients_of_fit(fit_acceptance(rows.take(np.zeros(len(rows), dtype=bool)), published), published)
    for hidden in folds(rows, family):
        seen, asked = rows.take(~hidden), rows.take(hidden)
        fit = fit_acceptance(seen, published, start=full)
        # The fold's own scale of copying, with the held-out answers looked up on it.
        known = replace(fit.scale, overlaps=everything.overlaps)
        by_prompt = np.char.add(np.char.add(asked.cell, " "), asked.prompt)
        said = [_said(asked, seen, coefficients_of_fit(fit, published), alone, known, by, family)
                for by in (asked.cell, by_prompt)]  # fmt: skip
        for name in said[0]:
            found.setdefault(name, []).append((said[0][name], said[1][name]))
    return {
        name: Held(cells=stacked([cells for cells, _ in parts]), prompts=stacked([prompts for _, prompts in parts]))
        for name, parts in found.items()
    }


def _said(
    asked: AcceptanceRows, seen: AcceptanceRows, ours: AcceptanceCoefficients, alone: AcceptanceCoefficients,
    known: CopyScale, by: Labels, family: str,
) -> dict[str, Groups]:  # fmt: skip
    """What each predictor says of one fold's held-out rows, pooled by label."""
    said = {
        "model": predict_groups(asked, ours, by=by),
        "model, answers known": predict_groups(asked, ours, by=by, scale=known),
        "published tables alone": predict_groups(asked, alone, by=by),
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
    asked: AcceptanceRows, seen: AcceptanceRows, shape: AcceptanceCoefficients, by: Labels, *,
    alike: tuple[Labels, Labels] | None,
) -> Groups:  # fmt: skip
    """Held-out groups with the mean of rows of the same setting, and of the same label where there are any."""
    groups = predict_groups(asked, shape, by=by)
    _, first, inverse = np.unique(by, return_index=True, return_inverse=True)
    wide = asked.setting[first]
    sums = _sums(seen, seen.setting)
    length, share = groups.length.copy(), groups.share.copy()
    narrow, narrow_sums = wide, sums
    if alike is not None:
        narrow_sums = _sums(seen, np.char.add(np.char.add(seen.setting, " "), alike[1]))
        narrow = np.char.add(np.char.add(wide, " "), _commonest(inverse, alike[0]))
    for i, (own, other) in enumerate(zip(narrow.tolist(), wide.tolist(), strict=True)):
        drafts, steps, accepted = narrow_sums.get(own) or sums.get(other) or (0.0, 0.0, 0.0)
        if drafts > 0:
            length[i], share[i] = 1.0 + accepted / drafts, drafts / steps
    return replace(groups, length=length, share=share, tokens_per_step=1.0 + share * (length - 1.0))


def _sums(rows: AcceptanceRows, labels: Labels) -> dict[str, tuple[float, float, float]]:
    """Drafts, steps and accepted tokens of all rows of each label."""
    names, inverse = np.unique(labels, return_inverse=True)
    accepted = rows.accepted[:, :JUDGED_K].sum(axis=1)
    sums = [np.bincount(inverse, weights=values) for values in (rows.drafts, rows.steps, accepted)]
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
            cells, prompts = _counted(found.cells, method), _counted(found.prompts, method)
            if not len(cells.cell):
                continue
            error = cells.length - observed_length(cells)
            own = np.abs(prompts.length - observed_length(prompts))
            row: dict[str, object] = {
                "method": method, "predictor": name, "cells": len(cells.cell),
                "MAE of AL": _round(np.abs(error).mean()), "p90": _round(np.quantile(np.abs(error), 0.9)),
                "bias": _round(error.mean()), "MAE of AL by prompt": _round(own.mean()) if len(own) else None,
                "MAE of tokens a step": _round(np.abs(cells.tokens_per_step - cells.tokens / cells.steps).mean()),
            }  # fmt: skip
            table.append(row)
    return table


def observed_length(groups: Groups) -> Floats:
    """AL of the first JUDGED_K positions, as counted."""
    length: Floats = 1.0 + groups.accepted / groups.drafts
    return length


def _counted(groups: Groups, method: str) -> Groups:
    chosen = (groups.method == method) & (groups.drafts >= COUNTED_DRAFTS)
    return Groups(**{name: getattr(groups, name)[chosen] for name in Groups.__slots__})


def _round(value: float) -> float:
    return round(float(value), 3)


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
    spreads: Spreads | None


def evaluate_rows(rows: AcceptanceRows, published: Published, full: AcceptanceFit) -> Evaluated:
    """Every family of folds."""
    plain = rows.take(~rows.structured)
    held = {family: held_out(plain, published, full, family) for family in FAMILIES}
    kinds = held[KINDS_OUT].get("model")
    return Evaluated(
        families={family: errors_table(found) for family, found in held.items() if found},
        kinds=[] if kinds is None else kinds_table(kinds.cells),
        spreads=None if kinds is None else spreads(kinds),
    )


def kinds_table(cells: Groups) -> Table:
    """Observed and predicted AL of each kind at temperature 0 and 1; n-gram's m at 0, of its shortest match."""
    table: Table = []
    for kind in np.unique(cells.kind):
        row: dict[str, object] = {"kind": str(kind)}
        for method, temperature in (("draft model", 0.0), ("draft model", 1.0), ("n-gram", 0.0)):
            chosen = (cells.kind == kind) & (cells.method == method) & (cells.temperature == temperature)
            first = int(np.argmax(chosen * cells.drafts)) if (chosen & (cells.drafts > 0)).any() else None
            row[f"{method}, T {temperature:g}"] = None if first is None else _round(observed_length(cells)[first])
            row[f"predicted {method}, T {temperature:g}"] = None if first is None else _round(cells.length[first])
            if method == "n-gram":
                row["m"] = None if first is None else _round(cells.drafts[first] / cells.steps[first])
                row["m predicted"] = None if first is None else _round(cells.share[first])
        table.append(row)
    return table


def structured_table(rows: AcceptanceRows, coefficients: AcceptanceCoefficients) -> Table:
    """Cells whose output was held to JSON, which the fit leaves out."""
    part = rows.take(rows.structured)
    if not len(part):
        return []
    groups = predict_groups(part, coefficients, by=part.cell)
    return [
        {"kind": str(groups.kind[i]), "temperature": float(groups.temperature[i]),
         "AL": _round(observed_length(groups)[i]), "predicted": _round(groups.length[i])}
        for i in np.flatnonzero(groups.drafts >= COUNTED_DRAFTS)
    ]  # fmt: skip
