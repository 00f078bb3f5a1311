"""What does vLLM's memory profile see as peak activation: the widest moment of a dummy batch, then of its sampling.

Before it sizes the KV cache, vLLM runs `max_num_batched_tokens` tokens through the model and samples for `max_num_seqs`
rows, and reserves the highest point of torch's allocations. Which buffers live at once was counted from the sources of
the versions that profiler/compatibility.yaml names (vllm/v1/worker/gpu_model_runner.py, _dummy_sampler_run;
vllm/v1/sample/rejection_sampler.py; vllm/v1/worker/gpu/). Not counted: image and audio encoders, profiled as well.
"""

from __future__ import annotations

from typing import Literal

from profiler.architecture import Architecture

MIB = 2**20
_ELEMENT_BYTES = 2  # activations and logits are 16 bit
_FP32_BYTES = 4

# cuBLAS keeps 32 MiB on Hopper and later (PyTorch's getChosenWorkspaceSize), 8 MiB before: at most 0.03 GiB off.
_CUBLAS_WORKSPACE_BYTES = 32 * MIB
# One row of fp32 logits for each program of the top-k/top-p kernel, one program for each multiprocessor
# (vllm/v1/sample/ops/topk_topp_triton.py). 132 is an H100's and H200's count; others have 40 to 188: 0.05 GiB off at
# most.
_TOPK_PROGRAMS = 132
# Until 0.16 sampling sorted whole rows; torch.sort's index and scratch buffers made the peak. Fitted to four public
# start-up logs, in fp32 rows: Llama-3-8B 1.19 and 1.26 GiB (256 rows), Qwen3-8B 1.45 GiB (256 rows), Qwen3-235B 1.4 GiB
# (256 rows, vLLM 0.10): 9.2, 9.8, 9.5 and 9.2.
_SORTING_ROWS = 9.5


def layer_width(architecture: Architecture, *, tensor_parallel_size: int) -> float:
    """Elements per token alive at the widest moment of one layer, on one rank.

    The residual stream, and either an MLP's gate and up outputs with their product (as many elements as its matrices
    have columns: parameters / hidden size), or queries, keys, values and the attention's output, or for routed experts
    the fused kernel's two caches: chosen experts x max(2 f, h) and x f (vllm/model_executor/layers/fused_moe).
    """
    h, tp = architecture.hidden_size, tensor_parallel_size
    heads, kv_heads = architecture.num_attention_heads, architecture.num_kv_heads
    attention = (2 * heads + 2 * max(kv_heads, tp)) * architecture.head_dim / tp
    routed = sum(group.parameters for group in architecture.weights if group.experts)
    routers = sum(group.parameters for group in architecture.weights if group.role == "router")
    experts, chosen = architecture.experts or 0, architecture.experts_per_token or 0
    expert_layers = (
        round(routers / (h * experts)) if experts and routers else (architecture.num_layers if routed else 0)
    )
    dense_layers = max(architecture.num_layers - expert_layers, 1)
    dense = sum(group.parameters for group in architecture.weights if group.role == "mlp")
    mlp = dense / (dense_layers * h) / tp
    moe = 0.0
    if routed and expert_layers and experts:
        inner = routed / (expert_layers * experts * 3 * h) / tp
        moe = chosen * (max(2 * inner, h) + inner)
    return h + max(attention, mlp, moe)


def forward_bytes(
    target: Architecture,
    draft: Architecture | None,
    *,
    tokens: int,
    tensor_parallel_size: int,
) -> float:
    """Peak bytes of one pass over `tokens` tokens on one rank, then of the drafter's pass over the same."""
    width = layer_width(target, tensor_parallel_size=tensor_parallel_size)
    if draft is None:
        return tokens * _ELEMENT_BYTES * width
    # An EAGLE-3 head takes three of the target's hidden states, which stay alive beside the pass.
    kept = 3 * target.hidden_size if draft.head_kind == "eagle3" else 0
    drafting = layer_width(draft, tensor_parallel_size=tensor_parallel_size) + target.hidden_size
    return tokens * _ELEMENT_BYTES * max(width + kept, drafting + kept)


def sampler_bytes(
    *,
    rows: int,
    vocab_size: int,
    speculative: bool,
    probabilistic_drafts: bool,
    runner: Literal[1, 2],
    version: tuple[int, int, int],
) -> float:
    """Peak bytes of sampling for `rows` sequences, full vocabulary on every rank.

    In rows x vocabulary of fp32, the 16-bit logits counting half. Runner 2 works on the 16-bit logits in place. Runner
    1 without speculation: logits, their fp32 copy, probabilities, exponential noise. With speculation (one draft token
    for each row, whatever k): logits of two rows, the bonus rows, their fp32 copy that is kept, the target rows raw and
    processed, their probabilities, noise, and its reciprocal (from 0.18); drafts' probabilities where they are used.
    """
    fp32 = float(rows) * vocab_size * _FP32_BYTES
    half = fp32 / 2
    if runner == 2:
        return half
    if version < (0, 17, 0):
        return half + (_SORTING_ROWS + (1.0 if speculative else 0.0)) * fp32
    if not speculative:
        return half + 3.0 * fp32
    buffers = 7.0 if version >= (0, 18, 0) else 6.0
    return half + (buffers + (1.0 if probabilistic_drafts else 0.0)) * fp32


def peak_activation_bytes(
    target: Architecture,
    draft: Architecture | None,
    *,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    tensor_parallel_size: int,
    speculative: bool,
    probabilistic_drafts: bool,
    runner: Literal[1, 2],
    version: tuple[int, int, int],
) -> int:
    """Bytes reserved for activations on one rank: the larger of pass and sampling, and the lasting workspaces."""
    forward = forward_bytes(target, draft, tokens=max_num_batched_tokens, tensor_parallel_size=tensor_parallel_size)
    rows = min(max_num_seqs, max_num_batched_tokens)
    vocabulary = target.vocab_size or 0
    sampling = sampler_bytes(
        rows=rows,
        vocab_size=vocabulary,
        speculative=speculative,
        probabilistic_drafts=probabilistic_drafts,
        runner=runner,
        version=version,
    )
    hidden_states = max_num_batched_tokens * target.hidden_size * _ELEMENT_BYTES
    workspaces = _CUBLAS_WORKSPACE_BYTES
    if runner == 1 and version >= (0, 17, 0):
        workspaces += _TOPK_PROGRAMS * vocabulary * _FP32_BYTES
    return round(workspaces + max(forward, hidden_states + sampling))
