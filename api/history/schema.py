"""Is the database of the version that this code reads? Migrations up and down, by Alembic, under one lock.

A service brings its database up to date when it starts; of several that start at once, one does it and the others wait.
A database of a newer specworth is refused: its columns are not ours to guess. SQLite and PostgreSQL both change their
tables inside a transaction, so a migration that is broken off leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from api.history.database import Database
from api.history.errors import StorageError
from profiler.errors import InputError

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 7_301_773_102  # any number that nothing else in that PostgreSQL database locks


@dataclass(frozen=True)
class SchemaState:
    """Which revision a database has, and which this code wants; None: no tables of ours yet."""

    found: str | None
    wanted: str

    @property
    def current(self) -> bool:
        """Nothing to migrate."""
        return self.found == self.wanted


def prepare(database: Database) -> None:
    """Make the file where there is none, and bring its tables up to date. Raises StorageError, UnavailableError."""
    _make_file(database)
    if not inspect(database).current:
        upgrade(database)


def inspect(database: Database) -> SchemaState:
    """Compare the database's revision with ours; StorageError where it is of a newer specworth."""
    wanted, known = _revisions()
    with database.reading() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in known:
        raise StorageError(
            f"the database {database} was made by a newer specworth", expected=f"revision {wanted} or an older one",
            got=found, remedy="install that version, or name another database with SPECWORTH_DATABASE_URL",
        )  # fmt: skip
    return SchemaState(found, wanted)


@cache
def _revisions() -> tuple[str, frozenset[str]]:
    """The newest revision, and all: read once, since readiness and idle workers ask every few seconds."""
    scripts = ScriptDirectory(str(_FOLDER))
    wanted = scripts.get_current_head()
    assert wanted is not None
    return wanted, frozenset(script.revision for script in scripts.walk_revisions())


def upgrade(database: Database, revision: str = "head") -> None:
    """Migrate forward; does nothing where the database is there already."""
    _make_file(database)
    _migrate(database, revision, forward=True)


def downgrade(database: Database, revision: str) -> None:
    """Migrate back, to `base` for no tables at all: what the younger tables held is lost."""
    _migrate(database, revision, forward=False)


def _migrate(database: Database, revision: str, *, forward: bool) -> None:
    with database.writing() as connection:
        _lock(connection)
        config = Config()
        config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
        config.attributes["connection"] = connection
        try:
            (command.upgrade if forward else command.downgrade)(config, revision)
        except CommandError as error:
            raise InputError(
                "the database cannot be migrated so", expected="a revision of `specworth database status`, or base",
                got=str(error).rstrip("."),
            ) from None  # fmt: skip


def _lock(connection: Connection) -> None:
    """One migration at a time; SQLite's writing transactions exclude each other anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _make_file(database: Database) -> None:
    """SQLite's file, for this user alone, and on the disk before anything is promised."""
    path = database.path
    if path is None or path.exists():
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageError(
            f"the database {path} cannot be made", got=(error.strerror or str(error)).lower(),
            remedy="name another place with SPECWORTH_DATABASE_URL, or keep nothing with SPECWORTH_STORE=false",
        ) from None  # fmt: skip
