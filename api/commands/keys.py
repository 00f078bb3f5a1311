"""`specworth keys`: make API keys for the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from api.commands.group import Group

app = typer.Typer(name="keys", cls=Group, help="API keys of the service.", rich_markup_mode=None)


@app.callback()
def _keys() -> None:
    """API keys of the service."""


@app.command("new", short_help="Make a key, and the entry to keep of it.")
def new(
    name: Annotated[str, typer.Argument(help="Who it is for: small letters, digits and -.")],
    scope: Annotated[list[str], typer.Option("--scope", help="advise, read, profile or admin; give it once for each.")],
    expires: Annotated[str | None, typer.Option(help="First day on which it is refused, like 2027-06-30.")] = None,
    rate_limit: Annotated[str | None, typer.Option(help="Like 60/minute; the service's if not given.")] = None,
) -> Callable[[], int]:
    """Make an API key: the key goes to standard error, once; its entry for the keys file to standard output.

    \b
      specworth keys new ci --scope advise --scope read >> keys.yaml
      SPECWORTH_API_KEYS_FILE=keys.yaml specworth serve
      curl -H 'Authorization: Bearer specworth_ci_...' localhost:8000/v1/recommendations

    \b
    advise asks (and labels), read lists what was asked, profile measures and brings profiles in,
    admin may do all, and delete.
    """

    def job() -> int:
        from api.commands.run_keys import run_new

        return run_new(name, scopes=scope, expires=expires, rate_limit=rate_limit)

    return job
