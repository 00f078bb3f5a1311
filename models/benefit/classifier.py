"""How probable is it that speculation reaches the speedup asked for, given what was predicted and how sure that is?

The question enters as z = log(prediction / threshold) / spread. Everything else that could matter (method, k, sizes,
load, context, memory) is in the composed prediction and its spread; `models/artifacts/benefit.md` shows what further
features or other learners add on targets that no fit saw. Both kinds of classifier rise in z and are 0.5 at z = 0, so
that the verdict cannot contradict the predicted speedup:

    composition   P = Φ(z), the lognormal prediction taken at its word
    slope         P = 1 / (1 + exp(-slope · z)), scikit-learn's logistic regression on z without intercept

The numbers ship as models/artifacts/benefit.json. Nothing of scikit-learn is imported to use them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from models.artefact import read_numbers
from models.estimate import Floats
from profiler.errors import ArtefactError

ARTEFACT = "benefit.json"
FEATURES = ("log(prediction / threshold) / log_sd",)
COMPOSITION, SLOPE = KINDS = ("composition", "slope")
_LEAST_LOG_SD = 1e-9  # a known value is a step at the threshold
_erfc = np.frompyfunc(math.erfc, 1, 1)  # scipy's would cost its import


@dataclass(frozen=True, slots=True)
class BenefitClassifier:
    """The fitted classifier; the composition alone has no slope."""

    kind: str
    slope: float = 0.0

    def probability(self, prediction: ArrayLike, log_sd: ArrayLike, threshold: ArrayLike) -> Floats:
        """P(speedup >= threshold) of each row; the arguments broadcast. 0.5 where the prediction is the threshold.

        prediction: composed speedup. log_sd: standard deviation of its natural logarithm.
        """
        margin = np.log(np.asarray(prediction, dtype=np.float64) / np.asarray(threshold, dtype=np.float64))
        z = margin / np.maximum(np.asarray(log_sd, dtype=np.float64), _LEAST_LOG_SD)
        if self.kind == COMPOSITION:
            return 0.5 * np.asarray(_erfc(-z / math.sqrt(2.0)), dtype=np.float64)
        probability: Floats = 1.0 / (1.0 + np.exp(-np.clip(self.slope * z, -700.0, 700.0)))
        return probability


@cache
def load_benefit(folder: Path | None = None) -> BenefitClassifier:
    """The classifier of a folder of artefacts, the shipped one where left out; ArtefactError where it is not ours."""
    numbers = read_numbers(ARTEFACT, features=FEATURES, folder=folder)
    kind, slope = numbers.get("kind"), numbers.get("slope")
    sound = kind == COMPOSITION or (kind == SLOPE and isinstance(slope, float) and 0.0 < slope < math.inf)
    if not sound:
        raise ArtefactError(
            "the benefit classifier is damaged", expected=f"{COMPOSITION}, or {SLOPE} with a slope above 0",
            got=f"{kind}, {slope}", remedy="reinstall specworth, or rebuild with `specworth train`",
        )  # fmt: skip
    return BenefitClassifier(str(kind), float(slope or 0.0))
