"""Options that say what is served, on what, and how: the same words for every command, and vLLM's own names."""

from __future__ import annotations

from typing import Annotated

import typer

Target = Annotated[
    str, typer.Option("--target", "-t", help="Model: a catalog name, a folder with a config.json, or that file.")
]
GpuName = Annotated[
    str, typer.Option("--gpu", "-g", help="Accelerator: a catalog name, or a JSON object with its figures.")
]
TargetOrProfiled = Annotated[
    str | None,
    typer.Option("--target", "-t", help="Model: a catalog name, a folder with a config.json, or that file."),
]
GpuOrProfiled = Annotated[
    str | None,
    typer.Option("--gpu", "-g", help="Accelerator: a catalog name, or a JSON object with its figures."),
]
Draft = Annotated[str | None, typer.Option("--draft", help="Draft model or head: a catalog name, folder or file.")]
Method = Annotated[
    str | None,
    typer.Option("--method", help="ngram, suffix, draft_model, eagle, eagle3, mtp or medusa; all if not given."),
]
NumSpeculativeTokens = Annotated[
    int | None,
    typer.Option("--num-speculative-tokens", "-k", help="Draft tokens per step; 1 to 8 compared if not given."),
]
DraftSampleMethod = Annotated[str | None, typer.Option("--draft-sample-method", help="greedy or probabilistic.")]
TensorParallel = Annotated[int | None, typer.Option("--tensor-parallel-size", "-tp", help="GPUs that share the model.")]
GpuUtilization = Annotated[float | None, typer.Option("--gpu-memory-utilization", help="Share of GPU memory to use.")]
MaxModelLen = Annotated[int | None, typer.Option("--max-model-len", help="Longest request, in tokens.")]
MaxSeqs = Annotated[int | None, typer.Option("--max-num-seqs", help="Most requests that run at once.")]
MaxBatchedTokens = Annotated[int | None, typer.Option("--max-num-batched-tokens", help="Most tokens in one pass.")]
KvCacheDtype = Annotated[str | None, typer.Option("--kv-cache-dtype", help="auto, bfloat16, fp8, ...")]
Quantization = Annotated[str | None, typer.Option("--quantization", help="Overrides what the model's config says.")]
EngineVersion = Annotated[str | None, typer.Option("--engine-version", help="vLLM's version; 0.26.0 if not given.")]
EnforceEager = Annotated[bool, typer.Option("--enforce-eager", help="No CUDA graphs.")]
