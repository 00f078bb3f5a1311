"""Which numbers is acceptance predicted with? Read from the trained artefact, or from the published priors alone.

`models/artifacts/acceptance.json` is written by training (measured acceptance, with the published tables as a prior) and
read here as plain numbers; `models/priors/acceptance.yaml` holds what was known before anything was measured. Both give
one kind of table: arrays over methods (M) and structure classes (C), on the log-odds scale. A file of other classes, or
one that lacks a number, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from models.estimate import Floats
from profiler.errors import ArtefactError

ARTEFACT = Path(__file__).parent.parent / "artifacts" / "acceptance.json"
FORMAT = 1
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
    share_slope: Floats  # (M,), >= 0: what the share loses at T = 1
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
        "format": FORMAT,
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
        if document["format"] != FORMAT:
            raise ArtefactError(
                "The acceptance artefact is of another version", expected=str(FORMAT), got=str(document["format"]),
                remedy="rebuild it with `specworth train`",
            )  # fmt: skip
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
def read_coefficients() -> AcceptanceCoefficients:
    """The trained coefficients that ship with this version."""
    try:
        return coefficients_of(json.loads(ARTEFACT.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ArtefactError(
            "The acceptance artefact cannot be read", expected=str(ARTEFACT), got=str(error),
            remedy="reinstall specworth, or rebuild it with `specworth train`",
        ) from error  # fmt: skip


@cache
def read_priors() -> AcceptanceCoefficients:
    """The published priors; ArtefactError where the file lacks a number."""
    import yaml

    text = (files("models") / "priors" / "acceptance.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    try:
        return _priors(document)
    except (KeyError, TypeError) as error:
        raise ArtefactError("The acceptance priors are damaged", expected=f"an entry {error}") from error


def _priors(document: dict[str, Any]) -> AcceptanceCoefficients:
    """The file's mappings as arrays."""
    classes = tuple(document["classes"])
    methods = tuple(document["methods"])
    entries = [document["methods"][name] for name in methods]
    effects, temperature = document["class_effects"], document["temperature"]
    drafting = [entry.get("drafting") for entry in entries]
    every = np.ones(len(methods))

    def per_method(name: str) -> Floats:
        return np.array([float(entry[name]) for entry in entries])

    def per_class(mapping: dict[str, float]) -> Floats:
        return np.array([float(mapping[name]) for name in classes])

    return AcceptanceCoefficients(
        methods=methods,
        classes=classes,
        size_centre=float(document["size_centre"]),
        within_log_sd=float(document["within_log_sd"]),
        expected_overlap=per_class(document["expected_overlap"]),
        intercept=per_method("intercept"),
        decay=per_method("decay"),
        size=per_method("size"),
        size_log_sd=per_method("size_log_sd"),
        class_effect=np.stack([per_class(effects[entry["class_effects"]]) for entry in entries]),
        temperature_slope=every[:, None] * per_class(temperature["slope"])[None, :],
        temperature_power=every * float(temperature["power"]),
        probabilistic_relief=every * float(temperature["probabilistic_relief"]),
        copy=0.0 * every,
        lookup=0.0 * every,
        share_intercept=np.array([np.inf if d is None else float(d["intercept"]) for d in drafting]),
        share_class=np.stack([np.zeros(len(classes)) if d is None else per_class(d["classes"]) for d in drafting]),
        share_slope=0.0 * every,
        share_copy=np.array([0.0 if d is None else float(d["copy"]) for d in drafting]),
        share_lookup=0.0 * every,
        length_log_sd=per_method("length_log_sd"),
        share_logit_sd=np.array([0.0 if d is None else float(d["logit_sd"]) for d in drafting]),
    )
