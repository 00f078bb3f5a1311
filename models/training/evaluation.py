"""How well are speedups predicted where the fit did not look, beside its rivals? One table, acceptance given.

Every figure is of cells whose group (target; method and k; high concurrency; long context; traffic points) was hidden
from the constants and from the intervals. Rivals predict the same cells. Calibration is that of the stated probability
that a speedup reaches a threshold, over the thresholds of `THRESHOLDS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from models.estimate import Floats
from models.training.cells import Cells, Mask
from models.training.folds import TARGET_OUT
from models.training.held_out import HeldOut, held_out_families
from models.training.intervals import BANDS, Z, band_of
from models.training.metrics import Score, calibration_error, score
from models.training.rivals import read_outside_rivals, rivals
from models.training.step_cost import Speedups, fit
from profiler.measurements import read_cells
from profiler.measurements.noise import NoiseFloor, noise_floor

OURS = "specworth"
_LEAST_CANDIDATES = 2  # of a point, for one to be chosen


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one predictor on some cells; None where it says nothing or nothing was measured."""

    end_to_end: Score
    tpot_mape: float | None
    tpot_p90: float | None
    calibration_error: float | None = None
    coverage: float | None = None  # share of the cells in their 90 % interval
    coverage_tpot: float | None = None
    interval: float | None = None  # median half-width of the interval, relative
    mape_sound: float | None = None  # on cells of which no flag doubts either arm
    mape_of_ours: float | None = None  # beside a rival: our own on the cells that it could predict


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Held-out figures: family -> method ("all" first) -> predictor."""

    table: dict[str, dict[str, dict[str, Figures]]]
    coverage: dict[str, dict[str, tuple[int, float]]]  # by target, method, band, chosen: name -> (cells, share inside)
    noise: NoiseFloor
    predictions: dict[str, HeldOut]
    constants: dict[str, float]  # fitted to all cells

    def as_json(self) -> dict[str, Any]:
        """Plain mappings of numbers."""
        return {
            "families": {
                family: {
                    method: {name: flat(figures) for name, figures in predictors.items()}
                    for method, predictors in methods.items()
                }
                for family, methods in self.table.items()
            },
            "coverage": {
                group: {name: {"cells": count, "inside": _rounded(share)} for name, (count, share) in its.items()}
                for group, its in self.coverage.items()
            },
            "noise_floor": {name: _rounded(value) for name, value in asdict(self.noise).items()},
        }


def evaluate(cells: Cells, *, folders: Sequence[Path]) -> Evaluation:
    """Refit for every fold and score; `folders` have the tables (runs of one cell give the noise floor)."""
    noise = noise_floor(row for folder in folders for row in read_cells(folder))
    floor = speedup_floor(noise)
    everything = fit(cells, np.ones(len(cells), dtype=np.bool_))
    predictions = held_out_families(cells, everything)
    others = rivals(cells) | read_outside_rivals(cells, folders[0].parent / "rivals")
    table: dict[str, dict[str, dict[str, Figures]]] = {}
    for family, held in predictions.items():
        seen = cells.judged & np.isfinite(held.speedups.end_to_end)
        table[family] = {
            method: {OURS: _ours(cells, rows, held, floor)}
            | {
                name: replace(
                    _figures(cells, rows, its, floor),
                    mape_of_ours=_mape(cells, rows & ~np.isnan(its.end_to_end), held.speedups),
                )
                for name, its in others.items()
                if _says(its, rows)
            }
            for method, rows in _methods(cells, seen)
        }
    return Evaluation(
        table, coverage_by_group(cells, predictions[TARGET_OUT]), noise, predictions, everything.constants
    )


def speedup_floor(noise: NoiseFloor) -> float:
    """Relative noise of a speedup, a ratio of two throughputs; 0 where no cell was measured twice."""
    return float(np.sqrt(2.0) * noise.p90) if noise.pairs else 0.0


def _methods(cells: Cells, seen: Mask) -> Iterator[tuple[str, Mask]]:
    """All methods together, then each."""
    yield "all", seen
    for method in np.unique(cells.method[seen]).tolist():
        yield method, seen & (cells.method == method)


def _says(speedups: Speedups, rows: Mask) -> bool:
    return not np.isnan(speedups.end_to_end[rows]).all()


def _figures(cells: Cells, rows: Mask, speedups: Speedups, floor: float) -> Figures:
    own = rows & ~np.isnan(speedups.end_to_end)
    timed = rows & np.isfinite(cells.speedup_tpot) & np.isfinite(speedups.tpot)
    tpot = score(speedups.tpot[timed], cells.speedup_tpot[timed])
    sound = own & ~cells.suspect & ~cells.suspect[cells.baseline]
    return Figures(
        score(speedups.end_to_end[own], cells.speedup[own], noise_floor=floor),
        tpot_mape=tpot.mape,
        tpot_p90=tpot.p90,
        mape_sound=_mape(cells, sound, speedups),
    )


def _mape(cells: Cells, rows: Mask, speedups: Speedups) -> float | None:
    return score(speedups.end_to_end[rows], cells.speedup[rows]).mape


def _ours(cells: Cells, rows: Mask, held: HeldOut, floor: float) -> Figures:
    plain = _figures(cells, rows, held.speedups, floor)
    wide = rows & np.isfinite(held.log_sd_end_to_end)
    predicted, log_sd = held.speedups.end_to_end[wide], held.log_sd_end_to_end[wide]
    timed = rows & np.isfinite(cells.speedup_tpot) & np.isfinite(held.log_sd_tpot)
    return replace(
        plain,
        calibration_error=calibration_error(predicted, log_sd, cells.speedup[wide]),
        coverage=_share(_inside(predicted, log_sd, cells.speedup[wide])),
        coverage_tpot=_share(_inside(held.speedups.tpot[timed], held.log_sd_tpot[timed], cells.speedup_tpot[timed])),
        interval=float(np.median(np.expm1(Z * log_sd))) if wide.any() else None,
    )


def _share(mask: Mask) -> float | None:
    return float(mask.mean()) if mask.size else None


def _inside(predicted: Floats, log_sd: Floats, truth: Floats) -> Mask:
    inside: Mask = np.abs(np.log(truth / predicted)) <= Z * log_sd
    return inside


def coverage_by_group(cells: Cells, held: HeldOut) -> dict[str, dict[str, tuple[int, float]]]:
    """Share of cells in their intervals by target, method and band, and for the candidate chosen at each point."""
    rows = cells.judged & np.isfinite(held.log_sd_end_to_end)
    inside = np.zeros(len(cells), dtype=np.bool_)
    inside[rows] = _inside(held.speedups.end_to_end[rows], held.log_sd_end_to_end[rows], cells.speedup[rows])
    band = band_of(cells.concurrency)

    def share(of: Mask) -> tuple[int, float]:
        return int(of.sum()), float(inside[of].mean())

    found = {
        "target": {str(t): share(rows & (cells.target == t)) for t in np.unique(cells.target[rows])},
        "method": {str(m): share(rows & (cells.method == m)) for m in np.unique(cells.method[rows])},
        "concurrency": {
            f"{low} to {high}": share(rows & (band == place))
            for place, (low, high) in enumerate(BANDS)
            if (rows & (band == place)).any()
        },
    }
    chosen = chosen_among_candidates(cells, held)
    if chosen.any():
        found["chosen"] = {"best lower bound of a point's candidates": share(chosen)}
    return found


def chosen_among_candidates(cells: Cells, held: HeldOut) -> Mask:
    """The row with the highest lower bound at each point of a target where several candidates were measured."""
    rows = cells.judged & np.isfinite(held.log_sd_end_to_end)
    low = held.speedups.end_to_end * np.exp(-Z * held.log_sd_end_to_end)
    chosen = np.zeros(len(cells), dtype=np.bool_)
    for base in np.unique(cells.baseline[rows]):
        its = np.flatnonzero(rows & (cells.baseline == base))
        if its.size >= _LEAST_CANDIDATES:
            chosen[its[np.argmax(low[its])]] = True
    return chosen


def flat(figures: Figures) -> dict[str, Any]:
    """All numbers of one predictor in one mapping, rounded."""
    parts: Mapping[str, Any] = asdict(figures)
    own = {name: value for name, value in parts.items() if name != "end_to_end"}
    return {name: _rounded(value) for name, value in (parts["end_to_end"] | own).items()}


def _rounded(value: Any) -> Any:  # noqa: ANN401  # numbers, None and names
    if isinstance(value, float):
        return round(value, 4) if np.isfinite(value) else None
    return value
