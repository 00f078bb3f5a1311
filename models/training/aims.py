"""What was to be reached, and was it? Aims of the held-out errors beside what was found, acceptance given.

The numbers are the project's own targets for predicting a target model that no fit has seen; a figure that is missed is
told as missed, with what is known of the cause.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.training.evaluation import OURS, Evaluation
from models.training.folds import TARGET_OUT

_COPYING_AND_HEADS = ("eagle3", "mtp", "ngram")
_COVERED = (0.86, 0.95)
OUTSIDE = "aiconfigurator"


@dataclass(frozen=True, slots=True)
class Aim:
    """One figure: at least `least` and at most `most`; `found` is None where nothing was measured."""

    name: str
    method: str
    found: float | None
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether it was reached; None where nothing was measured."""
        if self.found is None:
            return None
        return (self.least is None or self.found >= self.least) and (self.most is None or self.found <= self.most)


def aims(evaluation: Evaluation) -> list[Aim]:
    """Each aim with what was found leaving one target out."""
    found = []
    for method, predictors in evaluation.table[TARGET_OUT].items():
        ours = predictors[OURS]
        score = ours.end_to_end
        if method == "draft_model":
            found += [Aim("MAPE", method, score.mape, most=0.08), Aim("p90 error", method, score.p90, most=0.20)]
        elif method in _COPYING_AND_HEADS:
            found += [Aim("MAPE", method, score.mape, most=0.04), Aim("p90 error", method, score.p90, most=0.10)]
        found += [
            Aim("balanced accuracy, clear cells", method, score.balanced_accuracy_clear, least=0.93),
            Aim("balanced accuracy, all cells", method, score.balanced_accuracy, least=0.85),
            Aim("mean regret", method, score.regret, most=0.015),
            Aim("coverage of 90 % intervals", method, ours.coverage, *_COVERED),
        ]
        if method != "all" and OUTSIDE in predictors:
            theirs = predictors[OUTSIDE]
            name = f"MAPE below {OUTSIDE}'s on its cells"
            found.append(Aim(name, method, theirs.mape_of_ours, most=theirs.end_to_end.mape))
    return found
