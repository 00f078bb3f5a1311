"""models/artifacts/benefit.md: what the benefit classifier is, and what it is worth beside simpler and richer ones.

Every sentence with a figure in it is written from the figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from models.artefact import read_numbers
from models.benefit.classifier import ARTEFACT, FEATURES, SLOPE
from models.training.benefit import Ablation, decisive_log_loss
from models.training.benefit_folds import ALL_THRESHOLDS, ASKED, MODES, BenefitScore
from models.training.benefit_learners import COMPOSITION, LEARNERS, PRIOR_TARGETS
from models.training.benefit_learners import SLOPE as SLOPE_LEARNER
from models.training.folds import TARGET_OUT
from models.training.intervals import LEVEL, Z

CARD = "benefit.md"
_COLUMNS = {
    "log_loss": "log loss", "brier": "Brier", "calibration_error": "calibration error",
    "balanced_accuracy": "balanced accuracy", "regret": "regret", "contradicting": "contradicts",
}  # fmt: skip


def benefit_part(found: Ablation, out: Path) -> dict[str, Any]:
    """The classifier's part of the model card: every figure, and the lines to be read ("text")."""
    numbers = read_numbers(ARTEFACT, features=FEATURES, folder=out)
    scores = found.scores.get(TARGET_OUT)
    short = [] if scores is None else ["", *_table(scores[MODES[0]][ALL_THRESHOLDS])]
    caption = f"`{CARD}` has every figure. One target out, {MODES[0]}, threshold {ALL_THRESHOLDS}:"
    lines = ["## Benefit classifier", "", *_what_ships(numbers), "", *_finding(found), "", caption, *short]
    return found.as_json() | {"classifier": numbers, "text": lines}


def write_benefit_card(found: Ablation, out: Path) -> None:
    """Write benefit.md of the classifier in the folder `out` from its held-out table."""
    numbers = read_numbers(ARTEFACT, features=FEATURES, folder=out)
    lines = [
        "# Benefit classifier: does speculation reach the speedup asked for?",
        "",
        f"Made from {found.cells} measured cells of {len(found.targets)} targets ({', '.join(found.targets)}), "
        f"`{numbers['data']['file']}` of SHA-256 {numbers['data']['sha256'][:16]}; `specworth evaluate` makes the same",
        "figures anew.",
        "",
        *_what_ships(numbers),
        "",
        *_how_it_was_made(found),
        "",
        *_finding(found),
    ]
    for family, modes in found.scores.items():
        lines += ["", f"## {family[0].upper()}{family[1:]}"]
        for mode in MODES:
            for asked in ASKED:
                if family == TARGET_OUT or asked == ALL_THRESHOLDS:
                    lines += ["", f"{mode[0].upper()}{mode[1:]}, threshold {asked}:", "", *_table(modes[mode][asked])]
    (out / CARD).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _what_ships(numbers: Mapping[str, Any]) -> list[str]:
    slope = float(numbers["slope"])
    if numbers["kind"] == SLOPE:
        bound = 1.0 / (1.0 + math.exp(-slope * Z))
        return [
            f"What ships is the composed prediction with a calibrated slope: P = 1 / (1 + exp(-{slope:g} z)) with",
            "z = log(prediction / threshold) / predicted log sd, a scikit-learn logistic regression on z without",
            f"intercept, with the composition itself as a prior worth {PRIOR_TARGETS:g} targets. It is 0.5 where the",
            "prediction is the threshold and rises with it, so that it cannot contradict the speedup shown. Where the",
            f"{LEVEL:.0%} interval ends at the threshold it says {bound:.2f} (a lognormal {(1.0 + LEVEL) / 2.0:.2f}).",
        ]
    return [
        "What ships is the composition alone: P = Φ(z) with z = log(prediction / threshold) / predicted log sd, the",
        "lognormal prediction taken at its word. It is 0.5 where the prediction is the threshold and rises with it, so",
        f"that it cannot contradict the speedup shown. A calibrated slope would be {slope:g}: not better held out.",
    ]


def _how_it_was_made(found: Ablation) -> list[str]:
    shares = ", ".join(f"{share:.3f} counting {name}" for name, share in found.pays.items())
    return [
        "**Labels** are measured: does a cell's end-to-end speedup reach the threshold, asked at eight quantiles of a",
        "threshold drawn from 1.0 to 1.5 (uniform in its logarithm). **Predictions** are out of fold and nested: for",
        "each judged fold the step cost is fitted without it, training rows are predicted by fits that also lack their",
        "own target, and spreads are calibrated on yet other targets. Rows that share a baseline are in one fold.",
        "",
        "**Acceptance.** These cells have imposed acceptance and no text, so that nothing is learned from them about",
        "structure or temperature: those enter through the acceptance model's prediction and its spread alone. Every",
        'figure is given twice: with the measured acceptance, and with a "predicted" one that is off as the acceptance',
        "model says it may be (five Gauss-Hermite nodes of its spread), which z then includes. Training has both.",
        "",
        "**Weights.** Targets, methods, k and bands of concurrency that were measured count the same. Within a method,",
        "margins log(prediction / threshold) count as they occur where the grid's traffic asks for each of ten",
        "structures at temperature 0, 0.7 and 1, so that the grid's acceptance lengths do not set how often it pays",
        f"(share that pays: {shares}).",
        "",
        "**Rules** are judged by their own decision and told as probabilities by how often it pays on either side of",
        'them in training. "Enable for code" reads: where acceptance is at least what the acceptance model expects of',
        "code at temperature 0. Regret counts the threshold as the price of enabling. Contradicts: share of the",
        "questions decided against the side on which the composed prediction lies.",
    ]


def _finding(found: Ablation) -> list[str]:
    """What the decisive table says, in words."""
    scores = found.scores.get(TARGET_OUT)
    if scores is None:
        return ["**Finding.** Cells of one target are all there is: nothing can be held out by target."]
    loss = {learner.name: decisive_log_loss(scores, learner.name) for learner in LEARNERS}
    simple = (COMPOSITION, SLOPE_LEARNER)
    rules = [learner.name for learner in LEARNERS if learner.decide is not None]
    richer = [name for name in loss if name not in rules and name not in simple]
    least = min(loss[name] for name in simple)

    def told(names: Sequence[str]) -> str:
        return ", ".join(f"{name} {loss[name]:.3f}" for name in sorted(names, key=lambda name: loss[name]))

    lines = [
        "**Finding** (held out by target, mean log loss of both ways of knowing acceptance, thresholds 1.0 to 1.5).",
        f"Composition alone {loss[COMPOSITION]:.3f}, with a calibrated slope {loss[SLOPE_LEARNER]:.3f}.",
        f"Richer: {told(richer)}. Rules: {told(rules)}.",
    ]
    better = sorted(name for name in richer if loss[name] < least)
    if better:
        lines.append(f"Better than what ships, at the price of more inputs or contradictions: {', '.join(better)}.")
    else:
        lines += [
            "No learner with further features (method, k, load, context, KV share, spare memory, size ratio, the",
            "host's share, acceptance) beats the composed prediction, which has them all in its physics: what is",
            "learned of some targets does not hold for another. So the simpler one ships.",
        ]
    worse = [name for name in rules if loss[name] <= least]
    lines.append(f"Not beaten: {', '.join(worse)}." if worse else "Every single rule is beaten.")
    return lines


def _table(scores: dict[str, BenefitScore]) -> list[str]:
    lines = ["| | " + " | ".join(_COLUMNS.values()) + " |", "| --- " * (1 + len(_COLUMNS)) + "|"]
    for name, score in scores.items():
        lines.append(f"| {name} | " + " | ".join(f"{getattr(score, column):.3f}" for column in _COLUMNS) + " |")
    return lines
