"""How long does a decode step take, without speculation and with it?

A pass is a roofline with overheads (design.md, "What we measured"):

    pass = layers · o_layer + (mem⁴ + comp⁴)^¼ + all-reduces
    mem  = weight bytes / (e_bw · bandwidth) + KV bytes / (e_kv · bandwidth);  comp = FLOPs / (e_f · peak)
    step = pass over drafted and bonus tokens + drafting + the method's cost of one step;  prefill = FLOPs / (e_p · peak)

Heads draft in k passes at roofline plus o_head each; a draft model's pass takes at least what the host needs to launch
it; n-gram, suffix, Medusa and draft models lose asynchronous scheduling (vLLM 0.26). All constants, with their
sources and spreads, are in models/priors/step_cost.yaml. The spread of a prediction is the constants' spread carried
through the formula (delta method) plus the residuals of the fit; what no measurement covers widens the constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.step_cost.coverage import GAPS, gap_bit
from models.step_cost.inputs import BASELINE, StepCostInputs
from profiler.errors import ArtefactError

# The constants that carry spread, in the order of the priors file.
CONSTANTS = (
    "o_layer_ms", "e_bw", "e_kv", "e_f", "e_p", "o_step_ms", "o_head_ms", "o_draft_host_ms", "o_sync_ms",
    "o_propose_ms", "o_reduce_ms", "e_link", "eager_factor",
)  # fmt: skip
HOST_METHODS = ("draft_model", "ngram", "suffix", "medusa")  # scheduled synchronously by vLLM 0.26
COPYING = ("ngram", "suffix")


@dataclass(frozen=True, slots=True)
class StepCostEstimate:
    """Latencies of each row in milliseconds, and how far off they may be (sd of the natural logarithm)."""

    base_step_ms: Floats
    step_ms: Floats
    prefill_ms: Floats  # one request's uncached prompt, without speculation
    speculative_prefill_ms: Floats  # the drafter's prefill included
    log_sd_step: Floats  # of step_ms itself
    log_sd_ratio: Floats  # of step_ms / base_step_ms: most of the constants' errors cancel in it
    covered: NDArray[np.bool_]  # does any measurement cover this GPU, engine, method and kind of model
    gaps: NDArray[np.int64]  # models.step_cost.coverage.GAPS as bits


@dataclass(frozen=True, slots=True)
class StepCostConstants:
    """The fitted constants: value and log sd of each, extra log sd for each gap, residual log sd of each method."""

    value: dict[str, float]
    log_sd: dict[str, float]
    gap_log_sd: dict[str, dict[str, float]]  # gap -> constant -> log sd added (in quadrature)
    residual: dict[str, float]  # method -> log sd of the step ratio beside the constants
    idle_tier_factor: float  # a schedule's k = 0 tier against no speculation at all


class StepCostModel:
    """The roofline with fitted overheads; sklearn's fit/predict shape."""

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
        sd = self._log_sds(inputs)
        # Row 0 is the constants as they are, row i + 1 has constant i one small step up: all priced in one pass.
        h = 1e-3
        theta = np.repeat(np.array([[c.value[name]] for name in CONSTANTS]), len(CONSTANTS) + 1, axis=1)
        theta[np.arange(len(CONSTANTS)), np.arange(len(CONSTANTS)) + 1] *= np.exp(h)
        constants = {name: theta[i][:, None] for i, name in enumerate(CONSTANTS)}
        base, step = price_steps(inputs, constants, idle_tier_factor=c.idle_tier_factor)
        log_step, log_ratio = np.log(step), np.log(step / base)
        slope_step = (log_step[1:] - log_step[0]) / h
        slope_ratio = (log_ratio[1:] - log_ratio[0]) / h
        residual = np.array([c.residual[str(name)] for name in inputs.method])
        first = {name: column[0] for name, column in constants.items()}
        prefill, draft_prefill = price_prefills(inputs, first)
        return StepCostEstimate(
            base_step_ms=base[0],
            step_ms=step[0],
            prefill_ms=prefill,
            speculative_prefill_ms=prefill + draft_prefill,
            log_sd_step=np.sqrt(np.square(slope_step * sd).sum(axis=0) + residual**2),
            log_sd_ratio=np.sqrt(np.square(slope_ratio * sd).sum(axis=0) + residual**2),
            covered=inputs.gaps == 0,
            gaps=inputs.gaps,
        )

    def _log_sds(self, inputs: StepCostInputs) -> Floats:
        """Log sd of each constant (rows) for each input (columns), gaps added in quadrature."""
        c = self.constants_
        own = np.array([c.log_sd[name] for name in CONSTANTS]) ** 2
        patterns, inverse = np.unique(inputs.gaps, return_inverse=True)
        variance = np.repeat(own[:, None], patterns.shape[0], axis=1)
        for gap in GAPS:
            extra = np.array([c.gap_log_sd.get(gap, {}).get(name, 0.0) for name in CONSTANTS]) ** 2
            variance[:, (patterns & gap_bit(gap)) > 0] += extra[:, None]
        return np.sqrt(variance)[:, inverse]


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
    inputs: StepCostInputs, constants: dict[str, Floats], *, idle_tier_factor: float
) -> tuple[Floats, Floats]:
    """(base step, speculative step) in ms; constants broadcast against the rows."""
    i, c = inputs, constants
    o_layer = c["o_layer_ms"] * np.where(i.eager, c["eager_factor"], 1.0)
    rates = {name: c[name] for name in ("e_bw", "e_kv", "e_f")}
    target = {"layers": i.layers, "kv_bytes": i.kv_bytes, "bandwidth": i.bandwidth_bytes_per_s,
              "peak": i.peak_flops_per_s, "o_layer_ms": o_layer, **rates}  # fmt: skip
    # An unknown link costs its latency alone: no guess of its rate, the gap widens the spread instead.
    link = 1e3 / (np.where(np.isnan(i.interconnect_bytes_per_s), np.inf, i.interconnect_bytes_per_s) * c["e_link"])
    reduces = i.reduces * c["o_reduce_ms"]
    base = pass_ms(weight_bytes=i.base_weight_bytes, flops=i.base_flops, **target)
    base = base + c["o_step_ms"] + reduces + i.base_reduce_bytes * link
    step = pass_ms(weight_bytes=i.step_weight_bytes, flops=i.step_flops, **target)
    step = step + c["o_step_ms"] + reduces + i.step_reduce_bytes * link + _drafting_ms(i, c, o_layer)
    host = np.isin(i.method, HOST_METHODS)
    propose = np.where(np.isin(i.method, COPYING), i.concurrency * c["o_propose_ms"], 0.0)
    step = step + np.where(host, c["o_sync_ms"] + propose, 0.0)
    idle = (i.num_speculative_tokens == 0) & (i.method != BASELINE) & ~host
    return base, np.where(i.method == BASELINE, base, np.where(idle, base * idle_tier_factor, step))


def _drafting_ms(i: StepCostInputs, c: dict[str, Floats], o_layer: Floats) -> Floats:
    """Drafting of one step: the passes of a head or a draft model, the first over the last step's tokens too."""
    drafter = {"layers": i.draft_layers, "weight_bytes": i.draft_weight_bytes, "kv_bytes": i.draft_kv_bytes,
               "bandwidth": i.bandwidth_bytes_per_s, "peak": i.draft_peak_flops_per_s, "o_layer_ms": o_layer,
               "e_bw": c["e_bw"], "e_kv": c["e_kv"], "e_f": c["e_f"]}  # fmt: skip
    model = i.method == "draft_model"
    later = pass_ms(flops=i.draft_flops, **drafter) + np.where(model, 0.0, c["o_head_ms"])
    first = pass_ms(flops=i.draft_first_flops, **drafter) + np.where(model, 0.0, c["o_head_ms"])
    # The host launches a draft model's pass in pieces; the GPU waits for it wherever it is the faster of the two.
    later = np.where(model, np.maximum(later, c["o_draft_host_ms"]), later)
    first = np.where(model, np.maximum(first, c["o_draft_host_ms"]), first)
    started = np.minimum(i.draft_passes, 1.0)
    drafting: Floats = np.where(i.draft_passes > 0, started * first + (i.draft_passes - started) * later, 0.0)
    return drafting


def price_prefills(inputs: StepCostInputs, constants: dict[str, Any]) -> tuple[Floats, Floats]:
    """(target's, drafter's) prefill of one request's uncached prompt in ms: FLOPs / (e_p · peak)."""
    i, c = inputs, constants
    link = 1e3 / (np.where(np.isnan(i.interconnect_bytes_per_s), np.inf, i.interconnect_bytes_per_s) * c["e_link"])
    target = 1e3 * i.prefill_flops / (c["e_p"] * i.peak_flops_per_s) + i.prefill_reduce_bytes * link
    drafter: Floats = 1e3 * i.draft_prefill_flops / (c["e_p"] * i.draft_peak_flops_per_s)
    return target, drafter


@cache
def read_constants() -> StepCostConstants:
    """The shipped constants; ArtefactError where the file lacks one."""
    import yaml

    text = (files("models") / "priors" / "step_cost.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    try:
        return StepCostConstants(
            value={name: float(document["constants"][name]["value"]) for name in CONSTANTS},
            log_sd={name: float(document["constants"][name]["log_sd"]) for name in CONSTANTS},
            gap_log_sd={gap: {k: float(v) for k, v in e["log_sd"].items()} for gap, e in document["gaps"].items()},
            residual={name: float(value) for name, value in document["residual_log_sd"].items()},
            idle_tier_factor=float(document["idle_tier_factor"]["value"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtefactError("The step-cost constants are damaged", expected=f"an entry {error}") from error
