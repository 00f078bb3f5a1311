"""What is served, on what, and how: the resolved facts of one deployment.

Names are resolved by the catalog and configs read by `profiler.architecture` before a Deployment exists, so everything
here is known; what is not known has been refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profiler.architecture import Architecture

Method = Literal["ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp", "medusa"]
METHODS: tuple[Method, ...] = ("ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp", "medusa")
MAX_SPECULATIVE_TOKENS = 16  # what we accept; predictions are made for 1 to 8


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator, in SI units; rates are dense (no structured sparsity)."""

    name: str
    memory_bytes: int  # what the driver shows to a program
    bandwidth_bytes_per_s: float
    bf16_flops_per_s: float
    fp8_flops_per_s: float | None  # None where the chip has no fp8 units
    interconnect_bytes_per_s: float | None = None  # to its neighbours, one direction; None where unknown


@dataclass(frozen=True, slots=True)
class Speculation:
    """One way of speculating. `draft` is None for methods without weights of their own (n-gram, suffix)."""

    method: Method
    num_speculative_tokens: int
    draft: Architecture | None = None
    draft_sample_method: Literal["greedy", "probabilistic"] = "greedy"
    prompt_lookup_max: int | None = None
    prompt_lookup_min: int | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    """A target on GPUs under vLLM's settings; None means that vLLM's default for the version applies."""

    target: Architecture
    gpu: Gpu
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float = 0.92  # vLLM's default since 0.2x; the design notes' logged case
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enable_prefix_caching: bool = True
    enforce_eager: bool = False
    kv_cache_dtype: str = "auto"
    engine_version: str = "0.26.0"
