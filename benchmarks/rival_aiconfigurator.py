"""How well does NVIDIA's aiconfigurator predict our measured speedups, given the acceptance?

    python3 -m venv AIC && AIC/bin/pip install aiconfigurator==0.12.0       # 850 MB, outside the checkout
    python benchmarks/rival_aiconfigurator.py --python AIC/bin/python       # a dozen seconds; no GPU

Every judged speculative cell of data/measurements (runs of a cell joined) and its baseline is asked of the tool: the
same concurrency, input and output, one H200, its measured vLLM kernels (0.24.0 is the newest it has; our cells are of
0.26.0). Written is data/rivals/aiconfigurator.csv, printed are its errors by method and target. Run it again whenever
cost_cells.csv has grown.

What it models. Its `nextn` is a chain of MTP layers: a decode step computes L + nextn layers for nextn + 1 tokens a
sequence and yields 1 + accepted tokens. It knows no EAGLE-3 head, no draft model, no lookup and no host. So they map:

- eagle3, mtp: nextn = k. A target's layer stands for the head's, without the head's own output layer.
- ngram, suffix: nextn = k as well, though nothing drafts; every step is charged, also those that found no match.
- draft_model: nextn = k: k of the target's layers instead of k passes of another model. `composed` prices both models
  with the tool instead: the target's verification (its step without the nextn layers' share) plus k of the drafter's
  decode steps, and both prefills. That is our arithmetic over its prices, and not what the tool says by itself.

accepted = τ - 1, the measured accepted tokens a decode step (the steps without a draft counted). A batch-size schedule
asks with the k that it gives at this concurrency. Models are given as the config.json of data/grids/shapes.yaml, since
the tool ships Llama-3.1-8B, Qwen3-8B, 32B and 30B-A3B and not the others; Mistral stands as a Llama of its dimensions.

Modes. `static` is one batch that prefills together, then decodes together. `agg` is continuous batching at constant
concurrency, which is what was measured: mixed steps carry `ctx_tokens` of prompts beside the decodes. Its default is
one prompt a step; `agg_budget` gives it vLLM's token budget (max_num_batched_tokens, at most the prompts of all
requests). The mode with the least error end to end over all cells is called the rival: a choice made on the judged
cells, in its favour.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from models.training.cells import Cells, joined_runs
from models.training.metrics import score
from profiler.measurements import read_cells, read_engines
from profiler.measurements.deployment import read_shapes

DATA = Path(__file__).resolve().parents[1] / "data"
REQUIREMENT = "aiconfigurator==0.12.0"
MODES = ("static", "agg", "agg_budget")
KEY = ("cell_id", "target", "quantization", "method", "drafter", "num_speculative_tokens", "concurrency",
       "input_tokens", "output_tokens", "temperature")  # fmt: skip
SPEEDUPS = tuple(f"{mode}_{of}" for mode in (*MODES, "composed") for of in ("end_to_end", "tpot"))
COLUMNS = (*KEY, "tokens_per_step", "stood_for", "nextn", "mode", "speedup_end_to_end", "speedup_tpot", *SPEEDUPS,
           "version", "data_version", "unknown")  # fmt: skip
# Precisions by vLLM's name of them, as the tool calls the GEMMs'.
GEMMS = {None: None, "fp8": "fp8"}
# Architectures that the tool lacks and that are, operation for operation, one it has.
STANDS_FOR = {"MistralForCausalLM": "LlamaForCausalLM"}


def main():
    """Ask, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter that has aiconfigurator 0.12")
    parser.add_argument("--out", type=Path, default=DATA / "rivals" / "aiconfigurator.csv")
    given = parser.parse_args()
    probe = [given.python, "-c", "import aiconfigurator.sdk"]
    if not shutil.which(given.python) or subprocess.run(probe, capture_output=True, check=False).returncode:
        sys.exit(f"{given.python} has no aiconfigurator: python3 -m venv AIC && AIC/bin/pip install {REQUIREMENT}")

    cells = Cells.read(DATA / "measurements")
    judged = set(cells.cell_id[cells.judged])
    rows = joined_runs([row for row in read_cells(DATA / "measurements") if "compilation_config" not in row["key"]])
    rows = [row for row in rows if row["cell_id"] in judged]
    place = {cell: i for i, cell in enumerate(cells.cell_id)}
    truth = np.array([place[row["cell_id"]] for row in rows])
    predict(rows, given.python)
    best = min(MODES, key=lambda mode: score(column(rows, f"{mode}_end_to_end"), cells.speedup[truth]).mape or np.inf)
    for row in rows:
        if row["unknown"] is None:
            row |= {"mode": best, "speedup_end_to_end": row[f"{best}_end_to_end"], "speedup_tpot": row[f"{best}_tpot"]}
    write(given.out, rows)
    report(rows, cells.speedup[truth], cells.speedup_tpot[truth], best)


def predict(rows, python):
    """Add the tool's speedups to each row, or why it has none."""
    shapes = read_shapes(DATA / "grids")
    engines = {engine["engine_id"]: engine for engine in read_engines(DATA / "measurements")}
    models = {name: standing(shape) for name, shape in shapes.items() if "Eagle3" not in shape["architectures"][0]}
    asks = []
    for row in rows:
        engine = engines[row["engine_id"]]
        row["nextn"] = scheduled(row)
        row["stood_for"] = models[row["target"]]["architectures"][0]
        common = {
            "concurrency": row["concurrency"], "input_tokens": row["input_tokens"],
            "output_tokens": row["output_tokens"], "budget": engine["max_num_batched_tokens"],
            "tensor_parallel_size": engine["tensor_parallel_size"],
        }  # fmt: skip
        target = common | {"model": row["target"], "gemm": GEMMS.get(row["quantization"], row["quantization"])}
        none = {"nextn": 0, "accepted": None}
        accepted = min(row["tokens_per_step"] - 1.0, float(row["nextn"]))
        asks += [target | none, target | {"nextn": row["nextn"], "accepted": accepted}]
        # Where there is no other model, the drafter's ask repeats the baseline's and is not used.
        separate = row["method"] == "draft_model"
        asks.append(common | none | {"model": row["drafter"], "gemm": None} if separate else target | none)
    session = Path(__file__).with_name("aiconfigurator_session.py")
    question = json.dumps({"models": models, "asks": asks})
    done = subprocess.run([python, session], input=question, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"aiconfigurator failed: {done.stderr[-2000:]}")
    answered = json.loads(done.stdout)
    answers = answered["answers"]
    for row, base, own, draft in zip(rows, answers[::3], answers[1::3], answers[2::3], strict=True):
        row |= {"version": answered["version"], "data_version": answered["data_version"]}
        row["unknown"] = base.get("unknown") or own.get("unknown")
        if row["unknown"]:
            continue
        for mode in MODES:
            row |= {f"{mode}_{of}": base[mode][of] / own[mode][of] for of in ("end_to_end", "tpot")}
        if row["method"] == "draft_model" and "unknown" not in draft:
            row |= composed(row, shapes[row["target"]]["num_hidden_layers"], base, own, draft)


def standing(shape):
    """A shape's config.json with an architecture that the tool knows."""
    return dict(shape) | {"architectures": [STANDS_FOR.get(name, name) for name in shape["architectures"]]}


def scheduled(row):
    """k at this row's concurrency."""
    for low, high, k in row["schedule"] or ():
        if low <= row["concurrency"] <= high:
            return k
    return row["num_speculative_tokens"]


def composed(row, layers, base, own, draft):
    """Speedups with the drafter as a model of its own, from the prices of static batches."""
    k = row["nextn"]
    step = own["static_step"] * layers / (layers + k) + k * draft["static_step"]
    tpot = step / row["tokens_per_step"]
    end_to_end = own["static"]["first"] + draft["static"]["first"] + (row["output_tokens"] - 1) * tpot
    return {"composed_end_to_end": base["static"]["end_to_end"] / end_to_end,
            "composed_tpot": base["static"]["tpot"] / tpot}  # fmt: skip


def column(rows, name):
    """Floats, nan where there is no answer."""
    return np.array([np.nan if row.get(name) is None else row[name] for row in rows])


def write(path, rows):
    """The table, in the order of the measurements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            values = [row.get(name) for name in COLUMNS]
            writer.writerow(["" if v is None else f"{v:.6g}" if isinstance(v, float) else v for v in values])


def report(rows, speedup, tpot, best):
    """Print errors of each mode, then of the rival by method and target; the last line is JSON."""
    method, target = (np.array([row[name] for row in rows]) for name in ("method", "target"))
    print(f"{len(rows)} cells, aiconfigurator {rows[0]['version']}, {rows[0]['data_version']} kernels; rival: {best}")
    for reason in sorted({f"{row['target']} {row['unknown']}" for row in rows if row["unknown"]}):
        print(f"without an answer: {reason}")
    found = {}
    for mode in (*MODES, "composed"):
        for name in ("all", *dict.fromkeys(method)):
            found[f"{mode} {name}"] = judge(rows, mode, speedup, tpot, (method == name) | (name == "all"))
    for name in dict.fromkeys(target):
        found[f"rival {name}"] = judge(rows, best, speedup, tpot, target == name)
        for way in dict.fromkeys(method[target == name]):
            found[f"rival {name} {way}"] = judge(rows, best, speedup, tpot, (target == name) & (method == way))
    print(f"{'':36}{'end to end':>44}{'TPOT':>44}\n{'':36}" + 2 * f"{'n   MAPE    p90    bias  balanced at 1.05':>44}")
    for name, scores in found.items():
        if all(one.cells for one in scores.values()):
            print(f"{name:36}" + "".join(f"{line(one):>44}" for one in scores.values()))
    kept = {name: scores["end_to_end"].mape for name, scores in found.items() if scores["end_to_end"].cells}
    print(json.dumps({"rival": best, "cells": len(rows), "mape_end_to_end": {k: round(v, 4) for k, v in kept.items()}}))


def judge(rows, mode, speedup, tpot, mask):
    """Scores of one mode on some rows, on those that it answers and that were measured."""
    scores = {}
    for of, truth in (("end_to_end", speedup), ("tpot", tpot)):
        predicted = column(rows, f"{mode}_{of}")
        known = mask & np.isfinite(predicted) & np.isfinite(truth)
        scores[of] = score(predicted[known], truth[known])
    return scores


def line(one):
    """One score as text."""
    return f"{one.cells:4d} {one.mape:6.1%} {one.p90:6.0%} {one.bias:+7.1%} {one.balanced_accuracy:12.2f}"


if __name__ == "__main__":
    main()
