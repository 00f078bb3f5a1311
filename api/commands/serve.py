"""`specworth serve`: what it takes. The start itself is in `run_serve`, imported only when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; 127.0.0.1 (this machine alone) if not given.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 8000 if not given, 0 takes a free one.")] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="Where recommendations are kept: sqlite:////path or postgresql://...; a file of yours if not given."
        ),
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys/--no-keys", help="Ask for API keys; --no-keys does not although there are some.")
    ] = True,
    store: Annotated[bool, typer.Option("--store/--no-store", help="Keep recommendations and profiles.")] = True,
    processes: Annotated[
        int | None, typer.Option(help="Processes that answer, each on a core of its own; 1 if not given.")
    ] = None,
) -> Callable[[], int]:
    """Answer POST /v1/recommendations over HTTP. Its documentation is then at /docs and /openapi.json.

    \b
      specworth serve
      curl -s localhost:8000/v1/recommendations -H 'content-type: application/json' -d '{
        "prompts": ["Write a haiku."], "traffic": {"concurrency": 4},
        "deployment": {"target": "Qwen/Qwen3-8B", "gpu": "H200"}}'

    \b
    API keys: on 127.0.0.1 nobody needs one until SPECWORTH_API_KEYS_FILE names some (specworth keys new); on any
    other address the service does not start without. --no-keys turns them off, on loopback only.
    Every setting is also a variable: SPECWORTH_PORT, SPECWORTH_DATABASE_URL, SPECWORTH_MAX_BODY_BYTES=64MiB, ...
    """

    def job() -> int:
        from api.commands.run_serve import run_serve

        return run_serve(host=host, port=port, database=database, keys=keys, store=store, processes=processes)

    return job
