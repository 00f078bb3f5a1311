"""Which numbers is acceptance predicted with?

`models/artifacts/acceptance.json` is written by training (measured acceptance, published tables as its prior) and read
here as plain numbers, checked against the manifest: arrays over methods (M) and structure classes (C), on the log-odds
scale. A file of other classes, or one that lacks a number, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from models.artefact import read_numbers, write_numbers
from models.estimate import Floats
from models.overlap import ExpectedOverlap
from models.structure import STRUCTURES
from profiler.errors import ArtefactError

ARTEFACT = "acceptance.json"
HEAT_KNOTS = np.array([0.0, 0.3, 0.7, 1.0, 1.3])  # temperatures that were measured; straight lines between and beyond
DEFAULT_LOOKUP_MIN = 5.0  # vLLM's prompt_lookup_min and _max where neither is given (vllm/config/speculative.py, 0.26)


@dataclass(frozen=True, slots=True)
class AcceptanceCoefficients:
    """The learned numbers; arrays over methods (M) and structure classes (C), on the log-odds scale."""

    methods: tuple[str, ...]
    classes: tuple[str, ...]
    size_centre: float
    within_log_sd: float  # sd of log(AL - 1) between requests of one kind
    copying: ExpectedOverlap  # what lookup copies, by class and prompt length
    intercept: Floats  # (M,)
    decay: Floats  # (M,) per log position
    size: Floats  # (M,) per log of drafter / target parameters, centred on `size_centre`
    size_log_sd: Floats  # (M,) spread of log(AL - 1) per log unit away from `size_centre`
    class_effect: Floats  # (M, C)
    temperature_slope: Floats  # (M, C), >= 0: what is lost at T = 1
    heat: Floats  # (M, knots) share of `temperature_slope` lost at each of HEAT_KNOTS, greedy drafts; 1 at 1
    probabilistic_heat: Floats  # (M, knots) the same of probabilistic drafts
    heat_decay: Floats  # (M,) per unit of heat and log position
    copy: Floats  # (M,), >= 0, per unit of logit(overlap) beside what its classes let expect
    lookup: Floats  # (M,) per log(prompt_lookup_min / vLLM's default)
    share_intercept: Floats  # (M,); inf for methods that always draft
    share_class: Floats  # (M, C)
    share_slope: Floats  # (M, C), >= 0: what the share loses at T = 1
    share_heat: Floats  # (M, knots), as `heat`
    share_copy: Floats  # (M,), >= 0, as `copy`
    share_lookup: Floats  # (M,), as `lookup`
    length_log_sd: Floats  # (M,) sd of log(AL - 1) for a drafter and workload never seen
    share_logit_sd: Floats  # (M,)


_COPYING = ("overlap", "tokens", "slope")
_PER_METHOD = tuple(f.name for f in fields(AcceptanceCoefficients))[5:]


def heat_weights(temperature: Floats) -> Floats:
    """Weight of each knot at each temperature, (n, knots): linear between knots, and beyond the last as just before."""
    t = np.clip(temperature, 0.0, None)[:, None]
    upper = np.clip(np.searchsorted(HEAT_KNOTS, t[:, 0]), 1, len(HEAT_KNOTS) - 1)
    low, high = HEAT_KNOTS[upper - 1], HEAT_KNOTS[upper]
    along = (t[:, 0] - low) / (high - low)
    weights = np.zeros((len(t), len(HEAT_KNOTS)))
    place = np.arange(len(t))
    weights[place, upper - 1], weights[place, upper] = 1.0 - along, along
    return weights


def document_of(coefficients: AcceptanceCoefficients) -> dict[str, Any]:
    """The coefficients as the artefact's JSON; numbers to six decimals, infinity as null."""

    def plain(value: object) -> object:
        if isinstance(value, np.ndarray) and value.ndim:
            return [plain(part) for part in value]
        number = float(value)  # type: ignore[arg-type]
        return round(number, 6) if np.isfinite(number) else None

    return {
        "classes": list(coefficients.classes),
        "size_centre": plain(coefficients.size_centre),
        "within_log_sd": plain(coefficients.within_log_sd),
        "copying": {name: plain(getattr(coefficients.copying, name)) for name in _COPYING},
        "methods": {
            method: {name: plain(getattr(coefficients, name)[row]) for name in _PER_METHOD}
            for row, method in enumerate(coefficients.methods)
        },
    }


def coefficients_of(document: Mapping[str, Any]) -> AcceptanceCoefficients:
    """The artefact's JSON as arrays; ArtefactError where it is not of this code."""
    try:
        methods = document["methods"]

        def column(name: str) -> Floats:
            values = [entry[name] for entry in methods.values()]
            return np.array([np.inf if value is None else value for value in values], dtype=np.float64)

        columns: Any = {name: column(name) for name in _PER_METHOD}
        found = AcceptanceCoefficients(
            methods=tuple(methods),
            classes=tuple(document["classes"]),
            copying=ExpectedOverlap(
                **{name: np.array(document["copying"][name], dtype=np.float64) for name in _COPYING}
            ),
            size_centre=float(document["size_centre"]),
            within_log_sd=float(document["within_log_sd"]),
            **columns,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(
            "The acceptance artefact is damaged", expected=f"a number for {error}", remedy="reinstall specworth"
        ) from error
    if found.class_effect.shape != (len(found.methods), len(found.classes)):
        raise ArtefactError("The acceptance artefact's classes differ from its coefficients")
    return found


@cache
def read_coefficients(folder: Path | None = None) -> AcceptanceCoefficients:
    """The trained coefficients of a folder of artefacts (those that ship with this version where left out)."""
    return coefficients_of(read_numbers(ARTEFACT, features=STRUCTURES, folder=folder))


def write_coefficients(coefficients: AcceptanceCoefficients, *, folder: Path, data_sha256: str) -> None:
    """Write the artefact and its entry in the folder's manifest."""
    write_numbers(ARTEFACT, document_of(coefficients), features=STRUCTURES, folder=folder, data_sha256=data_sha256)
