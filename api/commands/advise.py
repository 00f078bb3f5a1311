"""`specworth advise`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from api.commands.deployment_options import (
    Draft,
    DraftSampleMethod,
    EnforceEager,
    EngineVersion,
    GpuOrProfiled,
    GpuUtilization,
    KvCacheDtype,
    MaxBatchedTokens,
    MaxModelLen,
    MaxSeqs,
    Method,
    NumSpeculativeTokens,
    Quantization,
    TargetOrProfiled,
    TensorParallel,
)
from api.commands.output_options import AsJson, Output, Report

_READING, _TRAFFIC, _POLICY, _OUTPUT = "Reading the file", "Traffic", "Policy", "Output"


def advise(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Prompts: JSON lines, JSON, CSV, Parquet or text, also gzip or zstd; - for standard input.",
        ),
    ],
    target: TargetOrProfiled = None,
    gpu: GpuOrProfiled = None,
    draft: Draft = None,
    method: Method = None,
    num_speculative_tokens: NumSpeculativeTokens = None,
    draft_sample_method: DraftSampleMethod = None,
    concurrency: Annotated[int | None, typer.Option(help="Requests that run at once.")] = None,
    request_rate: Annotated[float | None, typer.Option(help="Requests per second, instead of --concurrency.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature, 0 to 2.")] = None,
    input_tokens: Annotated[float | None, typer.Option(help="Mean length of a prompt, in tokens.")] = None,
    output_tokens: Annotated[float | None, typer.Option(help="Mean length of an answer, in tokens.")] = None,
    cached_prefix_share: Annotated[
        float | None, typer.Option(help="Share of prompt tokens that prefix caching serves.")
    ] = None,
    traffic: Annotated[
        Path | None,
        typer.Option(metavar="OBSERVED.json", help="What specworth observe saved; options here go before it."),
    ] = None,
    objective: Annotated[str | None, typer.Option(help="What decides: end_to_end (default) or tpot.")] = None,
    min_speedup: Annotated[
        float | None, typer.Option(help="Speedup from which it is worth it; 1.05 if not given.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Probability from which a verdict is decisive; 0.8 if not given.")
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Measured counts of --method and k: a JSON file, or the object itself."),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What specworth profile measured; options left out are taken from it."),
    ] = None,
    tensor_parallel_size: TensorParallel = None,
    gpu_memory_utilization: GpuUtilization = None,
    max_model_len: MaxModelLen = None,
    max_num_seqs: MaxSeqs = None,
    max_num_batched_tokens: MaxBatchedTokens = None,
    kv_cache_dtype: KvCacheDtype = None,
    quantization: Quantization = None,
    engine_version: EngineVersion = None,
    enable_prefix_caching: Annotated[bool, typer.Option(help="As vLLM serves.")] = True,
    enforce_eager: EnforceEager = False,
    format: Annotated[
        str | None,
        typer.Option(help="Read FILE as jsonl, csv, text, chat, openai-batch, sharegpt, ...; a wrong name lists all."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of a CSV or Parquet file that holds the prompts.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="The target's tokenizer.json; without it tokens are estimated.")
    ] = None,
    sample_size: Annotated[int, typer.Option(min=1, max=100_000, help="Prompts to draw from FILE.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of that draw.")] = 0,
    json: AsJson = False,
    output: Output = None,
    report: Report = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 for disable, 11 for not decisive.")
    ] = False,
) -> Callable[[], int]:
    """Is speculative decoding worth it for the prompts in FILE, on this target, GPU and traffic?

    \b
    All that applies to the target is compared:
      specworth advise prompts.jsonl --target meta-llama/Llama-3.1-8B-Instruct --gpu H200 --concurrency 16
    One method, as you would serve it:
      specworth advise log.jsonl.gz --target Qwen/Qwen3-8B --gpu L40S --method ngram -k 4 --request-rate 3
    A model and a GPU of your own:
      specworth advise prompts.csv --column question --target ./models/ours --draft ./models/ours-small
        --gpu '{"name": "ours", "memory_gib": 48, "bandwidth_gb_per_s": 1200, "bf16_tflops": 300}'
    With what a run has counted, for a program, from a pipe:
      zcat log.gz | specworth advise - --target Qwen/Qwen3-8B --gpu H200 --method eagle3 -k 3
        --draft RedHatAI/Qwen3-8B-speculator.eagle3 --evidence counts.json --json
    Under the traffic that a live server was seen to have:
      specworth observe http://127.0.0.1:8000 --out observed.json
      specworth advise prompts.jsonl --target Qwen/Qwen3-8B --gpu L40S --traffic observed.json
    With what specworth profile measured, where it was measured, as a report to print or to hand on:
      specworth advise prompts.jsonl --profile profile.json --report review.html

    FILE may hold texts, OpenAI chat or batch bodies, objects with messages or prompt, ShareGPT and other data sets,
    exports of LiteLLM, Langfuse, Helicone and the like; what was recognised, and what was skipped and why, is told.
    What is not given is estimated from the prompts, or vLLM's default, and the answer says so.
    """
    options = dict(locals())

    def job() -> int:
        from api.commands.run_advise import run_advise

        return run_advise(options)

    return job
