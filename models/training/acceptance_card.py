"""How is acceptance reported? Its section of the model card, and acceptance.md with every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.acceptance.coefficients import AcceptanceCoefficients
from models.training.acceptance_folds import JUDGED_K, KINDS_OUT, PROMPTS_OUT, SETS_OUT
from models.training.card_text import table

AIM = 0.35
_READING = f"""AL is judged as {JUDGED_K} draft tokens would have it. A row is a cell (engine, kind of prompts,
temperature) or, with prompts out, the part of its prompts that one fold holds out; less than 30 drafts are not judged.
Prompts are known by the structure scorer's probabilities and their length alone, never by the label of their file, and
nothing is known of their answers, except where the predictor says so (*answers known*: copying as a replay of past
answers would show it). All rows of a prompt, at every temperature and by every method, are held out together."""
_PREDICTORS = """*published tables alone*: the prior, without any measurement; *mean at the temperature*: of everything
measured with the same method, match length and temperature; *mean of the class*: the same, of prompts with the same
likeliest structure class; *mean of its kind, told*: the same, of the other prompts of the very same kind, which no
user could tell: about the least error that these few prompts allow."""
_UNSEEN = """What is shipped as uncertainty is that of what nobody measured: for n-gram the residuals on kinds of
prompts that were out, for draft models at least EAGLE-3's between published sources as of a mean of two pairs, for
heads what published sources show when they are left out."""
_PUBLISHED = ("method", "left out", "rows", "MAE of AL", "bias of AL", "log sd", "MAE, one acceptance",
              "MAE, with what was measured")  # fmt: skip
_LIMITS = """What this does not tell. One pair of small models of one family (weights dequantised from Q4_K_M), and one
target for lookup; answers of up to 200 tokens; a temperature of 1.3 makes so small a target write nonsense. Draft
models of other sizes rest on one published pair beside it, heads on published tables with what the pair showed of
classes. With k = 3 a first draft token is accepted a little more often than with k = 7 (0.83 and 0.81 over all kinds at
temperature 0): a long draft leaves fewer steps in easy stretches. One acceptance for every k is a compromise."""
_COLUMNS = ("method", "predictor", "cells", "MAE of AL", "p90", "bias", "MAE of AL by prompt", "MAE of tokens a step")


def card_lines(tables: Mapping[str, Any]) -> list[str]:
    """The section of the model card."""
    lines = ["## Acceptance", ""]
    count = tables["rows"]
    if not count["rows"]:
        return [*lines, "No acceptance was measured: the published tables alone are used.", ""]
    lines += [
        f"Learned from {count['cells']} cells ({count['kinds']} kinds of prompts, {count['prompts']} prompts, "
        f"{count['drafts']:,} drafts) of one pair and one target for lookup, with published tables as a prior.", "",
        *aim_lines(tables), "",
    ]  # fmt: skip
    for family in (PROMPTS_OUT, KINDS_OUT, SETS_OUT):
        ours = [row for row in tables["families"].get(family, []) if row["predictor"] in ("model", "mean of the class")]
        if ours:
            lines += [f"With {family}:", "", *rows_table(_COLUMNS, ours), ""]
    lines += [
        "Published sources, each left out (means over the sources):",
        "",
        *published_lines(tables["published"]),
        "",
    ]
    return [*lines, _UNSEEN, "", _LIMITS, "", "Every table: `acceptance.md`.", ""]


def published_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a method: how far off published acceptance lengths are whose source no fit saw."""
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        names = ("MAE, with what was measured", "MAE of AL", "MAE, one acceptance")
        ours, alone, one = (_means(own, name) for name in names)
        lines.append(f"- {method}: {len(own)} out in turn, mean absolute error of AL {ours}; published tables alone "
                     f"{alone}; one acceptance for everything {one}.")  # fmt: skip
    return lines


def _means(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Mean over sources, and over rows."""
    found = [(row[name], row["rows"]) for row in rows if name in row]
    if not found:
        return "know nothing of it" if name == "MAE of AL" else "is none"
    values, counts = zip(*found, strict=True)
    return f"{np.mean(values):.2f} ({np.average(values, weights=counts):.2f} by rows)"


def aim_lines(tables: Mapping[str, Any]) -> list[str]:
    """Whether the aim is met, method by method."""
    return [
        f"- {row['method']}: mean absolute error of AL at k = {JUDGED_K} with {PROMPTS_OUT} {row['MAE of AL']:.2f} "
        f"({row['MAE of AL by prompt']:.2f} a single prompt); aim {AIM}: "
        f"{'met' if row['MAE of AL'] <= AIM else '**missed**'}."
        for row in tables["families"].get(PROMPTS_OUT, [])
        if row["predictor"] == "model"
    ]


def acceptance_text(tables: Mapping[str, Any], coefficients: AcceptanceCoefficients) -> str:
    """acceptance.md."""
    lines = ["# Acceptance: held-out errors and what was learned", ""]
    lines += ["Rendered by `specworth train`; `specworth evaluate` makes the same figures anew.", ""]
    count = tables["rows"]
    if count["rows"]:
        lines += [f"From {count['cells']} cells, {count['prompts']} prompts, {count['rows']} rows.", ""]
        lines += [*aim_lines(tables), "", _READING, "", _PREDICTORS, "", _UNSEEN, "", _LIMITS, ""]
    for family, rows in tables["families"].items():
        lines += [f"## {family[0].upper()}{family[1:]}", "", *rows_table(_COLUMNS, rows), ""]
    if tables["kinds"]:
        lines += ["## Kinds of prompts, each predicted without having seen its kind", "",
                  "AL with greedy drafts at temperature 0 and 1, of n-gram at 0 with its share m of steps that draft.",
                  "", *rows_table(tuple(tables["kinds"][0]), tables["kinds"]), ""]  # fmt: skip
    if tables["coverage"]:
        lines += ["## Intervals and errors by temperature", "",
                  "Share of held-out cells inside the shipped 90 % intervals of AL - 1 and of τ - 1.", "",
                  *rows_table(tuple(tables["coverage"][0]), tables["coverage"]), "",
                  f"Mean absolute error of AL with {PROMPTS_OUT} and its bias, by temperature.", "",
                  *rows_table(tuple(tables["temperatures"][0]), tables["temperatures"]), ""]  # fmt: skip
    if tables["structured"]:
        lines += ["## JSON enforced", "",
                  "Not learned from: prompts with their output held to JSON, beside what is predicted of them.",
                  "", *rows_table(tuple(tables["structured"][0]), tables["structured"]), ""]  # fmt: skip
    lines += ["## Published sources, each left out", "",
              "By `benchmarks/fit_published_acceptance.py`, which alone reads them; groups are targets for MTP.", "",
              "Each is predicted by a fit without it; *with what was measured* adds the measured rows to that fit.", "",
              *rows_table(_PUBLISHED, tables["published"]), ""]  # fmt: skip
    if tables["published_lookup"]:
        lines += ["## Published prompt lookup", "",
                  "Tokens a step at temperature 0 as published (means over targets), and predicted from what was",
                  "measured here alone, for a shortest match of 1 and k 10.", "",
                  *rows_table(tuple(tables["published_lookup"][0]), tables["published_lookup"]), ""]  # fmt: skip
    return "\n".join([*lines, *_coefficients(coefficients)]) + "\n"


def _coefficients(c: AcceptanceCoefficients) -> list[str]:
    """What was learned, on the log-odds scale."""
    names = ("intercept", "decay", "heat_decay", "size", "copy", "lookup", "share_copy",
             "share_lookup", "length_log_sd", "share_logit_sd")  # fmt: skip
    rows = [
        {"method": method} | {name: round(float(getattr(c, name)[i]), 2) for name in names}
        for i, method in enumerate(c.methods)
    ]
    classes = []
    for place, name in enumerate(c.classes):
        row: dict[str, object] = {"class": name}
        for method in ("draft_model", "eagle3", "ngram"):
            i = c.methods.index(method)
            row[f"{method}: effect"] = round(float(c.class_effect[i, place]), 2)
            row[f"{method}: slope"] = round(float(c.temperature_slope[i, place]), 2)
        row["ngram: share"] = round(float(1 / (1 + np.exp(-c.share_class[i, place] - c.share_intercept[i]))), 2)
        row |= {"overlap": round(float(c.copying.overlap[place]), 2), "typical prompt": int(c.copying.tokens[place]),
                "by log length": round(float(c.copying.slope[place]), 2)}  # fmt: skip
        classes.append(row)
    return ["## Coefficients", "", f"Prompts of one kind differ by {c.within_log_sd:.2f} in log(AL - 1).", "",
            *rows_table(tuple(rows[0]), rows), "", *rows_table(tuple(classes[0]), classes)]  # fmt: skip


def rows_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Lines of a Markdown table from mappings."""
    return table(columns, ([_cell(row.get(column)) for column in columns] for row in rows))


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
