"""`specworth observe`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def observe(
    url: Annotated[str, typer.Argument(metavar="URL", help="A running vLLM server, such as http://127.0.0.1:8000.")],
    window: Annotated[str, typer.Option("--for", metavar="TIME", help="How long to watch: 60s, 5m, 1h.")] = "60s",
    every: Annotated[str, typer.Option(metavar="TIME", help="Time between two readings.")] = "1s",
    model: Annotated[str | None, typer.Option(help="Which of several served models.")] = None,
    method: Annotated[
        str | None, typer.Option(help="How the server speculates, if you know: /metrics does not tell.")
    ] = None,
    num_speculative_tokens: Annotated[
        int | None, typer.Option("--num-speculative-tokens", "-k", min=1, help="Its k; only vLLM before 0.7 needs it.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds the server's API key.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.json", help="Save it, for advise --traffic.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what --out saves instead.")] = False,
) -> Callable[[], int]:
    """What is a live server doing? Reads its /metrics for a while; sends no requests of its own.

    \b
    Watch a minute, then ask for a verdict under the traffic that was seen:
      specworth observe http://127.0.0.1:8000 --out observed.json
      specworth advise prompts.jsonl --target Qwen/Qwen3-8B --gpu L40S --traffic observed.json
    A server that speculates, one of several models:
      specworth observe 10.0.0.7:8000 --for 5m --model Qwen/Qwen3-8B --method eagle3 --out observed.json

    Rates, running requests, lengths, latencies, KV cache, prefix cache, and acceptance where it speculates. Ctrl-C ends
    the window early.
    """
    options = dict(locals())

    def job() -> int:
        from api.commands.run_observe import run_observe

        return run_observe(options)

    return job
