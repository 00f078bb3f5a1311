"""How far does an error of the predicted speedup reach? Distances over which advisor.fusion lets a measurement speak.

    python benchmarks/fit_error_distance.py        # from data/measurements; prints the fit, the last line is JSON

For every measured engine each cell's residual r = log(measured / predicted speedup) / predicted log-sd is taken, with
the measured acceptance given to the prediction, so that what is left is the costs' error. Residuals of two cells of one
engine are modelled as Gaussian with correlation exp(-d), d² = Σ (Δ log x / reach_x)² over concurrency and lengths, plus
the cells' own noise; the reaches maximise the likelihood over all engines (scale of each engine's variance profiled
out). One host and one GPU stand behind it: reaches are rounded down to what the data can tell.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from advisor.predictions import step_cost_model
from advisor.speedup import compare
from models.estimate import Estimate
from models.step_cost import step_cost_inputs
from profiler.measurements import read_cells, read_engines
from profiler.measurements.deployment import measured_deployment, read_shapes

DATA = Path(__file__).resolve().parents[1] / "data"
AXES = ("concurrency", "input_tokens", "output_tokens")


def residuals() -> dict[str, list[tuple[tuple[float, ...], float, float, float]]]:
    """Engine -> (log axes, log residual, predicted log-sd, log noise) of each of its cells."""
    shapes = read_shapes(DATA / "grids")
    engines = {engine["engine_id"]: engine for engine in read_engines(DATA / "measurements")}
    found = defaultdict(list)
    for cell in read_cells(DATA / "measurements"):
        if cell["speedup_end_to_end"] is None or cell["tokens_per_step"] is None or cell["flags"]:
            continue
        if "compilation_config" in cell["key"]:  # a short list of capture sizes, which nothing prices
            continue
        deployment, speculation = measured_deployment(engines[cell["engine_id"]], shapes)
        if speculation is None:
            continue
        b = np.array([float(cell["concurrency"])])
        outputs = np.array([float(cell["output_tokens"])])
        cost = step_cost_model().predict(
            step_cost_inputs(
                deployment,
                speculation,
                concurrency=b,
                context_tokens=np.array([cell["input_tokens"] + cell["output_tokens"] / 2]),
                prefill_tokens=np.array([float(cell["input_tokens"])]),
                num_speculative_tokens=np.array([float(cell["num_speculative_tokens"])]),
                draft_share=np.array([min(cell["draft_share"] or 1.0, 1.0)]),
            )
        )
        both = compare(
            without=cost.without,
            speculative=cost.speculative,
            gain=Estimate(np.array([cell["tokens_per_step"] - 1.0]), np.array([0.02])),
            output_tokens=Estimate(outputs, np.zeros(1)),
            log_sd_end_to_end=cost.log_sd_end_to_end,
            log_sd_tpot=cost.log_sd_tpot,
        ).end_to_end
        noise = max(cell["output_tokens_per_s_cv"] or 0.0, 0.01) / np.sqrt(max(cell["repeats"] or 1, 1))
        axes = tuple(float(np.log(cell[axis])) for axis in AXES)
        gap = float(np.log(cell["speedup_end_to_end"] / both.value[0]))
        name = f"{cell['target']} {cell['method']} k={cell['num_speculative_tokens']}"
        found[name].append((axes, gap, float(both.log_sd[0]), float(noise) * np.sqrt(2)))
    return found


def minus_log_likelihood(log_reach: np.ndarray, groups: list[list]) -> float:
    """Of all engines; each engine's scale is the one that fits it best."""
    reach = np.exp(log_reach)
    total = 0.0
    for cells in groups:
        axes = np.array([cell[0] for cell in cells])
        sd = np.array([cell[2] for cell in cells])
        r = np.array([cell[1] for cell in cells]) / sd
        noise = (np.array([cell[3] for cell in cells]) / sd) ** 2
        d = np.sqrt((((axes[:, None, :] - axes[None, :, :]) / reach) ** 2).sum(axis=2))
        best = np.inf
        for scale in np.geomspace(0.05, 20, 40):
            k = scale * np.exp(-d) + np.diag(noise)
            sign, logdet = np.linalg.slogdet(k)
            best = min(best, 0.5 * (logdet + r @ np.linalg.solve(k, r)) if sign > 0 else np.inf)
        total += best
    return total


def main() -> None:
    found = {name: cells for name, cells in residuals().items() if len(cells) >= 5}
    for name, cells in sorted(found.items()):
        gaps = np.array([cell[1] for cell in cells])
        z = gaps / np.array([cell[2] for cell in cells])
        rms = np.sqrt((z**2).mean())
        print(f"{name}: {len(cells)} cells, mean {gaps.mean():+.3f}, sd {gaps.std():.3f}, rms z {rms:.2f}")
    fit = minimize(minus_log_likelihood, np.log([2.0, 2.0, 2.0]), args=(list(found.values()),), method="Nelder-Mead",
                   options={"xatol": 0.02, "fatol": 0.01})  # fmt: skip
    reach = dict(zip(AXES, np.exp(fit.x).round(2).tolist(), strict=True))
    print(json.dumps({"cells": sum(map(len, found.values())), "engines": len(found), "reach": reach}))


if __name__ == "__main__":
    main()
