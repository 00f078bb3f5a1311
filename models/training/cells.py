"""Which cells were measured, as equal-length arrays to fit to: what ran, what it cost, and what its baseline cost?

Runs of one cell become one row: the median of each label over its runs, where runs that a flag doubts count only if
there is no other. Speedups are to the joined baseline of the same point. Left out are engines whose capture sizes were
not vLLM's own (graphs without multiples of k + 1 pad every step) and runs that a fault of their protocol made wrong. A
cell without a baseline is fitted to and not judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.step_cost.coverage import Measured
from models.step_cost.inputs import StepCostInputs, step_cost_inputs
from profiler.deployment import Deployment, Speculation
from profiler.measurements import read_cells, read_engines
from profiler.measurements.deployment import measured_deployment, read_shapes
from profiler.measurements.table import Row

Mask = NDArray[np.bool_]
# Flags of data/README.md that doubt a run's throughput.
SUSPECT = frozenset({"imbalanced", "short", "disagreeing", "spread", "unsteady", "unsettled", "preempted"})
_LABELS = (
    "output_tokens_per_s", "tpot_ms", "step_ms_p50", "ttft_ms_p50", "tokens_per_step", "acceptance_length",
    "draft_share",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cells:
    """Equal-length arrays, one row a cell; floats are nan where nothing was measured.

    `baseline` is the row of the same point without speculation, -1 where there is none. `judged` rows are speculative,
    have a baseline and so a measured speedup; `pure` ones have a median step without prefill.
    """

    cell_id: NDArray[np.str_]
    target: NDArray[np.str_]
    method: NDArray[np.str_]  # "none" is the baseline
    drafter: NDArray[np.str_]  # "" without one
    num_speculative_tokens: Floats
    concurrency: Floats
    input_tokens: Floats
    output_tokens: Floats
    tokens_per_step: Floats  # τ, measured
    acceptance_length: Floats  # AL, measured
    draft_share: Floats  # m, measured
    output_tokens_per_s: Floats
    tpot_ms: Floats
    step_ms: Floats  # median interval between an engine's outputs
    first_token_ms: Floats
    size_ratio: Floats  # drafter's weight traffic over the target's, the c of the literature's formula; 0 without
    suspect: Mask
    pure: Mask
    baseline: NDArray[np.int64]
    folder: NDArray[np.int64]  # place among the folders that were read
    inputs: StepCostInputs  # the physics of each row
    measured: Measured  # what all of them together cover

    def __len__(self) -> int:
        """Number of cells."""
        return int(self.cell_id.shape[0])

    @classmethod
    def read(cls, folder: Path, *others: Path) -> Cells:
        """The cells of folders with cost_cells.csv and engines.csv; MeasurementsError where one cannot be read.

        The models' dimensions are read from shapes.yaml in the folder, or else in `grids` beside it. Cells of different
        folders are of different hosts: they are neither joined nor each other's baseline.
        """
        rows: list[Row] = []
        ran: list[tuple[Deployment, Speculation | None]] = []
        for place, where in enumerate((folder, *others)):
            engines = {engine["engine_id"]: engine for engine in read_engines(where)}
            shapes = read_shapes(where if (where / "shapes.yaml").exists() else where.parent / "grids")
            its = joined_runs(
                [row for row in read_cells(where) if _steady(row) and "compilation_config" not in row["key"]]
            )
            known = {i: measured_deployment(engines[i], shapes) for i in {row["engine_id"] for row in its}}
            rows += [row | {"folder": place} for row in its]
            ran += [known[row["engine_id"]] for row in its]
        return cls._of(rows, ran)

    @classmethod
    def _of(cls, rows: Sequence[Row], ran: Sequence[tuple[Deployment, Speculation | None]]) -> Cells:
        def numbers(name: str) -> Floats:
            return np.array([np.nan if row[name] is None else float(row[name]) for row in rows])

        def texts(name: str) -> NDArray[np.str_]:
            return np.array([row[name] or "" for row in rows], dtype=np.str_)

        physics = [_physics(row, *engine) for row, engine in zip(rows, ran, strict=True)]
        return cls(
            cell_id=texts("cell_id"),
            target=texts("target"),
            method=texts("method"),
            drafter=texts("drafter"),
            num_speculative_tokens=numbers("num_speculative_tokens"),
            concurrency=numbers("concurrency"),
            input_tokens=numbers("input_tokens"),
            output_tokens=numbers("output_tokens"),
            tokens_per_step=numbers("tokens_per_step"),
            acceptance_length=numbers("acceptance_length"),
            draft_share=numbers("draft_share"),
            output_tokens_per_s=numbers("output_tokens_per_s"),
            tpot_ms=numbers("tpot_ms"),
            step_ms=numbers("step_ms_p50"),
            first_token_ms=numbers("ttft_ms_p50"),
            size_ratio=np.array([_size_ratio(*engine) for engine in ran]),
            suspect=np.array([row["suspect"] for row in rows], dtype=np.bool_),
            # Fewer completions than a third of the steps: the median step carries no prefill.
            pure=numbers("completions") < numbers("steps") / 3.0,
            baseline=_baselines(rows),
            folder=np.array([row["folder"] for row in rows], dtype=np.int64),
            inputs=StepCostInputs.concatenate(physics),
            measured=Measured.of(
                ran, concurrency=max(row["concurrency"] for row in rows), context_tokens=max(map(_context, rows))
            ),
        )

    @property
    def speculative(self) -> Mask:
        """Rows with speculation."""
        mask: Mask = self.method != "none"
        return mask

    @property
    def end_to_end_ms(self) -> Floats:
        """Latency of one request by Little's law."""
        return 1e3 * self.concurrency * self.output_tokens / self.output_tokens_per_s

    @property
    def speedup(self) -> Floats:
        """End-to-end speedup over the baseline of the same point, nan where there is none or for a baseline."""
        return self._ratio(self.output_tokens_per_s, self.output_tokens_per_s[self.baseline])

    @property
    def speedup_tpot(self) -> Floats:
        """TPOT of the baseline over TPOT, nan where one of them was not measured."""
        return self._ratio(self.tpot_ms[self.baseline], self.tpot_ms)

    def _ratio(self, above: Floats, below: Floats) -> Floats:
        ratio: Floats = np.where(self.speculative & (self.baseline >= 0), above / below, np.nan)
        return ratio

    @property
    def judged(self) -> Mask:
        """Rows with a measured end-to-end speedup."""
        return np.isfinite(self.speedup)

    @property
    def point(self) -> NDArray[np.int64]:
        """Number of the traffic point (concurrency, input, output) of each row."""
        traffic = np.stack([self.concurrency, self.input_tokens, self.output_tokens])
        return np.unique(traffic, axis=1, return_inverse=True)[1].ravel()


def joined_runs(rows: Sequence[Row]) -> list[Row]:
    """One row a cell: medians of the labels over its runs; adds `suspect`."""
    cells: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["cell_id"]].append(row)
    found = []
    for runs in cells.values():
        sound = [row for row in runs if not _doubted(row)]
        chosen = sound or runs
        # What is not a label (steps, completions) is that of the run in the middle.
        middle = sorted(chosen, key=lambda row: float(row["output_tokens_per_s"]))[(len(chosen) - 1) // 2]
        labels = {name: _median([row[name] for row in chosen]) for name in _LABELS}
        found.append(dict(middle) | labels | {"suspect": not sound})
    return found


def _steady(row: Row) -> bool:
    """Not of a loop whose requests prefilled in groups (`profiler.measurements.estimate.CLUMPED_FROM`)."""
    return "clumped" not in (row["flags"] or "").split()


def _doubted(row: Row) -> bool:
    return bool(SUSPECT & set((row["flags"] or "").split()))


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _physics(row: Row, deployment: Deployment, speculation: Speculation | None) -> StepCostInputs:
    return step_cost_inputs(
        deployment,
        speculation,
        concurrency=row["concurrency"],
        context_tokens=_context(row),
        prefill_tokens=row["input_tokens"],
        draft_share=1.0 if row["draft_share"] is None else min(row["draft_share"], 1.0),
        measured=Measured(),  # gaps are of no use here
    )


def _context(row: Row) -> float:
    """Mean tokens that a decoding sequence attends to."""
    return float(row["input_tokens"] + row["output_tokens"] / 2)


def _size_ratio(deployment: Deployment, speculation: Speculation | None) -> float:
    draft = None if speculation is None else speculation.draft
    if draft is None:
        return 0.0
    one = np.ones(1)
    return float(draft.decode_weight_bytes(one)[0] / deployment.target.decode_weight_bytes(one)[0])


def _baselines(rows: Sequence[Row]) -> NDArray[np.int64]:
    """Row of each cell's baseline: the same target and traffic, the same temperature if there is one, else any."""
    known: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        if row["method"] == "none" and not row["unmatched_share"]:
            known[_point(row)].append(place)
    found = np.full(len(rows), -1, dtype=np.int64)
    for place, row in enumerate(rows):
        at = known.get(_point(row), [])
        alike = [other for other in at if rows[other]["temperature"] == row["temperature"]] or at
        if alike:
            found[place] = alike[0]
    return found


def _point(row: Row) -> tuple[Any, ...]:
    return tuple(
        row[name] for name in ("folder", "target", "quantization", "concurrency", "input_tokens", "output_tokens")
    )


def rows_of(cells: Cells, rows: Mask) -> Cells:
    """Some of the cells; baselines that are not among them become -1."""
    place = np.full(len(cells), -1, dtype=np.int64)
    place[rows] = np.arange(int(rows.sum()))
    parts: dict[str, Any] = {field.name: getattr(cells, field.name) for field in fields(cells)}
    kept = cells.inputs.rows(rows)
    arrays = {name: value[rows] for name, value in parts.items() if name not in ("inputs", "baseline", "measured")}
    baseline = np.where(cells.baseline >= 0, place[cells.baseline], -1)[rows]
    return Cells(**arrays, inputs=kept, baseline=baseline, measured=cells.measured)
