"""What do published tables say of the coefficients, before anything is measured here?

`models/priors/acceptance.json` (written by benchmarks/fit_published_acceptance.py) is a Gaussian over levels of
methods, effects and temperature slopes of structure classes, and what sizes and positions do. Training adds what it
does not know: how far a draft model's classes lie from those of other drafters. What measuring moves then moves the
unmeasured methods through the same Gaussian: their conditional mean.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.estimate import Floats
from models.structure import STRUCTURES
from models.training.acceptance_mixture import Layout, Prior
from profiler.errors import ArtefactError

PRIORS = Path(__file__).parent.parent / "priors" / "acceptance.json"

# Sd of how one drafter's classes differ from the mean of drafters, on the log odds. Published rows keep an sd of 0.23
# in log(AL - 1) beside the fit (`summary.row_log_sd`), about twice that on the log odds of one position, noise
# included.
CLASS_SD = 0.4
SLOPE_SD = 0.3
PAIR_SLOPE_SD = 0.4  # of all slopes of a pair together: a small target's distribution is wide, a large one's narrow
COPY_SD = 0.3  # of the effect of copying on the log odds: weak
TILT_SD = 0.3
# Heat at T = 0.3, 0.7 and 1.3 of greedy drafts (1 at 1), and at 0.3, 0.7, 1, 1.3 of probabilistic ones: T^1.5, which
# the published tables take, and half of it; wide, since they know T = 0 and 1 alone.
GREEDY_HEAT, GREEDY_HEAT_SD = (0.16, 0.59, 1.5), (0.15, 0.3, 1.5)
SOFT_HEAT, SOFT_HEAT_SD = (0.08, 0.3, 0.5, 0.75), (0.1, 0.25, 0.3, 1.0)


@dataclass(frozen=True, slots=True)
class Published:
    """The Gaussian, its names, and what else the file tells."""

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    document: dict[str, Any]

    def rows(self, *names: str) -> list[int]:
        """Places of these names."""
        return [self.names.index(name) for name in names]

    def of(self, prefix: str) -> list[int]:
        """Places of "prefix class" for every structure class, in their order."""
        return self.rows(*(f"{prefix} {name}" for name in STRUCTURES))


def read_published() -> Published:
    """The published prior; ArtefactError where the file is not of these classes."""
    document = json.loads(PRIORS.read_text(encoding="utf-8"))
    if document["classes"] != list(STRUCTURES):
        raise ArtefactError(
            "the published acceptance is of other classes", expected=str(STRUCTURES), got=str(document["classes"]),
            remedy="write it anew with benchmarks/fit_published_acceptance.py",
        )  # fmt: skip
    lower = document["covariance"]
    covariance = np.zeros((len(lower), len(lower)))
    for row, line in enumerate(lower):
        covariance[row, : row + 1] = covariance[: row + 1, row] = line
    return Published(tuple(document["names"]), np.array(document["mean"]), covariance, document)


# Covariates of a drafter's acceptance: level, log of its size ratio from the centre, copying beside its classes.
DRAFTER = Layout(covariates=3, classes=len(STRUCTURES))


def drafter_rows(published: Published) -> tuple[list[int], list[int]]:
    """Places in a draft model's vector and in the published Gaussian that mean the same."""
    layout = DRAFTER
    here = [0, 1, *range(layout.effect.start, layout.slope.stop), layout.decay]
    there = [
        *published.rows("level draft_model", "size"), *published.of("task"), *published.of("slope"),
        *published.rows("decay draft_model"),
    ]  # fmt: skip
    return here, there


def hold_heat(layout: Layout, low: Floats, high: Floats) -> None:
    """Ranges in which heat rises with temperature, at most as fast as straight lines to T = 1."""
    low[layout.heat], high[layout.heat] = (0.0, 0.3, 1.0), (0.3, 1.0, 6.0)
    low[layout.soft_heat], high[layout.soft_heat] = 0.0, (0.15, 0.5, 1.0, 6.0)


def drafter_prior(published: Published) -> Prior:
    """The prior of a draft model's parameters: the published ones, its classes free to differ."""
    layout = DRAFTER
    here, there = drafter_rows(published)
    mean = np.zeros(layout.size)
    covariance = np.zeros((layout.size, layout.size))
    mean[here] = published.mean[there]
    covariance[np.ix_(here, here)] = published.covariance[np.ix_(there, there)]
    covariance[2, 2] = COPY_SD**2
    covariance[layout.effect, layout.effect] += CLASS_SD**2 * np.eye(layout.classes)
    covariance[layout.slope, layout.slope] += SLOPE_SD**2 * np.eye(layout.classes) + PAIR_SLOPE_SD**2
    mean[layout.heat], mean[layout.soft_heat] = GREEDY_HEAT, SOFT_HEAT
    for place, sd in ((layout.heat, GREEDY_HEAT_SD), (layout.soft_heat, SOFT_HEAT_SD)):
        covariance[place, place] += np.diag(np.square(sd))
    covariance[layout.tilt, layout.tilt] = TILT_SD**2
    low, high = np.full(layout.size, -np.inf), np.full(layout.size, np.inf)
    low[1], low[2], low[layout.slope] = 0.0, 0.0, 0.0
    hold_heat(layout, low, high)
    return Prior(mean=mean, precision=np.asarray(np.linalg.inv(covariance), dtype=np.float64), low=low, high=high)


def updated(published: Published, prior: Prior, x: Floats) -> Floats:
    """The published means given what was measured of a draft model: their conditional expectation."""
    here, there = drafter_rows(published)
    covariance = np.linalg.inv(prior.precision)[np.ix_(here, here)]
    across = published.covariance[:, there]
    moved: Floats = published.mean + across @ np.linalg.solve(covariance, x[here] - prior.mean[here])
    return moved
