"""What would the literature's formula, a single rule, the roofline alone or earlier constants say of the same cells?

A fitted model has to beat each of them on the same folds; none of them is fitted here, so that no fold can leak. What
other programs say is read from tables that a person made with them (benchmarks/), one file a program.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from models.estimate import Floats
from models.step_cost.passes import HOST_METHODS
from models.training.cells import Cells
from models.training.step_cost import Speedups
from profiler.measurements import MeasurementsError

# What the design notes' bursts gave, with which these cells were first compared.
BURSTS = {
    "o_layer_ms": 0.01817, "e_bw": 0.7313, "e_kv": 0.7844, "e_f": 0.5452, "e_p": 0.623, "o_verify_ms": 0.8095,
    "o_head_ms": 0.034, "o_draft_host_ms": 5.121, "o_sync_ms": 2.326, "o_propose_ms": 0.023,
}  # fmt: skip
# Every efficiency 1, every overhead 0: what moving and computing alone would take.
ROOFLINE = {name: 1.0 if name.startswith("e_") else 0.0 for name in BURSTS}
_FEW = 32  # "disable above 32"


def rivals(cells: Cells) -> dict[str, Speedups]:
    """Predictions by name for the judged rows, nan elsewhere; a rule says inf (enable) or 0 (disable)."""

    def judged(end_to_end: Floats, tpot: Floats | None = None) -> Speedups:
        known = np.full(len(cells), np.nan) if tpot is None else tpot
        return Speedups(np.where(cells.judged, end_to_end, np.nan), np.where(cells.judged, known, np.nan))

    with np.errstate(divide="ignore", invalid="ignore"):
        literature = cells.acceptance_length / (1.0 + cells.num_speculative_tokens * cells.size_ratio)
    return {
        "roofline alone": judged(*_seven_constants(cells, ROOFLINE)),
        "bursts' constants": judged(*_seven_constants(cells, BURSTS)),
        "AL / (1 + k c)": judged(literature),
        "always enable": judged(np.full(len(cells), np.inf)),
        "disable above 32": judged(np.where(cells.concurrency > _FEW, 0.0, np.inf)),
    }


def _seven_constants(cells: Cells, c: dict[str, float]) -> tuple[Floats, Floats]:
    """End-to-end and TPOT speedups by the design notes' formula: a pass is a roofline, prefills add their own time."""
    i, b, n = cells.inputs, cells.concurrency, cells.output_tokens

    def a_pass(weights: Floats, kv: Floats, flops: Floats, layers: Floats, peak: Floats) -> Floats:
        memory = (weights / c["e_bw"] + kv / c["e_kv"]) / i.bandwidth_bytes_per_s
        corner: Floats = (memory**4 + (flops / (c["e_f"] * peak)) ** 4) ** 0.25
        return layers * c["o_layer_ms"] + 1e3 * corner

    base = a_pass(i.base_weight_bytes, i.kv_bytes, i.base_flops, i.layers, i.peak_flops_per_s)
    step = a_pass(i.step_weight_bytes, i.kv_bytes, i.step_flops, i.layers, i.peak_flops_per_s)
    model, host = cells.method == "draft_model", np.isin(cells.method, HOST_METHODS)
    first, later = (
        np.maximum(
            a_pass(i.draft_weight_bytes, i.draft_kv_bytes, flops, i.draft_layers, i.draft_peak_flops_per_s)
            + np.where(model, 0.0, c["o_head_ms"]),
            np.where(model, c["o_draft_host_ms"], 0.0),
        )
        for flops in (i.draft_first_flops, i.draft_flops)
    )
    started = np.minimum(i.draft_passes, 1.0)
    step = step + started * first + (i.draft_passes - started) * later
    propose = np.where(cells.method == "ngram", b * c["o_propose_ms"], 0.0)
    step = step + np.where(host, c["o_sync_ms"] + propose, c["o_verify_ms"])
    prefill = 1e3 * i.prefill_flops / (c["e_p"] * i.peak_flops_per_s)
    own = prefill + 1e3 * i.draft_prefill_flops / (c["e_p"] * i.draft_peak_flops_per_s)
    decode, decode_with = (n - 1.0) * base, (n - 1.0) * step / cells.tokens_per_step
    end_to_end: Floats = (b * prefill + decode) / (b * own + decode_with)
    tpot: Floats = ((b - 1.0) * prefill + decode) / ((b - 1.0) * own + decode_with)
    return end_to_end, tpot


def read_outside_rivals(cells: Cells, folder: Path) -> dict[str, Speedups]:
    """Predictions of other programs by file name: `cell_id`, `speedup_end_to_end`, perhaps `speedup_tpot`.

    Cells that a program could not predict are left out of its file, and are not scored for it.
    """
    found = {}
    for path in sorted(folder.glob("*.csv")) if folder.is_dir() else ():
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        try:
            told = {row["cell_id"]: row for row in rows if row["speedup_end_to_end"]}
            both = [
                np.array([float(told[i].get(name) or np.nan) if i in told else np.nan for i in cells.cell_id.tolist()])
                for name in ("speedup_end_to_end", "speedup_tpot")
            ]
        except (KeyError, ValueError) as error:
            raise MeasurementsError(
                f"{path} cannot be read", expected="columns cell_id, speedup_end_to_end and numbers", got=str(error)
            ) from error
        found[path.stem] = Speedups(*(np.where(cells.judged, column, np.nan) for column in both))
    return found
