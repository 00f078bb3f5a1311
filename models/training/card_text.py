"""The model card as Markdown: aims beside results first, then where the errors lie, then everything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from models.training.evaluation import OURS
from models.training.folds import TARGET_OUT

_COLUMNS = {
    "mape": "MAPE", "p90": "p90", "bias": "bias", "tpot_mape": "TPOT MAPE", "tpot_p90": "TPOT p90",
    "balanced_accuracy": "balanced accuracy", "balanced_accuracy_clear": "clear cells", "regret": "regret",
    "calibration_error": "calibration", "coverage": "coverage", "interval": "± interval", "mape_sound": "MAPE, sound",
    "mape_of_ours": "ours beside",
}  # fmt: skip
_READING = """Errors are of the end-to-end speedup, |predicted / measured - 1|, acceptance given (each cell with its
measured τ and m), both arms predicted by a fit that saw no row of the group. Balanced accuracy is of the decision at
1.05; *clear cells* are further from it than the noise floor of a speedup. Regret is the speed lost against always
choosing right. Calibration is the mean gap between the stated probability of reaching a threshold and how often it is
reached, over thresholds 1.0 to 1.5. Coverage is the share of cells in their 90 % interval, whose width comes from
targets that were absent from the fit and from the group; *± interval* is its median half-width. *MAPE, sound* is of
cells of which no flag of the data card doubts either arm; *ours beside* is our MAPE on the cells that a rival could
predict."""
_WHY = """What is known of the causes. Up to 8 sequences, where a pass is one CUDA graph and its time is the GPU's,
EAGLE-3's speedups of an unseen target are met to 2 % on average, by which two runs may differ, too. The errors lie
above that, where passes carry prefills or exceed the graphs, and with the synchronous methods (n-gram, draft models)
everywhere: there the host's launches decide, and the host's speed differs from one started engine to the next. With
EAGLE-3 at 128 x 128 the same kind of step takes 26 ms over Llama-3.1-8B's 32 layers and 29 to 30 over the 36 of
Qwen3-8B and Qwen3-4B; n-gram at 32 x 512 takes 16 and 21 ms a step for the two 8B targets, whose baselines take 9.0
and 9.5; Qwen3-4B's baselines at 64 x 128 and 256 x 128 vary by a fifth between windows. No cell of 8 requests and
more has two sound runs yet, so that the noise floor there is unknown and nothing can be averaged. Tried on these
same folds, so that a slight optimism is in the figures, and not kept: an extra cost a layer for Qwen3's norms over
queries and keys (draft models 8.2 %, but EAGLE-3 4.8 % and n-gram 8.5 %), a host cost of a head for each sequence, a
host that runs ahead during graph passes and other corners of the roofline (all within 0.2 points of the error over
all), evenly spaced prefills of the baseline (up to 0.5 points worse), other weights of flagged cells (0.2 to 0.55
worse). Kept: logits of a prompt counted once, the maximum of host and GPU over a whole asynchronous step instead of a
soft sum of passes (5.3 to 4.6 %)."""
_COVERAGE = """Nominal 90 %, one target out. With so few targets this is what was seen, not a guarantee. Intervals are
split-conformal with residuals scaled by method and band of concurrency, groups with few cells drawn towards the
product of their method's and their band's level (`models/training/intervals.py`). Beyond what was measured they widen:
each gap (GPU, engine version, method, tensor parallelism, experts, quantisation, eager mode, kind of attention, traffic
beyond the largest) adds its own variance, from shifting the constants that it touches and carrying them through the
physics (`gaps` in `step_cost.json`, each with its source); such a verdict is never decisive without a probe."""
_RESIDUALS = """Request times are those of the fit to all cells, speedups those of one target out; errors are
predicted / measured - 1. Kinds of passes: `models/training/residuals.py`."""
_LEARNED = """MAPE of the end-to-end speedup by the physics alone and with a correction learned from the other folds'
held-out errors on dimensionless features, monotone in concurrency and context (`models/training/learned_residuals.py`).
What does not lower the first row is not shipped, and none is."""


def model_card(card: Mapping[str, Any]) -> str:
    """MODEL_CARD.md."""
    cost = card["step_cost"]
    lines = [
        "# Model card", "",
        "Rendered from `card.json` by `specworth train`; do not edit.", "",
        f"- Revision {card['git_revision']}; "
        + ", ".join(f"{name} {number}" for name, number in card["versions"].items())
        + ".",
        *(f"- Data: `{d['file']}`, {d['rows']} rows, SHA-256 {d['sha256'][:16]}." for d in card["data"]),
        *(f"- Artefact: `{name}`, SHA-256 {its['sha256'][:16]}." for name, its in card["artefacts"].items()),
        "", "## Step cost", "",
        "A pass of the engine is priced by a roofline with fitted overheads (`models/step_cost/passes.py`), requests",
        "by a closed loop of passes. " + _noise(cost), "",
        "### Aims, one target out", "",
        *table(("figure", "method", "aim", "found", "met"), map(_aim, cost["aims"])),
        "", *_causes(cost), "",
        *table(
            ("method", "sequences", "cells", "MAPE", "± interval", "inside"),
            (
                (its["method"], its["concurrency"], str(its["cells"]), figure(its["mape"]), figure(its["interval"]),
                 percent(its["inside"]))
                for its in cost["bands"]
            ),
        ),
        "", "### Where no target was seen", "", _READING, "",
        *predictors(cost["families"][TARGET_OUT]),
        "", "Other groups left out (our own figures; `step_cost.md` has every rival):", "",
        *families(cost["families"]),
        "", "### Coverage of intervals", "", _COVERAGE, "",
        *table(
            ("of", "group", "cells", "inside"),
            (
                (group, name, str(its["cells"]), percent(its["inside"]))
                for group, names in cost["coverage"].items()
                for name, its in names.items()
            ),
        ),
    ]  # fmt: skip
    lines += [
        "", "### Residuals by kind of pass", "", _RESIDUALS, "",
        *table(
            ("method", "target", "passes", "cells", "time, bias", "time, MAPE", "speedup, bias", "speedup, MAPE"),
            (
                (
                    its["method"], its["target"], its["passes"], str(its["cells"]),
                    *(figure(its[f"{what}_{which}"]) for what in ("time", "speedup") for which in ("bias", "mape")),
                )
                for its in cost["residuals"]
            ),
        ),
        "", "### Learned residuals", "", _LEARNED, "",
        *table(
            ("left out", *next(iter(cost["learned_residuals"].values()), {})),
            ((family, *map(figure, its.values())) for family, its in cost["learned_residuals"].items()),
        ),
    ]  # fmt: skip
    for part in ("acceptance", "benefit"):
        if part in card and "text" in card[part]:
            lines += ["", *card[part]["text"]]
    return "\n".join(lines) + "\n"


def step_cost_tables(cost: Mapping[str, Any]) -> str:
    """step_cost.md: every family of folds, method and predictor."""
    lines = [
        "# Step cost: held-out errors of the predicted speedup, acceptance given", "",
        "Rendered by `specworth train`; `specworth evaluate` makes the same figures anew.", "", _READING,
    ]  # fmt: skip
    for family, methods in cost["families"].items():
        lines += ["", f"## {family[0].upper()}{family[1:]}", "", *predictors(methods)]
    return "\n".join(lines) + "\n"


def predictors(methods: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """One table: each predictor of each method."""
    return table(
        ("method", "predictor", "cells", *_COLUMNS.values()),
        (
            (method, name, str(its["cells"]), *(figure(its.get(column)) for column in _COLUMNS))
            for method, names in methods.items()
            for name, its in names.items()
        ),
    )


def families(found: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]) -> list[str]:
    """One table: our own figures in each family of folds."""
    return table(
        ("left out", "method", "cells", *_COLUMNS.values()),
        (
            (family, method, str(names[OURS]["cells"]), *(figure(names[OURS].get(column)) for column in _COLUMNS))
            for family, methods in found.items()
            for method, names in methods.items()
        ),
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [_row(header), "|" + " --- |" * len(header), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def figure(value: float | None) -> str:
    """Three decimals, nothing where there is nothing."""
    return "" if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """Per cent without decimals."""
    return "" if value is None else f"{value:.0%}"


def _aim(aim: Mapping[str, Any]) -> tuple[str, ...]:
    least, most = aim["least"], aim["most"]
    if least is not None and most is not None:
        wanted = f"{least:.3g} to {most:.3g}"
    else:
        wanted = f"at least {least:.3g}" if least is not None else f"at most {most:.3g}"
    met = {True: "yes", False: "**no**", None: "not measured"}[aim["met"]]
    return aim["name"], aim["method"], wanted, figure(aim["found"]), met


def _causes(cost: Mapping[str, Any]) -> list[str]:
    """What is missed and what is known of why."""
    missed = [f"{aim['method']}: {aim['name']}" for aim in cost["aims"] if aim["met"] is False]
    if not missed:
        return ["No aim is missed."]
    ours = {method: names[OURS] for method, names in cost["families"][TARGET_OUT].items()}
    sound = ", ".join(
        f"{method} {its['mape_sound']:.1%} instead of {its['mape']:.1%}"
        for method, its in ours.items()
        if its["mape_sound"] is not None
    )
    return [
        f"Missed: {'; '.join(missed)}.",
        "",
        f"MAPE on cells of which no flag doubts either arm: {sound}.",
        "",
        _WHY,
    ]


def _noise(cost: Mapping[str, Any]) -> str:
    noise = cost["noise_floor"]
    if not noise["pairs"]:
        return "No cell was measured twice: the noise floor is not known."
    return (
        f"Noise floor: two runs of one cell differ by {noise['median']:.1%} in the median, {noise['p90']:.1%} at p90 "
        f"({noise['cells']} cells, {noise['pairs']} pairs, throughput); a speedup, a ratio of two, by "
        f"{cost['speedup_noise_floor']:.1%} at p90."
    )
