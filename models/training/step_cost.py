"""Which constants of a pass's cost explain the measured cells, and what do they say of cells they never saw?

Robust least squares (scipy, soft_l1) on logarithms of request times, speedups, decode steps and lone prefills, each
cell with its measured τ and m, so that only the cost is fitted. Priors keep what a fold does not tell near the design
notes' values. Held-out predictions (held_out.py) come from a fit that saw neither the speculative rows nor the
baseline rows of the held-out group (one method and k out: its rows alone).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from models.estimate import Floats
from models.step_cost.closed_loop import Latencies, PassCosts, closed_loop
from models.step_cost.inputs import StepCostInputs
from models.step_cost.passes import HOST_METHODS, price_passes
from models.training.cells import Cells, Mask, rows_of

# Value and log sd before any cell is seen, and why.
PRIOR: dict[str, tuple[float, float, str]] = {
    "o_layer_ms": (0.03, 0.7, "the design notes' fit has 0.014 to 0.018 in another formula; wide"),
    "e_bw": (0.77, 0.1, "the design notes' fit"),
    "e_kv": (0.56, 0.3, "the design notes' fit"),
    "e_f": (0.55, 0.3, "the design notes' fit, 0.45 to 0.55"),
    "e_p": (0.71, 0.15, "the design notes' fit"),
    "o_piece_ms": (0.3, 0.7, "wide"),
    "o_ungraphed_ms": (0.8, 0.5, "vllm-project/vllm-omni issue 7960: 22 to 23 ms a token over 28 layers in eager mode"),
    "o_seq_ms": (0.03, 1.0, "wide"),
    "o_seq_graph_ms": (0.01, 1.0, "wide"),
    "o_verify_ms": (0.3, 1.0, "the design notes has 0, its bursts fitted here 0.8; wide"),
    "o_head_ms": (0.03, 1.0, "o_draft of the design notes less the head's roofline"),
    "o_head_host_ms": (1.0, 1.0, "wide"),
    "o_head_bare_ms": (3.0, 1.0, "wide"),
    "o_draft_host_ms": (4.6, 0.7, "the design notes: a 1B draft step costs 3 to 7 ms"),
    "o_sync_ms": (2.0, 1.0, "wide"),
    "o_propose_ms": (0.01, 1.0, "wide"),
    "o_request_ms": (5.0, 0.7, "TTFT at concurrency 1 less a pass"),
    "joining_async": (2.0, 0.3, "asynchronous scheduling has one pass running and one scheduled"),
    "joining_sync": (1.0, 0.3, "one pass running"),
}
NAMES = tuple(PRIOR)
# Of which these cells say nothing; sources in models/training/step_cost_numbers.py.
PUBLISHED = {"o_reduce_ms": 0.0064, "e_link": 0.12, "e_link_large": 0.9, "o_eager_ms": 0.8}
# Noise of what is fitted to, in logarithms: cells repeat within 0.5 % in the median, the rest is what a formula of this
# kind leaves.
SPREAD = {"end_to_end": 0.07, "speedup": 0.05, "step": 0.10, "first_token": 0.15}
SUSPECT_WEIGHT = 0.6  # flagged rows count a third as much (squared)
_MOST_EVALUATIONS = 40
_TOLERANCE = 1e-6  # of the cost and the constants: predictions then move by less than a thousandth


@dataclass(frozen=True, slots=True)
class StepCostFit:
    """Fitted constants by name (those of which the cells say nothing included), and the spread they leave open."""

    constants: dict[str, float]
    covariance: Floats  # (m, m) of the logarithms of the m constants of NAMES


@dataclass(frozen=True, slots=True)
class Speedups:
    """Predicted speedups, one for each cell; nan where there is none (baselines, rows of no fold)."""

    end_to_end: Floats
    tpot: Floats


def fit(cells: Cells, seen: Mask, *, start: StepCostFit | None = None) -> StepCostFit:
    """Robust least squares over the rows of the mask `seen`; `start` spares steps where a similar fit is known."""
    prior_sd = np.array([sd for _, sd, _ in PRIOR.values()])
    if not seen.any():
        return StepCostFit(_constants_at(np.zeros(len(NAMES))), np.diag(prior_sd**2))
    cells = rows_of(cells, seen)
    weight = np.where(cells.suspect, SUSPECT_WEIGHT, 1.0)
    pair = cells.judged
    alone = (cells.concurrency == 1) & np.isfinite(cells.first_token_ms)
    pure = cells.pure & np.isfinite(cells.step_ms)
    measured_ms, measured_speedup = cells.end_to_end_ms, cells.speedup
    arms = _Arms.of(cells)

    def residuals(shift: Floats) -> Floats:
        costs, found = _latencies(cells, arms, _constants_at(shift))
        speedup = _over_baseline(cells, found).end_to_end
        rows = [
            weight * np.log(found.end_to_end_ms / measured_ms) / SPREAD["end_to_end"],
            weight[pair] * np.log(speedup[pair] / measured_speedup[pair]) / SPREAD["speedup"],
            weight[pure] * np.log(costs.step_ms[pure] / cells.step_ms[pure]) / SPREAD["step"],
            weight[alone] * np.log(found.first_token_ms[alone] / cells.first_token_ms[alone]) / SPREAD["first_token"],
        ]
        return np.concatenate([*rows, shift / prior_sd])

    first = np.zeros(len(NAMES))
    if start is not None:
        first = np.log([start.constants[name] / PRIOR[name][0] for name in NAMES])
    best = least_squares(
        residuals, first, loss="soft_l1", x_scale="jac", ftol=_TOLERANCE, xtol=_TOLERANCE, max_nfev=_MOST_EVALUATIONS
    )
    return StepCostFit(_constants_at(best.x), np.linalg.inv(best.jac.T @ best.jac))


def _constants_at(shift: Floats) -> dict[str, float]:
    """Constants by name; `shift` is the logarithm of each over its prior's value."""
    return PUBLISHED | {name: PRIOR[name][0] * float(np.exp(shift[row])) for row, name in enumerate(NAMES)}


@dataclass(frozen=True, slots=True)
class _Arms:
    """The cells' rows by what ran: without speculation and with it, each priced as it was."""

    base: NDArray[np.int64]
    step: NDArray[np.int64]
    base_inputs: StepCostInputs
    step_inputs: StepCostInputs

    @classmethod
    def of(cls, cells: Cells) -> _Arms:
        base, step = np.flatnonzero(~cells.speculative), np.flatnonzero(cells.speculative)
        return cls(base, step, cells.inputs.rows(base), cells.inputs.rows(step))

    def price(self, constants: Mapping[str, float]) -> Floats:
        """(n, G): what the passes of each row cost."""
        base = price_passes(self.base_inputs, constants, speculative=False)
        step = price_passes(self.step_inputs, constants, speculative=True)
        passes = np.empty((base.shape[0] + step.shape[0], base.shape[1]))
        passes[self.base], passes[self.step] = base, step
        return passes


def latencies(cells: Cells, constants: Mapping[str, float]) -> tuple[PassCosts, Latencies]:
    """What constants predict for each row as it ran; the baseline's rows without speculation."""
    return _latencies(cells, _Arms.of(cells), constants)


def _latencies(cells: Cells, arms: _Arms, constants: Mapping[str, float]) -> tuple[PassCosts, Latencies]:
    costs = PassCosts(
        running=cells.concurrency,
        pass_ms=arms.price(constants),
        prefill_chunks=cells.inputs.prefill_chunks,
        joining_passes=np.where(
            np.isin(cells.method, HOST_METHODS), constants["joining_sync"], constants["joining_async"]
        ),
        request_ms=np.full(len(cells), constants["o_request_ms"]),
    )
    return costs, closed_loop(costs, tokens_per_step=cells.tokens_per_step, output_tokens=cells.output_tokens)


def predict(cells: Cells, constants: Mapping[str, float]) -> Speedups:
    """Predicted speedups of the judged rows, acceptance as measured."""
    return _over_baseline(cells, latencies(cells, constants)[1])


def _over_baseline(cells: Cells, found: Latencies) -> Speedups:
    def ratio(times_ms: Floats) -> Floats:
        speedups: Floats = np.where(cells.judged, times_ms[cells.baseline] / times_ms, np.nan)
        return speedups

    return Speedups(ratio(found.end_to_end_ms), ratio(found.tpot_ms))
