"""How well does the shipped step-cost model predict the measured cells? Errors by method, band and target.

    python benchmarks/compare_step_cost.py                 # tables; the last line is JSON
    python benchmarks/compare_step_cost.py --worst 20      # and the twenty worst cells

Each cell is predicted with its measured τ and m, so that only the cost is judged: end-to-end speedup, throughput, TPOT,
the decode step (against the median interval of the engine's outputs, where fewer than a third of the steps can carry a
prefill) and the first token (TTFT at concurrency 1). Composition by models.step_cost.closed_loop.
The shipped constants were fitted to these cells: benchmarks/fit_step_cost.py tells the errors of unseen ones.
Runs of one cell are predicted once each.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from models.step_cost import StepCostInputs, StepCostModel, closed_loop, step_cost_inputs
from profiler.measurements import read_cells, read_engines
from profiler.measurements.coverage import CONCURRENCY_BANDS, CONTEXT_BANDS, band_of
from profiler.measurements.deployment import measured_deployment, read_shapes
from profiler.measurements.noise import point_name

DATA = Path(__file__).parents[1] / "data"
QUANTITIES = ("speedup", "throughput", "tpot", "step", "ttft")


def predict(cells, engines, shapes):
    """The model's numbers for each cell: dict of arrays."""
    known, tables = {}, []
    for cell in cells:
        if cell["engine_id"] not in known:
            known[cell["engine_id"]] = measured_deployment(engines[cell["engine_id"]], shapes)
        deployment, speculation = known[cell["engine_id"]]
        tables.append(step_cost_inputs(
            deployment, speculation, concurrency=cell["concurrency"],
            context_tokens=cell["input_tokens"] + cell["output_tokens"] / 2, prefill_tokens=cell["input_tokens"],
            draft_share=1.0 if cell["draft_share"] is None else min(cell["draft_share"], 1.0),
        ))  # fmt: skip
    cost = StepCostModel.from_priors().predict(StepCostInputs.concatenate(tables))
    b = np.array([float(cell["concurrency"]) for cell in cells])
    n = np.array([float(cell["output_tokens"]) for cell in cells])
    tau = np.array([cell["tokens_per_step"] for cell in cells])
    without = closed_loop(cost.without, tokens_per_step=np.ones_like(b), output_tokens=n)
    own = closed_loop(cost.speculative, tokens_per_step=tau, output_tokens=n)
    return {"speedup": without.end_to_end_ms / own.end_to_end_ms, "throughput": 1e3 * b * n / own.end_to_end_ms,
            "tpot": own.tpot_ms, "step": cost.step_ms, "ttft": own.first_token_ms}  # fmt: skip


def measure(cell):
    """What the cell says of each quantity; None where it says nothing."""
    alone = cell["concurrency"] == 1
    # Steps that carry a prefill are at most completions; below a third of the steps the median is a decode step.
    decoding = cell["completions"] < cell["steps"] / 3
    return {
        "speedup": cell["speedup_end_to_end"], "throughput": cell["output_tokens_per_s"], "tpot": cell["tpot_ms"],
        "step": cell["step_ms_p50"] if decoding else None,
        "ttft": cell["ttft_ms_p50"] if alone else None,
    }  # fmt: skip


def summarise(errors):
    """MAPE, p90, bias and count of relative errors."""
    values, size = np.array(errors), np.abs(errors)
    return {"cells": len(values), "mape": float(np.mean(size)), "p90": float(np.quantile(size, 0.9)),
            "bias": float(np.mean(values))}  # fmt: skip


def tabulate(title, cells, errors, label: Callable[[dict], str]):
    """Print and return the errors of every group that `label` names."""
    groups = defaultdict(list)
    for cell, error in zip(cells, errors, strict=True):
        groups[label(cell)].append(error)
    print(f"\n{title:32}" + "".join(f"{name:>24}" for name in QUANTITIES))
    print(f"{'':32}" + "".join(f"{'n  MAPE   p90   bias':>24}" for _ in QUANTITIES))
    found = {}
    for name, group in groups.items():
        found[name] = {q: summarise([e[q] for e in group if q in e]) for q in QUANTITIES if any(q in e for e in group)}
        cellwise = [
            f"{s['cells']:4d} {s['mape']:5.1%} {s['p90']:5.0%} {s['bias']:+6.1%}" if s else "-"
            for s in (found[name].get(q) for q in QUANTITIES)
        ]
        print(f"{name:32}" + "".join(f"{text:>24}" for text in cellwise))
    return found


def main():
    """Predict, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worst", type=int, default=12, help="how many of the worst speedups to list")
    given = parser.parse_args()
    cells = read_cells(DATA / "measurements")
    engines = {engine["engine_id"]: engine for engine in read_engines(DATA / "measurements")}
    predicted = predict(cells, engines, read_shapes(DATA / "grids"))
    errors = []
    for row, cell in enumerate(cells):
        truth = measure(cell)
        errors.append({q: float(predicted[q][row] / truth[q] - 1) for q in QUANTITIES if truth[q]})
    usual = [row for row, cell in enumerate(cells) if "compilation_config" not in cell["key"]]
    by_method = tabulate("method, default capture sizes", [cells[r] for r in usual], [errors[r] for r in usual],
                         lambda c: c["method"])  # fmt: skip
    tabulate("method, k, target", cells, errors,
             lambda c: f"{c['method']} k{c['num_speculative_tokens']} {c['target']}")  # fmt: skip
    tabulate("method, concurrency", cells, errors,
             lambda c: f"{c['method']} {band_of(c['concurrency'], CONCURRENCY_BANDS)}")  # fmt: skip
    tabulate("method, input tokens", cells, errors,
             lambda c: f"{c['method']} {band_of(c['input_tokens'], CONTEXT_BANDS)}")  # fmt: skip
    tabulate("tokens of a mean pass", cells, errors, lambda c: "above 512" if c["tokens_per_pass"] > 512 else "to 512")
    print("\nworst speedups")
    ranked = sorted((abs(e["speedup"]), row) for row, e in enumerate(errors) if "speedup" in e)
    for _, row in ranked[::-1][: given.worst]:
        cell = cells[row]
        traffic = f"{point_name(cell):>14} T{cell['temperature']:g} u{cell['unmatched_share']:g}"
        speedup = f"{cell['speedup_end_to_end']:.2f}, predicted {predicted['speedup'][row]:.2f}"
        step = f"{cell['step_ms_p50'] or np.nan:.1f} ms, predicted {predicted['step'][row]:.1f}"
        print(f"{cell['engine']:34}{traffic}: {speedup}; step {step}; {cell['tokens_per_pass']:.0f} tokens a pass")
    print(json.dumps({"cells": len(cells), "by_method": by_method}))


if __name__ == "__main__":
    main()
