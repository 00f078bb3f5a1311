"""What one decode step moves and computes, row by row: the physics that the step-cost model prices.

Facts of architecture and GPU become bytes, FLOPs and counts of one rank under tensor parallelism; nothing here is
fitted. Rows of many candidates, k and concurrencies concatenate into one table that is priced in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.estimate import Floats
from models.step_cost.constants import read_constants
from models.step_cost.coverage import Measured, coverage_gaps, gap_bit
from profiler.architecture import Architecture
from profiler.deployment import Deployment, Speculation
from profiler.errors import DeploymentError

BASELINE = "baseline"
# vLLM 0.26's default; data/measurements/engines.csv, cudagraph_capture_sizes. A small max_num_seqs lowers it; no engine
# was measured so, and it is priced as if it did not.
LARGEST_GRAPH_TOKENS = 512
DEFAULT_BATCHED_TOKENS = 8192  # vLLM's server on a GPU of 70 GiB and more


@dataclass(frozen=True, slots=True)
class StepCostInputs:
    """Equal-length arrays, one row per (candidate, concurrency); bytes and FLOPs are those of one GPU of the group.

    `base_*` is the target's pass without speculation over one token a sequence, `step_*` its pass over drafted and
    bonus tokens, `draft_*` one drafter pass over one token a sequence, `draft_first_flops` its first pass, which also
    takes in the tokens of the step before (logits are computed for one token a sequence).
    """

    method: NDArray[np.str_]  # "baseline" or one of profiler.deployment.METHODS
    concurrency: Floats
    num_speculative_tokens: Floats
    draft_share: Floats
    layers: Floats
    base_weight_bytes: Floats
    step_weight_bytes: Floats
    kv_bytes: Floats
    base_flops: Floats
    step_flops: Floats
    peak_flops_per_s: Floats
    bandwidth_bytes_per_s: Floats
    draft_passes: Floats
    draft_layers: Floats
    draft_weight_bytes: Floats
    draft_kv_bytes: Floats
    draft_flops: Floats
    draft_first_flops: Floats
    draft_peak_flops_per_s: Floats
    prefill_flops: Floats  # one request's uncached prompt
    draft_prefill_flops: Floats
    prefill_tokens: Floats
    prefill_chunks: Floats  # passes that one prompt's prefill takes, by max_num_batched_tokens
    prefill_weight_bytes: Floats  # of a pass that also carries one chunk: more tokens touch more experts
    graph_tokens: Floats  # tokens of the largest captured CUDA graph
    base_reduce_bytes: Floats  # over the interconnect, all all-reduces of a pass together; 0 without tensor parallelism
    step_reduce_bytes: Floats
    prefill_reduce_bytes: Floats
    reduces: Floats  # all-reduces of one target pass
    interconnect_bytes_per_s: Floats  # nan where unknown
    eager: NDArray[np.bool_]
    gaps: NDArray[np.int64]  # bits of models.step_cost.coverage.GAPS: what no measurement covers

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.method.shape[0])

    def rows(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> StepCostInputs:
        """Some of the rows."""
        return StepCostInputs(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def concatenate(cls, tables: Sequence[StepCostInputs]) -> StepCostInputs:
        """Join the rows of several tables into one, so that they are priced in one call."""
        return cls(*(np.concatenate([getattr(table, field.name) for table in tables]) for field in fields(cls)))


@dataclass(frozen=True, slots=True)
class _Drafters:
    """One drafter pass of each row; zero for methods without weights."""

    passes: Floats  # of one step that drafts
    layers: Floats
    weight_bytes: Floats
    kv_bytes: Floats
    flops: Floats  # per token
    output_flops: Floats  # of which the output layer
    prefill_flops: Floats
    peak: Floats


def step_cost_inputs(
    deployment: Deployment,
    speculation: Speculation | None,
    *,
    concurrency: ArrayLike,
    context_tokens: ArrayLike,
    prefill_tokens: ArrayLike,
    cached_tokens: ArrayLike = 0.0,
    num_speculative_tokens: ArrayLike | None = None,
    draft_share: ArrayLike = 1.0,
    measured: Measured | None = None,
) -> StepCostInputs:
    """The physics of one deployment and drafter over arrays of traffic; all arguments broadcast to one length.

    concurrency: running sequences b. context_tokens: mean tokens a sequence attends to while decoding. prefill_tokens:
    tokens of a prompt that are computed (not found in the prefix cache), cached_tokens those that are found.
    num_speculative_tokens: k, the speculation's own where left out; 0 is a schedule's tier that does not draft.
    draft_share: m, the share of decode steps that draft. measured: what the constants to be applied were fitted to; the
    shipped ones' where left out. Raises DeploymentError for fp8 on a GPU without fp8 units.
    """
    k = num_speculative_tokens
    if k is None:
        k = 0 if speculation is None else speculation.num_speculative_tokens
    return step_cost_table(
        deployment,
        (speculation,),
        which=0,
        concurrency=concurrency,
        context_tokens=context_tokens,
        prefill_tokens=prefill_tokens,
        cached_tokens=cached_tokens,
        num_speculative_tokens=k,
        draft_share=draft_share,
        measured=measured,
    )


def step_cost_table(
    deployment: Deployment,
    speculations: Sequence[Speculation | None],
    *,
    which: ArrayLike,
    concurrency: ArrayLike,
    context_tokens: ArrayLike,
    prefill_tokens: ArrayLike,
    cached_tokens: ArrayLike,
    num_speculative_tokens: ArrayLike,
    draft_share: ArrayLike,
    measured: Measured | None = None,
) -> StepCostInputs:
    """The rows of several drafters of one deployment in one table: row i is of `speculations[which[i]]`.

    All other arguments are those of `step_cost_inputs`; a row without speculation has neither k nor m.
    """
    of, *columns = np.broadcast_arrays(
        np.atleast_1d(np.asarray(which, dtype=np.int64)),
        np.asarray(concurrency, dtype=np.float64),
        np.asarray(context_tokens, dtype=np.float64),
        np.asarray(prefill_tokens, dtype=np.float64),
        np.asarray(cached_tokens, dtype=np.float64),
        np.asarray(num_speculative_tokens, dtype=np.float64),
        np.asarray(draft_share, dtype=np.float64),
    )
    b, context, prompt, cached, k, m = columns
    plain = np.array([speculation is None for speculation in speculations])[of]
    k, m = np.where(plain, 0.0, k), np.where(plain, 0.0, m)
    covered = read_constants().measured if measured is None else measured
    ranks = deployment.tensor_parallel_size
    target, gpu = deployment.target, deployment.gpu
    tokens = b * (1.0 + m * k)
    per_token = target.flops_per_token(context) / ranks
    budget = float(deployment.max_num_batched_tokens or DEFAULT_BATCHED_TOKENS)
    others = tokens - tokens / np.maximum(b, 1.0)  # decode tokens of the other sequences share a pass's budget
    chunks = np.maximum(np.ceil(prompt / np.maximum(budget - others, budget / 8.0)), 1.0)
    drafters = _drafters(
        deployment, speculations, of=of, b=b, context=context, prompt=prompt, past=cached + prompt / 2.0, k=k
    )
    # Two all-reduces a layer (after attention and after the MLP), as a ring: 2 (r - 1) / r of the message a rank.
    per_reduced_token = 2.0 * target.num_layers * target.hidden_size * 2.0 * 2.0 * (ranks - 1) / ranks

    def full(value: float) -> Floats:
        return np.full(b.shape, value, dtype=np.float64)

    return StepCostInputs(
        method=np.array([BASELINE if s is None else s.method for s in speculations], dtype="<U16")[of],
        concurrency=b,
        num_speculative_tokens=k,
        draft_share=m,
        layers=full(target.num_layers),
        base_weight_bytes=target.decode_weight_bytes(b) / ranks,
        step_weight_bytes=target.decode_weight_bytes(tokens) / ranks,
        kv_bytes=b * target.kv_read_bytes(context, deployment.kv_cache_dtype) / _kv_split(target, ranks),
        base_flops=b * per_token,
        step_flops=tokens * per_token,
        peak_flops_per_s=full(_peak(deployment, target)),
        bandwidth_bytes_per_s=full(gpu.bandwidth_bytes_per_s),
        draft_passes=m * drafters.passes,
        draft_layers=drafters.layers,
        draft_weight_bytes=drafters.weight_bytes,
        draft_kv_bytes=drafters.kv_bytes,
        draft_flops=b * drafters.flops,
        draft_first_flops=tokens * (drafters.flops - drafters.output_flops) + b * drafters.output_flops,
        draft_peak_flops_per_s=drafters.peak,
        prefill_flops=_prefill_flops(target, prompt, cached + prompt / 2.0) / ranks,
        draft_prefill_flops=drafters.prefill_flops,
        prefill_tokens=prompt,
        prefill_chunks=chunks,
        prefill_weight_bytes=target.decode_weight_bytes(tokens + prompt / chunks) / ranks,
        graph_tokens=full(LARGEST_GRAPH_TOKENS),
        base_reduce_bytes=b * per_reduced_token,
        step_reduce_bytes=tokens * per_reduced_token,
        prefill_reduce_bytes=prompt * per_reduced_token,
        reduces=full(2.0 * target.num_layers if ranks > 1 else 0.0),
        interconnect_bytes_per_s=full(gpu.interconnect_bytes_per_s or np.nan),
        eager=np.full(b.shape, deployment.enforce_eager, dtype=np.bool_),
        gaps=np.array([coverage_gaps(deployment, speculation, covered) for speculation in speculations])[of]
        | np.where((b > covered.concurrency) | (context > covered.context_tokens), gap_bit("traffic"), 0),
    )


def _kv_split(architecture: Architecture, ranks: int) -> int:
    """Over how many ranks the KV cache divides: not at all for MLA, at most by the KV heads (they are replicated)."""
    return 1 if architecture.is_mla else min(ranks, max(architecture.num_kv_heads, 1))


def _output_flops(architecture: Architecture) -> float:
    """Of the output layer for one token; its table is the embedding's where the two are tied."""
    role = "embedding" if architecture.tie_word_embeddings else "lm_head"
    return 2.0 * sum(group.parameters for group in architecture.weights if group.role == role)


def _prefill_flops(architecture: Architecture, prompt: Floats, past: Floats) -> Floats:
    """Of a prompt whose tokens attend to `past` tokens on average; only the last one's logits are computed."""
    output = _output_flops(architecture)
    flops: Floats = prompt * (architecture.flops_per_token(past) - output) + output
    return flops


def _peak(deployment: Deployment, architecture: Architecture) -> float:
    """Peak rate of the main matrix products of one model on one GPU."""
    gpu = deployment.gpu
    if architecture.compute_dtype != "fp8":
        return gpu.bf16_flops_per_s
    # Without fp8 units vLLM runs fp8 weights through 16-bit products (Marlin): the bf16 rate holds.
    return gpu.fp8_flops_per_s or gpu.bf16_flops_per_s


def _drafters(
    deployment: Deployment,
    speculations: Sequence[Speculation | None],
    *,
    of: NDArray[np.int64],
    b: Floats,
    context: Floats,
    prompt: Floats,
    past: Floats,
    k: Floats,
) -> _Drafters:
    """What one pass of each row's drafter moves and computes; past: mean tokens that a prompt's token attends to."""
    ranks, target = deployment.tensor_parallel_size, deployment.target
    passes, layers, weights, kv, flops, prefill = np.zeros((6, *b.shape))
    output, peak = np.zeros(b.shape), np.full(b.shape, _peak(deployment, target))
    for index, speculation in enumerate(speculations):
        if speculation is None or speculation.method in ("ngram", "suffix"):
            continue
        draft = _weights_of(speculation, target)
        # A target's own module keeps its cache as the target does (MLA is not split).
        split = _kv_split(target if draft is target.mtp_head else draft, ranks)
        rows = of == index
        # Medusa's heads give all draft tokens in one pass.
        passes[rows] = np.minimum(k[rows], 1.0) if speculation.method == "medusa" else k[rows]
        layers[rows] = max(draft.num_layers, 1)
        weights[rows] = draft.decode_weight_bytes(b[rows]) / ranks
        kv[rows] = b[rows] * draft.kv_read_bytes(context[rows], deployment.kv_cache_dtype) / split
        flops[rows] = draft.flops_per_token(context[rows]) / ranks
        prefill[rows] = _prefill_flops(draft, prompt[rows], past[rows]) / ranks
        output[rows] = _output_flops(draft) / ranks
        peak[rows] = _peak(deployment, draft)
    return _Drafters(passes, layers, weights, kv, flops, output, prefill, peak)


def _weights_of(speculation: Speculation, target: Architecture) -> Architecture:
    """The drafter, for MTP without one the target's own module; DeploymentError where there is none."""
    draft = target.mtp_head if speculation.method == "mtp" and speculation.draft is None else speculation.draft
    if draft is None:
        raise DeploymentError(
            f"The method {speculation.method} needs a drafter",
            expected="the drafter's architecture, or a target with a multi-token-prediction module for mtp",
            got="none",
            field="deployment.speculation.draft",
        )
    return draft
