"""How far off are predicted times themselves (not their ratio) for a target that no fit has seen?

    python benchmarks/absolute_latencies.py       # a line for each time and arm; the last line is JSON

Each target of data/measurements is predicted by constants that were fitted to the other targets. A capacity plan rests
on these times, so its intervals do (advisor/plan/uncertainty.py): the root mean square of log(measured / predicted),
each target weighing the same. The time to first token is the median, at concurrencies above 1. Beside it: how much the
tokens of a step differ from prompt to prompt of one class (log sd of the gain, what few steps of a prompt explain
taken off).
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from models.training.cells import Cells
from models.training.step_cost import fit, latencies

DATA = Path(__file__).resolve().parents[1] / "data" / "measurements"


def main() -> None:
    cells = Cells.read(DATA)
    targets = np.unique(cells.target)
    logs = {name: np.full(len(cells), np.nan) for name in ("end_to_end", "tpot", "first_token")}
    for target in targets:
        own = cells.target == target
        _, found = latencies(cells, fit(cells, ~own).constants)
        for name, measured, predicted in (
            ("end_to_end", cells.end_to_end_ms, found.end_to_end_ms),
            ("tpot", cells.tpot_ms, found.tpot_ms),
            ("first_token", cells.first_token_ms, found.first_token_ms),
        ):
            logs[name][own] = np.log(measured[own] / predicted[own])
    logs["first_token"][cells.concurrency <= 1] = np.nan
    told = {}
    for name, log in logs.items():
        for arm, rows in (("without", ~cells.speculative), ("with", cells.speculative)):
            found = [log[rows & (cells.target == t) & np.isfinite(log)] for t in targets]
            rms = float(np.sqrt(np.mean([np.mean(one**2) for one in found])))
            bias = float(np.mean([one.mean() for one in found]))
            told[f"{name} {arm}"] = {"rms_log": round(rms, 3), "bias_log": round(bias, 3)}
            print(f"{name:<12} {arm:<8} {sum(map(len, found)):>4} cells   rms of the log {rms:.3f}   bias {bias:+.3f}")
    told["gain, prompt to prompt"] = {"log_sd": round(spread_between_prompts(), 3)}
    print(f"gain of a step, log sd from prompt to prompt of a class {told['gain, prompt to prompt']['log_sd']}")
    print(json.dumps(told))


def spread_between_prompts() -> float:
    """Log sd of (tokens a step - 1) between prompts of one cell; cells of eight prompts and more, the median cell."""
    cells = defaultdict(list)
    with (DATA / "acceptance_prompts.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            lengths = np.array([int(n) for n in row["step_lengths"].split()])  # steps of 1, 2, ... tokens
            steps = lengths.sum()
            if steps < 20:
                continue
            tokens = np.arange(1, lengths.size + 1)
            gain = float((lengths * (tokens - 1)).sum() / steps)
            variance = float((lengths * (tokens - 1 - gain) ** 2).sum() / steps)
            if gain > 0.05:
                cells[row["cell_id"], row["prompt_set"]].append((np.log(gain), variance / steps / gain**2))
    found = []
    for values in cells.values():
        if len(values) >= 8:
            logs, chance = np.array(values).T
            found.append(max(logs.var(ddof=1) - chance.mean(), 0.0))
    return float(np.sqrt(np.median(found)))


if __name__ == "__main__":
    main()
