"""Does a step cost fitted to steady traffic also explain bursts, in which all requests start together?

    python benchmarks/check_bursts.py       # errors by method; the last line is JSON

The design notes' table (Llama-3.1-8B shape, dummy weights, synthetic acceptance, one H200, vLLM 0.26.0, one burst a
cell, 64 to 192 output tokens, believed to 10 %) is no part of the fit. A burst prefills first, as many prompts a pass
as max_num_batched_tokens admits, then decodes alone: E2E = prefill passes + S · T(0). Few passes are mixed, so that the
launch floors, which decide steady traffic, hardly show. Heads draft with the target's output layer, as dummy ones do.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from models.step_cost import StepCostModel, step_cost_inputs
from models.step_cost.inputs import DEFAULT_BATCHED_TOKENS
from models.step_cost.passes import PREFILL_GRID
from profiler.architecture import read_architecture
from profiler.catalog import find_gpu
from profiler.deployment import Deployment, Speculation
from profiler.measurements.deployment import read_shapes

DATA = Path(__file__).resolve().parents[1] / "data"
# (concurrency, prompt tokens): the design notes, "What we measured on one H200".
CELLS = [(1, 128), (2, 500), (4, 1000), (8, 500), (16, 128), (16, 1000), (16, 4000), (16, 12000), (32, 500),
         (64, 128), (64, 1000), (128, 128), (128, 1000)]  # fmt: skip
SPEEDUPS = {
    "eagle3": (3, 2.5, [1.82, 1.84, 1.64, 1.65, 1.66, 1.37, 1.12, 1.05, 1.36, 1.21, 1.08, 0.97, 1.01]),
    "draft_model": (3, 2.4, [0.66, 0.51, 0.57, 0.51, 0.48, 0.65, 0.77, 0.86, 0.58, 0.59, 0.76, 0.52, 0.81]),
    "ngram": (4, 2.0, [1.42, 1.26, 1.29, 1.31, 1.26, 1.19, 1.07, 1.04, 1.08, 0.83, 0.86, 0.63, 0.92]),
}
OUTPUT_TOKENS = 128  # the mean


def burst_ms(costs, prompt, tau):
    """Time of one burst: its prefill passes, then decoding alone."""
    passes = np.maximum(np.ceil(costs.running * prompt / DEFAULT_BATCHED_TOKENS), 1.0)
    each = costs.running * costs.prefill_chunks / passes  # prefills in a pass
    prefill = np.array([np.interp(j, PREFILL_GRID, row) for j, row in zip(each, costs.pass_ms, strict=True)])
    return costs.request_ms + passes * prefill + (OUTPUT_TOKENS - 1) / tau * costs.step_ms


def main():
    """Predict and print."""
    shapes = read_shapes(DATA / "grids")
    target = shapes["Llama-3.1-8B"]
    head = dict(shapes["Llama-3.1-8B-eagle3"]) | {"draft_vocab_size": target["vocab_size"]}
    drafters = {
        "eagle3": read_architecture(head, name="head"),
        "draft_model": read_architecture(shapes["Llama-3.2-1B"], name="Llama-3.2-1B"),
        "ngram": None,
    }
    deployment = Deployment(read_architecture(target, name="Llama-3.1-8B"), find_gpu("H200"))
    b, prompt = np.array(CELLS, dtype=float).T
    found = {}
    for method, (k, length, measured) in SPEEDUPS.items():
        cost = StepCostModel.from_artefact().predict(step_cost_inputs(
            deployment, Speculation(method, k, drafters[method]), concurrency=b,
            context_tokens=prompt + OUTPUT_TOKENS / 2, prefill_tokens=prompt,
        ))  # fmt: skip
        predicted = burst_ms(cost.without, prompt, 1.0) / burst_ms(cost.speculative, prompt, length)
        errors = predicted / np.array(measured) - 1
        found[method] = {"mape": round(float(np.abs(errors).mean()), 3), "bias": round(float(errors.mean()), 3)}
        print(f"{method:12} MAPE {found[method]['mape']:.1%}, bias {found[method]['bias']:+.1%}")
        for (cell_b, cell_s), p, m in zip(CELLS, predicted, measured, strict=True):
            print(f"    {cell_b:4} x {cell_s:<6} {p:.2f}, measured {m:.2f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
