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
from models.structure import STRUCTURES
from profiler.errors import ArtefactError

ARTEFACT = "acceptance.json"
DEFAULT_LOOKUP_MIN = 5.0  # vLLM's prompt_lookup_min and _max where neither is given (vllm/config/speculative.py, 0.26)


@dataclass(frozen=True, slots=True)
class AcceptanceCoefficients:
    """The learned numbers; arrays over methods (M) and structure classes (C), on the log-odds scale."""

    methods: tuple[str, ...]
    classes: tuple[str, ...]
    size_centre: float
    within_log_sd: float  # sd of log(AL - 1) between requests of one kind
    expected_overlap: Floats  # (C,) share of the output that lookup copies, by class
    intercept: Floats  # (M,)
    decay: Floats  # (M,) per log position
    size: Floats  # (M,) per log of drafter / target parameters, centred on `size_centre`
    size_log_sd: Floats  # (M,) spread of log(AL - 1) per log unit away from `size_centre`
    class_effect: Floats  # (M, C)
    temperature_slope: Floats  # (M, C), >= 0: what is lost at T = 1
    temperature_power: Floats  # (M,)
    probabilistic_relief: Floats  # (M,) share of the temperature loss that probabilistic drafts leave
    copy: Floats  # (M,), >= 0, per unit of logit(overlap) beside what its classes let expect
    lookup: Floats  # (M,) per log(prompt_lookup_min / vLLM's default)
    share_intercept: Floats  # (M,); inf for methods that always draft
    share_class: Floats  # (M, C)
    share_slope: Floats  # (M, C), >= 0: what the share loses at T = 1
    share_power: Floats  # (M,), as `temperature_power`
    share_copy: Floats  # (M,), >= 0, as `copy`
    share_lookup: Floats  # (M,), as `lookup`
    length_log_sd: Floats  # (M,) sd of log(AL - 1) for a drafter and workload never seen
    share_logit_sd: Floats  # (M,)


_PER_METHOD = tuple(f.name for f in fields(AcceptanceCoefficients))[5:]


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
        "expected_overlap": plain(coefficients.expected_overlap),
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
            expected_overlap=np.array(document["expected_overlap"], dtype=np.float64),
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


def write_coefficients(coefficients: AcceptanceCoefficients, *, folder: Path, data_sha256: str) -> Path:
    """Write the artefact and its entry in the folder's manifest."""
    write_numbers(ARTEFACT, document_of(coefficients), features=STRUCTURES, folder=folder, data_sha256=data_sha256)
    return folder / ARTEFACT
