"""`specworth gate`: what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from api.commands.output_options import AsJson


def gate(
    policy: Annotated[Path, typer.Option(metavar="POLICY.toml", help="The rules; docs/gate.md has them all.")],
    recommendation: Annotated[
        str | None, typer.Option(metavar="FILE", help="What specworth advise --json printed; - for standard input.")
    ] = None,
    profile: Annotated[Path | None, typer.Option(metavar="FILE", help="What specworth profile measured.")] = None,
    control: Annotated[str | None, typer.Option(metavar="URL", help="A live vLLM without speculation, and")] = None,
    canary: Annotated[str | None, typer.Option(metavar="URL", help="one with it, under the same traffic.")] = None,
    window: Annotated[
        str | None, typer.Option(metavar="TIME", help="Longest that both are watched: 60s, 10m, 1h; 10m if not given.")
    ] = None,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Time between two looks; 5s if not given.")] = None,
    model: Annotated[str | None, typer.Option(help="Which of several models that both serve.")] = None,
    method: Annotated[
        str | None, typer.Option(help="How the canary speculates: /metrics does not tell, the rule methods asks.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds the servers' API key.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE.xml", help="Write JUnit XML, one case a rule.")] = None,
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE.md", help="Write a Markdown summary; GITHUB_STEP_SUMMARY is honoured anyway."),
    ] = None,
    json: AsJson = False,
) -> Callable[[], int]:
    """May speculation be rolled out? Judges a policy's rules: pass, fail or not yet, each with its figure.

    \b
    Exits with 0 for pass, 20 for fail and 21 for not yet; 2 is wrong input, 1 a failure of the gate itself.
    On a recommendation, straight from advise:
      specworth advise prompts.jsonl --target Qwen/Qwen3-8B --gpu L40S --json |
        specworth gate --policy policy.toml --recommendation -
    On what was measured, for a CI system:
      specworth gate --policy policy.toml --profile profile.json --junit gate.xml --summary gate.md
    On two live servers behind one router, until it is decided, for 10 minutes at most:
      specworth gate --policy policy.toml --control http://10.0.0.7:8000 --canary http://10.0.0.8:8000 --method eagle3

    \b
    A policy:
      confidence = 0.95
      [rules]
      min_speedup = 1.10
      max_ttft_p95_regression = 0.10
      min_kv_headroom = 0.10
      max_age = "14d"
      methods = ["eagle3", "ngram"]
    """
    options = dict(locals())

    def job() -> int:
        from api.commands.run_gate import run_gate

        return run_gate(options)

    return job
