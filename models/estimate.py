"""One shape for every prediction: a value and how far off it may honestly be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Positive quantities, each lognormal about `value` with standard deviation `log_sd` of its natural logarithm."""

    value: Floats
    log_sd: Floats
