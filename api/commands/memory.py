"""`specworth memory`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from api.commands.deployment_options import (
    Draft,
    EnforceEager,
    EngineVersion,
    GpuName,
    GpuUtilization,
    KvCacheDtype,
    MaxBatchedTokens,
    MaxModelLen,
    MaxSeqs,
    Method,
    NumSpeculativeTokens,
    Quantization,
    Target,
    TensorParallel,
)


def memory(
    target: Target,
    gpu: GpuName,
    draft: Draft = None,
    method: Method = None,
    num_speculative_tokens: NumSpeculativeTokens = None,
    request_tokens: Annotated[int, typer.Option(min=1, help="Prompt and answer of one request, in tokens.")] = 2048,
    tensor_parallel_size: TensorParallel = None,
    gpu_memory_utilization: GpuUtilization = None,
    max_model_len: MaxModelLen = None,
    max_num_seqs: MaxSeqs = None,
    max_num_batched_tokens: MaxBatchedTokens = None,
    kv_cache_dtype: KvCacheDtype = None,
    quantization: Quantization = None,
    engine_version: EngineVersion = None,
    enforce_eager: EnforceEager = False,
    json: Annotated[bool, typer.Option("--json", help="Print bytes and tokens as JSON.")] = False,
) -> Callable[[], int]:
    """How will vLLM divide the memory of each GPU, and what does a drafter take from the KV cache?

    \b
    Without speculation, and with every drafter that is known for the target:
      specworth memory --target meta-llama/Llama-3.1-8B-Instruct --gpu H200
    With one drafter, two servers on one card:
      specworth memory --target meta-llama/Llama-3.1-8B-Instruct --draft meta-llama/Llama-3.2-1B-Instruct
        -k 4 --gpu "RTX PRO 6000 Blackwell" --gpu-memory-utilization 0.45 --max-model-len 8192
    """
    options = dict(locals())

    def job() -> int:
        from api.commands.run_memory import run_memory

        return run_memory(options)

    return job
