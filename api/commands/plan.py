"""`specworth plan`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from api.commands.deployment_options import (
    Draft,
    EngineVersion,
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


def plan(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN.toml", help="What is asked, with several classes; options here go before it."),
    ] = None,
    demand: Annotated[
        Path | None, typer.Option(metavar="CURVE.csv", help="hour and requests per second of each class.")
    ] = None,
    request_rate: Annotated[float | None, typer.Option(help="Requests per second, instead of a curve.")] = None,
    growth: Annotated[float | None, typer.Option(help="Factor on the demand: 1.3 plans for 30 % more.")] = None,
    peak_to_mean: Annotated[
        float | None, typer.Option(help="Busiest minutes of an hour over its mean; 1 if not given.")
    ] = None,
    ttft_p95_ms: Annotated[float | None, typer.Option(help="What 95 % of the times to first token keep.")] = None,
    tpot_p95_ms: Annotated[float | None, typer.Option(help="What 95 % of the times per output token keep.")] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", "-g", metavar="NAME=PRICE", help="A GPU type and its price an hour; may be repeated."),
    ] = None,
    target: TargetOrProfiled = None,
    prompts: Annotated[
        str | None, typer.Option(metavar="FILE", help="Prompts of the one class, as advise takes them.")
    ] = None,
    structure: Annotated[
        list[str] | None, typer.Option(metavar="KIND=SHARE", help="Without prompts: code=0.7, chat=0.3, ...")
    ] = None,
    input_tokens: Annotated[float | None, typer.Option(help="Mean length of a prompt, in tokens.")] = None,
    input_tokens_p95: Annotated[float | None, typer.Option(help="95 % of the prompts are shorter.")] = None,
    output_tokens: Annotated[float | None, typer.Option(help="Mean length of an answer, in tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature, 0 to 2.")] = None,
    cached_prefix_share: Annotated[
        float | None, typer.Option(help="Share of prompt tokens that prefix caching serves.")
    ] = None,
    evidence: Annotated[
        str | None, typer.Option(metavar="FILE", help="Counts of a run with --method and -k, of such requests.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What specworth profile measured of such requests; fills in what is left out."
        ),
    ] = None,
    draft: Draft = None,
    method: Method = None,
    num_speculative_tokens: NumSpeculativeTokens = None,
    min_saving: Annotated[
        float | None, typer.Option(help="Share of the cost that speculation must save; 0.05 if not given.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Probability from which the plan is decisive; 0.8 if not given.")
    ] = None,
    min_replicas: Annotated[int | None, typer.Option(help="In every hour, whatever comes; 1 if not given.")] = None,
    tensor_parallel_size: TensorParallel = None,
    gpu_memory_utilization: GpuUtilization = None,
    max_model_len: MaxModelLen = None,
    max_num_seqs: MaxSeqs = None,
    max_num_batched_tokens: MaxBatchedTokens = None,
    kv_cache_dtype: KvCacheDtype = None,
    quantization: Quantization = None,
    engine_version: EngineVersion = None,
    json: AsJson = False,
    output: Output = None,
    report: Report = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw replicas over the hours; .svg or .png.")
    ] = None,
) -> Callable[[], int]:
    """How many replicas does a demand need under an SLO, what do they cost, and what does speculation save of that?

    \b
    A capacity review, with the example that the project ships:
      specworth plan data/example_plan.toml --demand data/example_demand.csv --chart plan.svg
    One class of requests, all day alike:
      specworth plan --target Qwen/Qwen3-8B --gpu H200=3.60 --gpu L40S=1.10 --request-rate 25
        --input-tokens 800 --output-tokens 250 --structure chat=1 --ttft-p95-ms 500 --tpot-p95-ms 40
    With your own prompts and curve, for a program:
      specworth plan --target Qwen/Qwen3-8B --gpu H200=3.60 --prompts prompts.jsonl --demand week.csv
        --ttft-p95-ms 500 --json
    With what specworth profile measured of them:
      specworth plan --profile profile.json --gpu H200=3.60 --request-rate 25 --ttft-p95-ms 500

    Each GPU type is planned without speculation and with the best of it. Times are predictions: of GPUs and methods
    that were never measured nothing is decisive. docs/plan.md has the input, the method and its limits.
    """
    options = dict(locals())

    def job() -> int:
        from api.commands.run_plan import run_plan

        return run_plan(options)

    return job
