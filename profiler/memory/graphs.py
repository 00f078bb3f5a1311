"""How much memory do CUDA graphs take, as vLLM's profile estimates it?

vLLM captures each size of a list twice, once in pieces around attention and once whole for decoding, and charges the
first capture of each kind with what it takes and every further one with at least 1 MiB (profile_cudagraph_memory in
vllm/v1/worker/gpu_model_runner.py). Model runner 2 sets nothing aside in 0.26 and estimates alike in 0.32.
"""

from __future__ import annotations

MIB = 2**20
_LARGEST_CAPTURE = 512  # VllmConfig._set_cudagraph_sizes
_KINDS = 2  # piecewise and full
_BYTES_PER_GRAPH = MIB  # the driver's floor in the estimate
# What the first capture of a kind keeps: hidden states and residual, in and out, of the largest size.
_KEPT_STATES = 4


def capture_sizes(*, max_num_seqs: int, num_speculative_tokens: int, max_num_batched_tokens: int) -> tuple[int, ...]:
    """The batch sizes in tokens that vLLM captures by default: 1, 2, 4, by 8 below 256, by 16 up to the largest."""
    largest = min(max_num_seqs * (1 + num_speculative_tokens) * 2, _LARGEST_CAPTURE, max_num_batched_tokens)
    sizes = {size for size in (1, 2, 4) if size <= largest}
    sizes.update(range(8, min(largest + 1, 256), 8))
    sizes.update(range(256, largest + 1, 16))
    return tuple(sorted(sizes))


def graph_bytes(sizes: tuple[int, ...], *, hidden_size: int) -> int:
    """The estimate in bytes for one rank; 0 without sizes (eager mode)."""
    if not sizes:
        return 0
    first = max(sizes) * hidden_size * 2 * _KEPT_STATES
    return _KINDS * (first + (len(sizes) - 1) * _BYTES_PER_GRAPH)
