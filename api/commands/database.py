"""`specworth database`: the tables of the service's history, up and down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from api.commands.group import Group

app = typer.Typer(name="database", cls=Group, help="The database of the service's history.", rich_markup_mode=None)
Url = Annotated[
    str | None, typer.Option("--database", help="Its URL; SPECWORTH_DATABASE_URL or a file of yours if not given.")
]


@app.callback()
def _database() -> None:
    """The database of the service's history."""


@app.command("status", short_help="Which version its tables have, and which is wanted.")
def status(database: Url = None) -> Callable[[], int]:
    """Say which version the tables have; exit code 0 where it is the wanted one, 1 where it is not."""

    def job() -> int:
        from api.commands.run_database import run_status

        return run_status(database)

    return job


@app.command("upgrade", short_help="Bring its tables up to date; the service does it when it starts.")
def upgrade(
    revision: Annotated[str, typer.Argument(help="How far; the newest if not given.")] = "head", database: Url = None
) -> Callable[[], int]:
    """Bring the tables up to date. A service does the same when it starts."""

    def job() -> int:
        from api.commands.run_database import run_upgrade

        return run_upgrade(revision, database)

    return job


@app.command("downgrade", short_help="Take its tables back to an older version.")
def downgrade(
    revision: Annotated[str, typer.Argument(help="How far back; base leaves no table, and nothing of the history.")],
    database: Url = None,
) -> Callable[[], int]:
    """Take the tables back to an older version, for an older specworth. What younger tables held is lost."""

    def job() -> int:
        from api.commands.run_database import run_downgrade

        return run_downgrade(revision, database)

    return job
