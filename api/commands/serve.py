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
        _check_address(settings.host, settings.port)
        for name in unknown_settings():
            print(f"specworth: ignored {name}: no such setting", file=sys.stderr)
        # A string, so that the application is imported by the server and not by the command line.
        uvicorn.run("api.app:create_app", factory=True, host=settings.host, port=settings.port, log_level="info")
        return 0

    return job


def _check_address(host: str, port: int) -> None:
    """Raise SpecworthError where nothing can listen there: uvicorn would log it amid its own start and exit with 3."""
    import socket

    from profiler.errors import InputError, SpecworthError

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host: {host!r} is no address of this machine", expected="a name or address to listen on",
            got=str(getattr(error, "strerror", None) or error),
        ) from None  # fmt: skip
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does: a port in TIME_WAIT is free
        try:
            probe.bind(address)
        except OSError as error:
            raise SpecworthError(
                f"cannot listen on {host} port {port}", got=(error.strerror or str(error)).lower(),
                remedy="choose another with --port (0 takes a free one), or stop what listens there",
            ) from None  # fmt: skip
