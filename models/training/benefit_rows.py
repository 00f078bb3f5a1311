"""What does the benefit classifier learn from: which question about which cell, what was predicted, and what is true?

One row asks of one measured cell whether its end-to-end speedup reaches one threshold. The composed prediction in it is
out of fold: the step cost is refitted, and the spread calibrated, without the cell's target (and, where a fold is
judged, without the fold, too: nested). Rows that share a baseline cell are of one target, so that they never part.

Acceptance is imposed in these cells, so that they tell nothing of structure or temperature: those enter through the
acceptance model's prediction alone. Each question is asked twice, with the measured acceptance and with a predicted one
that is off by the acceptance model's own spread (five Gauss-Hermite nodes), which the predicted spread then includes.

Weights make a workload of the grid: targets, methods, k and bands of concurrency that occur count the same, and within
a method the margins log(prediction / threshold) count as they occur where the same traffic asks for each of ten
structures at temperature 0, 0.7 and 1 (acceptance by the acceptance model). So the grid's chosen acceptance lengths do
not set how often speculation pays; a label is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from models.acceptance import AcceptanceInputs, AcceptanceModel
from models.estimate import Estimate, Floats
from models.step_cost.closed_loop import closed_loop
from models.structure import STRUCTURES
from models.training.cells import Cells, Mask
from models.training.held_out import widened
from models.training.intervals import band_of, calibrate
from models.training.step_cost import StepCostFit, fit, latencies

# Eight quantiles of a threshold drawn from 1.0 to 1.5, uniform in its logarithm.
THRESHOLDS = tuple(float(1.5 ** ((i + 0.5) / 8)) for i in range(8))
TEMPERATURES = (0.0, 0.7, 1.0)  # those of the published acceptance tables
GIVEN, PREDICTED = "acceptance given", "acceptance predicted"
FEATURES = (
    "log_margin", "z", "log_sd", "is_ngram", "is_draft_model", "k", "log_concurrency", "log_context", "log_output",
    "log_tokens_over_ridge", "kv_share", "log_spare_memory", "size_ratio", "host_share", "log_gain",
)  # fmt: skip
RISING = ("log_margin", "z")  # P rises with them
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_LEAST_GAIN = 0.01  # of τ - 1, below which its logarithm says nothing
_MARGIN_EDGES = np.log(np.array([0.6, 0.75, 0.87, 0.95, 1.05, 1.15, 1.33, 1.67]))
_MOST_WEIGHT = 4.0  # of one margin against another, either way: beyond it a few rows would decide
_HOST = (
    "o_piece_ms", "o_ungraphed_ms", "o_seq_ms", "o_head_host_ms", "o_head_bare_ms", "o_draft_host_ms", "o_sync_ms",
    "o_propose_ms", "o_request_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Questions:
    """Equal-length arrays, one row a question about a cell."""

    cell: NDArray[np.int64]  # row of Cells
    threshold: Floats
    prediction: Floats  # composed, out of fold
    log_sd: Floats
    features: Floats  # (n, FEATURES)
    as_code: Mask  # is acceptance at least what the acceptance model expects of code
    pays: Mask  # measured speedup >= threshold
    weight: Floats

    def __len__(self) -> int:
        """Number of questions."""
        return int(self.cell.shape[0])

    @property
    def margin(self) -> Floats:
        """log(prediction / threshold)."""
        return np.log(self.prediction / self.threshold)

    @property
    def z(self) -> Floats:
        """The margin in units of the predicted spread."""
        return self.margin / self.log_sd

    @classmethod
    def joined(cls, parts: Sequence[Questions]) -> Questions:
        """The rows of several tables."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))


@dataclass(frozen=True, slots=True)
class Expected:
    """What the acceptance model says of each cell's drafter, whatever was imposed on it; logarithms of τ - 1."""

    workload: Floats  # (n, structures x temperatures): one structure at one temperature each
    code: Floats  # code at temperature 0
    log_sd: Floats  # spread that prompts of all structures at temperature 0.7 leave open

    @classmethod
    def by(cls, model: AcceptanceModel, cells: Cells) -> Expected:
        """Expectations of one acceptance model."""

        def gain(shares: Floats, temperature: float) -> Estimate:
            found: Estimate = model.predict(_acceptance(cells, shares, temperature)).gain
            return found

        one_hot = np.eye(len(STRUCTURES))
        each = [gain(shares, temperature).value for temperature in TEMPERATURES for shares in one_hot]
        code = gain(one_hot[STRUCTURES.index("code")], 0.0).value
        return cls(
            np.log(np.maximum(np.stack(each, axis=1), _LEAST_GAIN)), np.log(np.maximum(code, _LEAST_GAIN)),
            gain(np.full(len(STRUCTURES), 1.0 / len(STRUCTURES)), 0.7).log_sd,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Composition:
    """Predicted log speedups of cells at any acceptance, from one or several fits; nan where none speaks of a row."""

    log_gain: Floats  # log of the measured τ - 1
    grid: Floats  # (g,) shifts of the log gain
    log_speedup: Floats  # (n, g) at each shift
    host_share: Floats
    log_sd: Floats  # of the costs
    expected: Expected

    def at(self, shift: Floats) -> tuple[Floats, Floats]:
        """Log speedup of each row with its log gain shifted, and its slope."""
        width = float(self.grid[1] - self.grid[0])
        place = np.clip((shift - self.grid[0]) / width, 0.0, self.grid.size - 1.001)
        left = place.astype(np.int64)
        rows = np.arange(shift.size)
        low, high = self.log_speedup[rows, left], self.log_speedup[rows, left + 1]
        return low + (place - left) * (high - low), np.abs(high - low) / width


@dataclass(frozen=True, slots=True)
class _Priced:
    """What one fit says of every row."""

    log_speedup: Floats  # (n, g) at each shift of the log gain
    host_share: Floats  # of a request's time
    fitted: StepCostFit


class Nested:
    """Compositions by fits that did not see what they predict; every fit is made once."""

    _GRID = np.linspace(-2.5, 2.5, 51)

    def __init__(self, cells: Cells, acceptance: AcceptanceModel | None = None) -> None:
        """Of these cells; no cost is fitted yet. acceptance: the model that ships where left out."""
        self.cells = cells
        self.log_gain = np.log(np.maximum(cells.tokens_per_step - 1.0, _LEAST_GAIN))
        self.expected = Expected.by(AcceptanceModel.from_artefact() if acceptance is None else acceptance, cells)
        self._made: dict[bytes, _Priced] = {}

    def compose(self, seen: Mask) -> Composition:
        """Rows of `seen` by fits without their target; other rows by the fit to all of `seen`."""
        cells = self.cells
        parts = _parts(cells, seen)
        whole = self._priced(seen)
        log_speedup, host = whole.log_speedup.copy(), whole.host_share.copy()
        for part in parts:
            without = self._priced(seen & ~part, start=whole.fitted)
            log_speedup[part], host[part] = without.log_speedup[part], without.host_share[part]
        middle = log_speedup[:, self._GRID.size // 2]
        residual = np.log(np.where(cells.judged, cells.speedup, 1.0)) - middle
        log_sd = self._spread(residual, seen & cells.judged)
        for part in parts:
            others = seen & ~part & cells.judged
            if others.any():
                log_sd[part] = self._spread(residual, others)[part]
        return Composition(self.log_gain, self._GRID, log_speedup, host, log_sd, self.expected)

    def _spread(self, residual: Floats, rows: Mask) -> Floats:
        """Log sd of every row as the shipped intervals have it, calibrated on the residuals of `rows`."""
        return widened(self.cells, calibrate(self.cells, residual, rows), rows)

    def _priced(self, seen: Mask, *, start: StepCostFit | None = None) -> _Priced:
        """By the fit to `seen`, which begins at `start`; that must not have seen what is judged."""
        key = seen.tobytes()
        if key not in self._made:
            fitted = fit(self.cells, seen, start=start)
            constants = fitted.constants
            costs, found = latencies(self.cells, constants)
            _, free = latencies(self.cells, constants | {name: constants[name] * 1e-6 for name in _HOST})
            base = np.log(found.end_to_end_ms)[self.cells.baseline]
            curves = [
                base - np.log(closed_loop(
                    costs, tokens_per_step=1.0 + np.exp(self.log_gain + shift), output_tokens=self.cells.output_tokens
                ).end_to_end_ms)
                for shift in self._GRID
            ]  # fmt: skip
            host_share = 1.0 - free.end_to_end_ms / found.end_to_end_ms
            self._made[key] = _Priced(np.stack(curves, axis=1), host_share, fitted)
        return self._made[key]


def _parts(cells: Cells, seen: Mask) -> list[Mask]:
    """One for each target of `seen`; of a lone target its traffic points in five parts."""
    targets = np.unique(cells.target[seen & cells.judged])
    if targets.size > 1:
        return [seen & (cells.target == target) for target in targets]
    return [seen & (cells.point % 5 == part) for part in range(5)]


def questions(
    cells: Cells, found: Composition, rows: Mask, *, thresholds: Sequence[float], mode: str, spare: Floats
) -> Questions:
    """All thresholds asked of the judged cells of `rows`, weighted.

    spare: for each cell the KV tokens of its engine over those that its requests hold.
    """
    chosen = np.flatnonzero(rows & cells.judged)
    acceptance_sd = found.expected.log_sd if mode == PREDICTED else np.zeros(len(cells))
    nodes = zip(_NODES, _NODE_WEIGHTS / _NODE_WEIGHTS.sum(), strict=True) if mode == PREDICTED else [(0.0, 1.0)]
    tables = []
    for node, share in nodes:
        log_speedup, slope = found.at(node * acceptance_sd)
        log_sd = np.hypot(found.log_sd, slope * acceptance_sd)
        as_code = found.log_gain + node * acceptance_sd >= found.expected.code
        for threshold in thresholds:
            margin = log_speedup - np.log(threshold)
            table = _features(cells, found, margin=margin, log_sd=log_sd, shift=node * acceptance_sd, spare=spare)
            tables.append(Questions(
                cell=chosen, threshold=np.full(chosen.size, threshold), prediction=np.exp(log_speedup[chosen]),
                log_sd=log_sd[chosen], features=table[chosen], as_code=as_code[chosen],
                pays=cells.speedup[chosen] >= threshold, weight=np.full(chosen.size, share),
            ))  # fmt: skip
    whole = Questions.joined(tables)
    return replace(whole, weight=_workload_weight(cells, found, whole, thresholds=thresholds))


def _features(
    cells: Cells, found: Composition, *, margin: Floats, log_sd: Floats, shift: Floats, spare: Floats
) -> Floats:
    i = cells.inputs
    ridge = i.peak_flops_per_s / i.bandwidth_bytes_per_s
    tokens = cells.concurrency * (1.0 + i.draft_share * i.num_speculative_tokens)
    return np.stack([
        margin, margin / log_sd, np.log(log_sd), cells.method == "ngram", cells.method == "draft_model",
        cells.num_speculative_tokens, np.log(cells.concurrency), np.log(cells.input_tokens + cells.output_tokens / 2.0),
        np.log(cells.output_tokens), np.log(tokens / ridge), i.kv_bytes / (i.kv_bytes + i.step_weight_bytes),
        np.log(spare), cells.size_ratio, found.host_share, found.log_gain + shift,
    ], axis=1).astype(np.float64)  # fmt: skip


def balanced(cells: Cells, asked: Questions) -> Floats:
    """Weights with which each target, method, k and band of concurrency that occur count the same; they sum to 1."""
    keys = np.stack([
        np.unique(cells.target, return_inverse=True)[1], np.unique(cells.method, return_inverse=True)[1],
        cells.num_speculative_tokens.astype(np.int64), band_of(cells.concurrency),
    ])[:, asked.cell]  # fmt: skip
    group = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
    whole = np.bincount(group, weights=asked.weight)
    weight: Floats = asked.weight / whole[group] / whole.size
    return weight


def _workload_weight(cells: Cells, found: Composition, asked: Questions, *, thresholds: Sequence[float]) -> Floats:
    """Balanced weights times how much more often a margin occurs in the workload than in the grid, by method."""
    weight = balanced(cells, asked)
    place = np.searchsorted(_MARGIN_EDGES, asked.margin)
    rows = np.unique(asked.cell)
    per_cell = np.bincount(asked.cell, weights=weight, minlength=len(cells))
    for method in np.unique(cells.method[rows]):
        own = cells.method[asked.cell] == method
        grid = np.bincount(place[own], weights=weight[own], minlength=_MARGIN_EDGES.size + 1)
        workload = np.zeros_like(grid)
        for gain in found.expected.workload.T:
            log_speedup, _ = found.at(gain - found.log_gain)
            its = rows[cells.method[rows] == method]
            for threshold in thresholds:
                at = np.searchsorted(_MARGIN_EDGES, log_speedup[its] - np.log(threshold))
                workload += np.bincount(at, weights=per_cell[its], minlength=grid.size)
        ratio = (workload / workload.sum()) / np.maximum(grid / grid.sum(), 1e-12)
        weight[own] *= np.clip(ratio, 1.0 / _MOST_WEIGHT, _MOST_WEIGHT)[place[own]]
    weight /= weight.sum()
    return weight


def _acceptance(cells: Cells, shares: Floats, temperature: float) -> AcceptanceInputs:
    drafted = np.where(cells.speculative, cells.method, "ngram")  # baseline rows are never asked about
    return AcceptanceInputs.of(
        method=drafted,
        num_speculative_tokens=np.maximum(cells.num_speculative_tokens, 1.0),
        temperature=temperature,
        size_ratio=np.where(cells.method == "draft_model", cells.size_ratio, np.nan),
        structure=shares,
    )
