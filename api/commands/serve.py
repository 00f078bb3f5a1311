"""`specworth serve`: what it takes, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; 127.0.0.1 (this machine alone) if not given.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 8000 if not given, 0 takes a free one.")] = None,
) -> Callable[[], int]:
    """Answer POST /v1/recommendations over HTTP. Its documentation is then at /docs and /openapi.json.

    \b
      specworth serve
      curl -s localhost:8000/v1/recommendations -H 'content-type: application/json' -d '{
        "prompts": ["Write a haiku."], "traffic": {"concurrency": 4},
        "deployment": {"target": "Qwen/Qwen3-8B", "gpu": "H200"}}'

    \b
    Limits are settings (environment): SPECWORTH_MAX_BODY_BYTES=64MiB, SPECWORTH_MAX_PROMPTS=20000, ...
    Whoever reaches the port can ask: there is no authentication, so leave it on this machine or behind a proxy.
    """

    def job() -> int:
        import sys

        import uvicorn

        from api.settings import load_settings, unknown_settings

        settings = load_settings(host=host, port=port)
        for name in unknown_settings():
            print(f"specworth: ignored {name}: no such setting", file=sys.stderr)
        # A string, so that the application is imported by the server and not by the command line.
        uvicorn.run("api.app:create_app", factory=True, host=settings.host, port=settings.port, log_level="info")
        return 0

    return job
