"""What does one sequence occupy in the KV cache, on one rank?

Layers whose cache grows keep every token, sliding windows the last ones, recurrent layers one state. A block holds 16
tokens; tensor parallelism splits KV heads until one is left, then replicates it, and does not split an MLA latent
(vllm/v1/kv_cache_interface.py). Padding that unequal layer groups may need is not counted.
"""

from __future__ import annotations

import math

from profiler.architecture import Architecture
from profiler.architecture.architecture import KV_DTYPE_BYTES

BLOCK_TOKENS = 16  # CacheConfig.block_size on NVIDIA GPUs


def rank_share(architecture: Architecture, *, tensor_parallel_size: int) -> float:
    """The share of the whole cache that each rank holds."""
    if architecture.is_mla:
        return 1.0
    return 1.0 / min(tensor_parallel_size, max(architecture.num_kv_heads, 1))


def token_bytes(architecture: Architecture, *, kv_cache_dtype: str, tensor_parallel_size: int) -> float:
    """Bytes that one more token takes on one rank, over the layers that keep every token."""
    whole = architecture.kv_bytes_per_token(kv_cache_dtype) + architecture.index_bytes_per_token
    return whole * rank_share(architecture, tensor_parallel_size=tensor_parallel_size)


def sequence_bytes(
    architecture: Architecture, *, tokens: float, kv_cache_dtype: str, tensor_parallel_size: int, in_flight: int = 0
) -> float:
    """Bytes of one sequence of `tokens` tokens on one rank, whole blocks.

    in_flight: tokens that may be scheduled before a window lets go of old ones (for the longest sequence admitted).
    """
    share = rank_share(architecture, tensor_parallel_size=tensor_parallel_size)
    auto = KV_DTYPE_BYTES.get(architecture.dtype, 2)
    size = auto if kv_cache_dtype == "auto" else KV_DTYPE_BYTES[kv_cache_dtype]
    total = 0.0
    for group in architecture.layers:
        total += group.count * group.state_bytes / tensor_parallel_size
        if not group.kv_elements or group.kind == "shared":  # the cache of another layer
            continue
        blocks = math.ceil(tokens / BLOCK_TOKENS)
        if group.window is not None:
            kept = min(group.window - 1 + in_flight, tokens)
            blocks = min(blocks, math.ceil(kept / BLOCK_TOKENS) + 1)  # a window that starts inside a block
        per_token = (group.kv_elements * size + group.index_bytes) / group.tokens_per_entry
        total += group.count * blocks * BLOCK_TOKENS * per_token * share
    return total
