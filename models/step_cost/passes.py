"""What does one pass of the engine cost, by what it carries?

A pass computes the decode tokens of the sequences that decode, and chunks of the prompts that are prefilled beside
them. Its content decides how vLLM launches it:

    graph       decodes of equal length alone, up to the largest captured size: one CUDA graph
    piecewise   a prefill beside them, or decodes of unequal length: graphs between the attentions, launched by the host
    ungraphed   more tokens than the largest captured graph has: the host launches every kernel

The host works ahead of the GPU, so that the slower of the two decides:

    graph      = gpu
    otherwise  = max(gpu, host),  host = layers · (o_piece | o_ungraphed) + b · o_seq
    gpu  = layers · o_layer + (mem⁴ + comp⁴)^¼ + all-reduces + b · o_seq_graph
    mem  = weight bytes / (e_bw · bandwidth) + KV bytes / (e_kv · bandwidth)
    comp = (decode FLOPs / e_f + prefill FLOPs / e_p) / peak

so that a pass with a prefill costs its floor at least. Speculation adds the drafting (k passes of the drafter, the
first over all tokens of the pass) and the method's work for a step: for verification, or, where vLLM schedules
synchronously, for the whole step and each sequence. Where it schedules asynchronously, the host goes on to launch the
drafter while the GPU still verifies, so that of the whole step the slower of the two decides, max(gpu + drafting gpu,
host + drafting host); a synchronous step is the sum of its passes, each at the slower of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.step_cost.inputs import BASELINE, StepCostInputs

HOST_METHODS = ("draft_model", "ngram", "suffix", "medusa")  # scheduled synchronously by vLLM 0.26
COPYING = ("ngram", "suffix")
# Prefills beside the decodes at which passes are priced; between them cost is interpolated. The floor's jumps lie at
# the first few, beyond them cost is all but linear.
PREFILL_GRID: Floats = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 8.0, 32.0, 1024.0])
_CORNER = 0.03  # share by which two equal times are longer than one


def price_passes(
    inputs: StepCostInputs, constants: Mapping[str, float], *, speculative: bool, idle_tier_factor: float = 1.0
) -> Floats:
    """Cost in ms of the passes of each row (n, G), G = the numbers of prefills in PREFILL_GRID.

    At most b sequences take part: with j prefills the other b - j decode. Baseline rows are priced alike in both arms.
    """
    i, c = inputs, constants
    b, prefills, share = _content(inputs)
    mixed = prefills > 0.0
    drafting = speculative & (i.method != BASELINE)
    each = np.where(drafting, 1.0 + i.draft_share * i.num_speculative_tokens, 1.0)
    chunk_tokens = i.prefill_tokens / i.prefill_chunks
    tokens = b * share * each[:, None] + prefills * chunk_tokens[:, None]
    decode_weights, flops, reduced = (
        (i.step_weight_bytes, i.step_flops, i.step_reduce_bytes)
        if speculative
        else (i.base_weight_bytes, i.base_flops, i.base_reduce_bytes)
    )
    ungraphed = tokens > i.graph_tokens[:, None]
    weights = np.where(mixed, np.maximum(i.prefill_weight_bytes, decode_weights)[:, None], decode_weights[:, None])
    gpu = _gpu_ms(
        c, layers=i.layers, bandwidth=i.bandwidth_bytes_per_s, peak=i.peak_flops_per_s, weights=weights,
        kv=i.kv_bytes[:, None] * share, decode=flops[:, None] * share,
        prefill=prefills * (i.prefill_flops / i.prefill_chunks)[:, None],
    )  # fmt: skip
    if i.reduces.any():
        gpu = gpu + _reduce_ms(i, c, reduced=reduced[:, None] * share, prefills=prefills)
    layers = i.layers[:, None]
    per_layer = np.where(ungraphed, c["o_ungraphed_ms"], c["o_piece_ms"])
    host_ms = layers * np.where(i.eager[:, None], c["o_eager_ms"], per_layer) + b * c["o_seq_ms"]
    gpu = gpu + b * c["o_seq_graph_ms"]
    graph = gpu
    launched = _slower(gpu, host_ms)
    copying = np.isin(i.method, COPYING) if speculative else np.zeros(len(i), dtype=np.bool_)
    if copying.any():
        # One graph holds equally long decodes: either every sequence drafted, or the pass is piecewise.
        alike = np.where(copying, i.draft_share ** np.minimum(i.concurrency, 64.0), 1.0)[:, None]
        graph = alike * graph + (1.0 - alike) * launched
    in_pieces = mixed | ungraphed | i.eager[:, None]
    passes: Floats = np.where(in_pieces, launched, graph)
    if not speculative:
        return passes
    synchronous = np.isin(i.method, HOST_METHODS)
    own = np.where(synchronous, c["o_sync_ms"] + i.concurrency * c["o_propose_ms"], c["o_verify_ms"])
    step = passes + own[:, None]
    if i.draft_passes.any():
        first, later = _drafting(i, c, prefills=prefills, share=share, ungraphed=ungraphed)
        once, again = _often(i.draft_passes[:, None])
        together = once * first.gpu_ms + again * later.gpu_ms
        side_by_side = _slower(gpu + together, host_ms + once * first.host_ms + again * later.host_ms)
        one_by_one = once * _slower(first.gpu_ms, first.host_ms) + again * _slower(later.gpu_ms, later.host_ms)
        overlapping = np.where(in_pieces, side_by_side, graph + together) + own[:, None]
        step = np.where((synchronous | (i.draft_passes == 0.0))[:, None], step + one_by_one, overlapping)
    idle = ((i.num_speculative_tokens == 0) & ~synchronous)[:, None]
    step = np.where(idle, passes * idle_tier_factor, step)
    return np.where((i.method == BASELINE)[:, None], passes, step)


def _content(i: StepCostInputs) -> tuple[Floats, Floats, Floats]:
    """Slots (n, 1), prefills in each pass (n, G), and the share of the slots that decode there (n, G)."""
    b = i.concurrency[:, None]
    prefills = np.minimum(PREFILL_GRID[None, :], b)
    return b, prefills, 1.0 - prefills / b


def _slower(first: Floats, second: Floats) -> Floats:
    """The larger of two; its corner is rounded by `_CORNER`, so that the fit has a slope to follow there."""
    apart = first - second
    larger: Floats = 0.5 * (first + second + np.sqrt(apart * apart + (4.0 * _CORNER * _CORNER) * first * second))
    return larger


def _often(passes: Floats) -> tuple[Floats, Floats]:
    """How often a step runs the first drafter pass, and how often a later one."""
    once = np.minimum(passes, 1.0)
    return once, passes - once


def _gpu_ms(
    c: Mapping[str, float], *, layers: Floats, bandwidth: Floats, peak: Floats, weights: Floats, kv: Floats,
    decode: Floats, prefill: Floats | float,
) -> Floats:  # fmt: skip
    """The roofline of one pass (n, G) with a soft corner, and what the GPU needs between the kernels of a layer."""
    memory = (weights / c["e_bw"] + kv / c["e_kv"]) / bandwidth[:, None]
    compute = (decode / c["e_f"] + prefill / c["e_p"]) / peak[:, None]
    corner = np.sqrt(np.sqrt(np.square(np.square(memory)) + np.square(np.square(compute))))
    roofline: Floats = layers[:, None] * c["o_layer_ms"] + 1e3 * corner
    return roofline


def _reduce_ms(i: StepCostInputs, c: Mapping[str, float], *, reduced: Floats, prefills: Floats) -> Floats:
    """All-reduces of a pass; traffic costs nothing where the interconnect is unknown: the gap widens the spread."""
    rate = np.where(np.isnan(i.interconnect_bytes_per_s), np.inf, i.interconnect_bytes_per_s)[:, None]
    chunk = prefills * (i.prefill_reduce_bytes / i.prefill_chunks)[:, None]
    traffic = reduced / c["e_link"] + chunk / c["e_link_large"]
    reduces: Floats = i.reduces[:, None] * c["o_reduce_ms"] + 1e3 * traffic / rate
    return reduces


@dataclass(frozen=True, slots=True)
class _Drafting:
    """One drafter pass of each content (n, G): what the GPU needs, and what the host needs to launch it."""

    gpu_ms: Floats
    host_ms: Floats


def _drafting(
    i: StepCostInputs, c: Mapping[str, float], *, prefills: Floats, share: Floats, ungraphed: NDArray[np.bool_]
) -> tuple[_Drafting, _Drafting]:
    """The first pass of a head or a draft model, which also runs over the pass's own tokens, and each later one."""
    mixed = prefills > 0.0
    drafter = {"layers": i.draft_layers, "bandwidth": i.bandwidth_bytes_per_s, "peak": i.draft_peak_flops_per_s,
               "weights": i.draft_weight_bytes[:, None]}  # fmt: skip
    chunk = prefills * (i.draft_prefill_flops / i.prefill_chunks)[:, None]
    kv = i.draft_kv_bytes[:, None]
    first = _gpu_ms(c, decode=i.draft_first_flops[:, None] * share, prefill=chunk, kv=kv * share, **drafter)
    later = _gpu_ms(c, decode=i.draft_flops[:, None], prefill=0.0, kv=kv, **drafter)
    layers, b = i.draft_layers[:, None], i.concurrency[:, None]
    model = (i.method == "draft_model")[:, None]
    head = np.where(model, 0.0, c["o_head_ms"])
    eager = np.where(i.eager[:, None], layers * c["o_eager_ms"], 0.0)
    # The host launches a draft model's passes in pieces always, a head's beside prefills and beyond the graphs.
    floor = np.where(model, c["o_draft_host_ms"], np.where(mixed | ungraphed, c["o_head_host_ms"], 0.0))
    first_floor = np.where(ungraphed, np.where(model, layers * c["o_ungraphed_ms"], c["o_head_bare_ms"]), floor)
    first_floor = first_floor + np.where(model & (mixed | ungraphed), b * c["o_seq_ms"], 0.0)
    return _Drafting(first + head, np.maximum(first_floor, eager)), _Drafting(later + head, np.maximum(floor, eager))
