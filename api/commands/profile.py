"""`specworth profile`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from api.commands.output_options import Report

_LAUNCH, _ATTACH = "Servers that it starts", "Servers that run already"


def profile(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Prompts: JSON lines, JSON, CSV, Parquet or text, also gzip or zstd; - for standard input.",
        ),
    ],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Model to serve: a name or folder, as vLLM takes it.")
    ] = None,
    speculative_config: Annotated[
        str | None, typer.Option(metavar="JSON", help="vLLM's speculative config: the object, or a file that has it.")
    ] = None,
    serve_arguments: Annotated[
        str, typer.Option(metavar="WORDS", help="Further arguments of both servers, as one quoted text.")
    ] = "",
    speculative_arguments: Annotated[
        str, typer.Option(metavar="WORDS", help="Further arguments of the speculative server alone.")
    ] = "",
    python: Annotated[
        str | None,
        typer.Option(help="Interpreter that has vLLM, or the words that stand for `vllm serve` (a container)."),
    ] = None,
    co_resident: Annotated[bool, typer.Option("--co-resident", help="Both servers at once, half the memory each.")] = (
        False
    ),
    start_timeout: Annotated[float, typer.Option(min=1, help="Seconds that a server may take to start.")] = 900.0,
    baseline_url: Annotated[str | None, typer.Option(help="A running server without speculation.")] = None,
    speculative_url: Annotated[
        str | None, typer.Option(help="A running server with it; alone: acceptance only.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Which of the models that the running servers have.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds their API key.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=65_536, help="Requests at once; 16 if not given.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, max=2.0, help="Instead of the prompts' own sampling temperatures.")
    ] = None,
    also_temperature: Annotated[
        list[float] | None, typer.Option(min=0.0, max=2.0, help="Measured, too; may be given several times.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Longest answer, instead of the prompts' own.")
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            min=1.0,
            metavar="SECONDS",
            help="For each server; its start is not counted, and what is asked by then is still answered.",
        ),
    ] = 120.0,
    min_speedup: Annotated[float, typer.Option(min=0.1, max=100.0, help="Speedup from which it is worth it.")] = 1.05,
    confidence: Annotated[
        float, typer.Option(min=0.55, max=0.9999, help="Probability of the verdict at which the probe stops.")
    ] = 0.95,
    objective: Annotated[str, typer.Option(help="What decides: end_to_end or tpot.")] = "end_to_end",
    look_around: Annotated[bool, typer.Option(help="Spend what is left of the budget on other concurrencies.")] = True,
    gpu: Annotated[
        str | None, typer.Option("--gpu", "-g", help="For predicting where to look; as found here if not given.")
    ] = None,
    request_timeout: Annotated[float, typer.Option(min=1.0, help="Seconds that one answer may take.")] = 600.0,
    stall_timeout: Annotated[float, typer.Option(min=1.0, help="Seconds without a byte: the server hangs.")] = 120.0,
    format: Annotated[str | None, typer.Option(help="Read FILE as jsonl, csv, text, chat, ...")] = None,
    column: Annotated[str | None, typer.Option(help="Column of a CSV or Parquet file that holds the prompts.")] = None,
    sample_size: Annotated[int, typer.Option(min=1, max=100_000, help="Prompts to draw from FILE.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Seed of that draw and of the order.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.json", help="Where the profile goes.")] = Path(
        "profile.json"
    ),
    report: Report = None,
    log_folder: Annotated[
        Path | None, typer.Option(help="Where the servers' logs go; kept only on failure if not given.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the profile instead of a summary.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print JSON lines of what happens instead.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 10 for disable, 11 for not decisive.")
    ] = False,
) -> Callable[[], int]:
    """Measure speculation with the prompts in FILE on a real vLLM: a short probe without and one with it.

    \b
    Start vLLM twice, one after the other, on this host's GPU:
      specworth profile prompts.jsonl --target meta-llama/Llama-3.1-8B-Instruct --concurrency 16
        --speculative-config '{"method": "eagle3", "model": "...", "num_speculative_tokens": 3}'
        --serve-arguments "--max-model-len 8192" --python /opt/vllm/bin/python
    Servers that run already:
      specworth profile prompts.jsonl --baseline-url http://a:8000 --speculative-url http://b:8000
    Acceptance alone, of one server:
      specworth profile prompts.jsonl --speculative-url http://b:8000
    And then, with all that was measured:
      specworth advise prompts.jsonl --profile profile.json

    It stops as soon as the interval of the speedup excludes --min-speedup, or when the budget ends; what is left of the
    budget goes to other concurrencies. Each prompt is sent once to each server, so that no cache answers it: give
    several times as many prompts as requests at once.
    """
    options = dict(locals())

    def job() -> int:
        from api.commands.run_profile import run_profile

        return run_profile(options)

    return job
