"""Migrate the database of the history, or say how it stands."""

from __future__ import annotations

from api.history import schema
from api.history.database import Database, open_database
from api.settings import load_settings


def _open(url: str | None) -> Database:
    settings = load_settings(database_url=url)
    return open_database(settings.database_url, wait_s=settings.database_wait_s)


def run_status(url: str | None) -> int:
    """Print both revisions; 1 where they differ."""
    database = _open(url)
    state = schema.inspect(database)
    print(f"{database}: tables {state.found or 'none'}, wanted {state.wanted}")
    return 0 if state.current else 1


def run_upgrade(revision: str, url: str | None) -> int:
    """Migrate forward."""
    database = _open(url)
    schema.upgrade(database, revision)
    print(f"{database}: tables {schema.inspect(database).found or 'none'}")
    return 0


def run_downgrade(revision: str, url: str | None) -> int:
    """Migrate back."""
    database = _open(url)
    schema.downgrade(database, revision)
    print(f"{database}: tables {schema.inspect(database).found or 'none'}")
    return 0
