"""How long does a decode step take, without speculation and with it?

A pass is a roofline with overheads (design.md, "What we measured"):

    pass = layers · o_layer + (mem⁴ + comp⁴)^¼ + all-reduces
    mem  = weight bytes / (e_bw · bandwidth) + KV bytes / (e_kv · bandwidth)
    comp = FLOPs / (e_f · peak)
    step = pass over drafted and bonus tokens + drafting + the method's cost of one step
    prefill = FLOPs / (e_p · peak)

Heads draft in k passes at roofline plus o_head each; a draft model's pass takes at least what the host needs to launch
it; n-gram, suffix, Medusa and draft models lose asynchronous scheduling (vLLM 0.26; vLLM pull request 31998).
Constants, sources and spreads are in models/priors/step_cost.yaml. The spread of a prediction is the constants' joint
spread carried through the formula (delta method) plus the residuals of the fit; what no measurement covers widens
both. No row is refused: an unknown interconnect costs its latency alone and says so in `gaps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.step_cost.constants import CONSTANTS, StepCostConstants, read_constants
from models.step_cost.coverage import GAPS, gap_bit
from models.step_cost.inputs import BASELINE, StepCostInputs

HOST_METHODS = ("draft_model", "ngram", "suffix", "medusa")  # scheduled synchronously by vLLM 0.26
COPYING = ("ngram", "suffix")
_STEP = 1e-3  # relative step of the numerical derivative in a constant
_PREFILL_ONLY = ("e_p", "e_link_large")
_PARALLEL_ONLY = ("o_reduce_ms", "e_link")


@dataclass(frozen=True, slots=True)
class StepCostEstimate:
    """Latencies of each row in milliseconds, and how far off they may be (sd of the natural logarithm)."""

    base_step_ms: Floats
    step_ms: Floats
    prefill_ms: Floats  # one request's uncached prompt, without speculation
    speculative_prefill_ms: Floats  # the drafter's prefill included
    log_sd_step: Floats  # of step_ms itself
    log_sd_ratio: Floats  # of step_ms / base_step_ms: most of the constants' errors cancel in it
    log_sd_prefill: Floats  # of both prefills; their errors are the same
    covered: NDArray[np.bool_]  # does any measurement cover this GPU, engine, method and kind of model
    gaps: NDArray[np.int64]  # models.step_cost.coverage.GAPS as bits


class StepCostModel:
    """The roofline with fitted overheads; sklearn's predict shape, its fit is benchmarks/fit_design_table.py."""

    constants_: StepCostConstants

    @classmethod
    def from_priors(cls) -> StepCostModel:
        """The model with the constants that ship in models/priors/step_cost.yaml."""
        model = cls()
        model.constants_ = read_constants()
        return model

    def predict(self, inputs: StepCostInputs) -> StepCostEstimate:
        """Price every row; one call for the whole table."""
        c = self.constants_
        base, step, slopes = self._sensitivities(inputs)
        extra, residual = self._gap_spreads(inputs)
        step_variance = _carried(slopes[0], c.covariance) + (np.square(slopes[0]) * extra).sum(axis=0) + residual
        ratio_variance = _carried(slopes[1], c.covariance) + (np.square(slopes[1]) * extra).sum(axis=0)
        speculative = inputs.method != BASELINE
        prefill, draft_prefill = price_prefills(inputs, c.named())
        e_p = list(CONSTANTS).index("e_p")
        return StepCostEstimate(
            base_step_ms=base,
            step_ms=step,
            prefill_ms=prefill,
            speculative_prefill_ms=prefill + draft_prefill,
            log_sd_step=np.sqrt(step_variance),
            log_sd_ratio=np.where(speculative, np.sqrt(ratio_variance + residual), 0.0),
            log_sd_prefill=np.sqrt(c.covariance[e_p, e_p] + extra[e_p]),
            covered=inputs.gaps == 0,
            gaps=inputs.gaps,
        )

    def _sensitivities(self, inputs: StepCostInputs) -> tuple[Floats, Floats, Floats]:
        """Base step, step, and the derivatives (2, P, n) of log step and of log ratio in the log of each constant."""
        value = self.constants_.value
        unused = set(_PREFILL_ONLY)
        unused |= set() if inputs.reduces.any() else set(_PARALLEL_ONLY)
        unused |= set() if inputs.eager.any() else {"o_eager_ms"}
        used = [row for row, name in enumerate(CONSTANTS) if name not in unused]
        # Row 0 has the constants as they are, row i one of them a small step up: all are priced in one pass.
        theta = np.repeat(value[:, None], len(used) + 1, axis=1)
        theta[used, np.arange(1, len(used) + 1)] *= np.exp(_STEP)
        columns = {name: theta[row][:, None] for row, name in enumerate(CONSTANTS)}
        base, step = price_steps(inputs, columns, idle_tier_factor=self.constants_.idle_tier_factor)
        log_base, log_step = np.log(base), np.log(step)
        slopes = np.zeros((2, len(CONSTANTS), len(inputs)))
        slopes[0, used] = (log_step[1:] - log_step[0]) / _STEP
        slopes[1, used] = slopes[0, used] - (log_base[1:] - log_base[0]) / _STEP
        return base[0], step[0], slopes

    def _gap_spreads(self, inputs: StepCostInputs) -> tuple[Floats, Floats]:
        """Variance that gaps of coverage add to each constant (P, n), and the residual variance of each row (n,)."""
        c = self.constants_
        bits = np.array([gap_bit(gap) for gap in GAPS])
        patterns, which = np.unique(inputs.gaps, return_inverse=True)
        present = ((patterns[:, None] & bits[None, :]) > 0).astype(np.float64)
        methods, row = np.unique(inputs.method, return_inverse=True)
        residual = np.array([c.residual[str(name)] for name in methods])[row]
        extra = (present @ c.gap_variance).T[:, which]
        return extra, np.square(residual) + (present @ np.square(c.gap_residual))[which]


def _carried(slopes: Floats, covariance: Floats) -> Floats:
    """Variance g' Σ g of each column of slopes (P, n): the delta method."""
    variance: Floats = np.clip((slopes * (covariance @ slopes)).sum(axis=0), 0.0, None)
    return variance


def pass_ms(
    *, layers: Floats, weight_bytes: Floats, kv_bytes: Floats, flops: Floats, bandwidth: Floats, peak: Floats,
    o_layer_ms: Floats, e_bw: Floats, e_kv: Floats, e_f: Floats,
) -> Floats:  # fmt: skip
    """One forward pass: layers · o_layer + (mem⁴ + comp⁴)^¼, design.md's roofline with a smooth corner."""
    memory = weight_bytes / (e_bw * bandwidth) + kv_bytes / (e_kv * bandwidth)
    compute = flops / (e_f * peak)
    smooth: Floats = np.sqrt(np.sqrt(np.square(np.square(memory)) + np.square(np.square(compute))))
    return layers * o_layer_ms + 1e3 * smooth


def price_steps(
    inputs: StepCostInputs, constants: Mapping[str, Any], *, idle_tier_factor: float
) -> tuple[Floats, Floats]:
    """(base step, speculative step) in ms; each constant broadcasts against the rows."""
    i, c = inputs, constants
    rates = {name: c[name] for name in ("e_bw", "e_kv", "e_f", "o_layer_ms")}
    target = {"layers": i.layers, "kv_bytes": i.kv_bytes, "bandwidth": i.bandwidth_bytes_per_s,
              "peak": i.peak_flops_per_s, **rates}  # fmt: skip
    base = pass_ms(weight_bytes=i.base_weight_bytes, flops=i.base_flops, **target)
    step = pass_ms(weight_bytes=i.step_weight_bytes, flops=i.step_flops, **target)
    if i.eager.any():
        floor = np.where(i.eager, i.layers * c["o_eager_ms"], 0.0)
        base, step = np.maximum(base, floor), np.maximum(step, floor)
    if i.reduces.any():
        per_byte = _ms_per_byte(i, c["e_link"])
        base = base + i.reduces * c["o_reduce_ms"] + i.base_reduce_bytes * per_byte
        step = step + i.reduces * c["o_reduce_ms"] + i.step_reduce_bytes * per_byte
    host = np.isin(i.method, HOST_METHODS)
    propose = np.where(np.isin(i.method, COPYING), i.concurrency, 0.0) * c["o_propose_ms"]
    step = step + _drafting_ms(i, c) + np.where(host, c["o_sync_ms"] + propose, c["o_verify_ms"])
    idle = (i.num_speculative_tokens == 0) & ~host
    step = np.where(idle, base * idle_tier_factor, step)
    return base, np.where(i.method == BASELINE, base, step)


def _drafting_ms(i: StepCostInputs, c: Mapping[str, Any]) -> Floats:
    """Drafting of one step: the passes of a head or a draft model, the first over the last step's tokens too."""
    if not i.draft_passes.any():
        return np.zeros(len(i))
    drafter = {"layers": i.draft_layers, "weight_bytes": i.draft_weight_bytes, "kv_bytes": i.draft_kv_bytes,
               "bandwidth": i.bandwidth_bytes_per_s, "peak": i.draft_peak_flops_per_s, "o_layer_ms": c["o_layer_ms"],
               "e_bw": c["e_bw"], "e_kv": c["e_kv"], "e_f": c["e_f"]}  # fmt: skip
    model = i.method == "draft_model"
    # The host launches a draft model's pass in pieces; the GPU waits for it wherever it is the faster of the two.
    head = np.where(model, 0.0, c["o_head_ms"])
    floor = np.where(model, c["o_draft_host_ms"], np.where(i.eager, i.draft_layers * c["o_eager_ms"], 0.0))
    first = np.maximum(pass_ms(flops=i.draft_first_flops, **drafter) + head, floor)
    later = np.maximum(pass_ms(flops=i.draft_flops, **drafter) + head, floor)
    started = np.minimum(i.draft_passes, 1.0)
    drafting: Floats = started * first + (i.draft_passes - started) * later
    return drafting


def price_prefills(inputs: StepCostInputs, constants: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """(target's, drafter's) prefill of one request's uncached prompt in ms: FLOPs / (e_p · peak)."""
    i, c = inputs, constants
    target = 1e3 * i.prefill_flops / (c["e_p"] * i.peak_flops_per_s)
    drafter: Floats = 1e3 * i.draft_prefill_flops / (c["e_p"] * i.draft_peak_flops_per_s)
    return target + i.prefill_reduce_bytes * _ms_per_byte(i, c["e_link_large"]), drafter


def _ms_per_byte(i: StepCostInputs, efficiency: Floats | float) -> Floats:
    """Of all-reduce traffic; 0 where the interconnect is unknown: no guess of its rate, the gap widens the spread."""
    rate = np.where(np.isnan(i.interconnect_bytes_per_s), np.inf, i.interconnect_bytes_per_s)
    per_byte: Floats = 1e3 / (rate * efficiency)
    return per_byte
