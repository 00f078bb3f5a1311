"""Where is what was answered kept, and when is it safe there?

SQLite in one file by default, PostgreSQL by URL; the same tables and the same rules for both.

**A commit is a promise.** SQLite writes ahead (WAL) with synchronous=FULL: the log is on the disk before a commit
returns. NORMAL would be 4 ms faster here, and lose the last commits when power fails. PostgreSQL's synchronous_commit
is put on where somebody turned it off. Neither helps against a disk that lies, or a server run with fsync=off.

**A file that went away is noticed.** SQLite would go on writing into a file that was deleted or replaced under it, and
every such commit would be lost in silence; so a transaction is checked against the path before it starts and before it
counts as done, and no missing file is made anew behind a running service.

**Deleted is deleted.** SQLite overwrites what is deleted (secure_delete), and its log is emptied after a deletion.
PostgreSQL hides a deleted row at once and frees its space with the next (auto)vacuum. Backups are the operator's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from api.history.errors import StorageError, UnavailableError
from profiler.errors import InputError

_BUSY_MS = 250  # SQLite's own wait for a lock; the caller asks again until its time is up
_WRITING = "specworth_writing"


def default_url() -> str:
    """The SQLite file of this user: $XDG_DATA_HOME/specworth/history.sqlite3, else under ~/.local/share."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return f"sqlite:///{Path(home).expanduser() / 'specworth' / 'history.sqlite3'}"


def read_url(text: str) -> URL:
    """A database URL that can be used; raises InputError without repeating what may hold a password."""
    expected = "sqlite:////path/to/file.sqlite3 or postgresql://user:password@host/database"
    field = "SPECWORTH_DATABASE_URL"
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InputError(f"{field} is no database URL", expected=expected, got="something else", field=field) from None
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database not in (None, "", ":memory:") and not url.query:
        return url.set(drivername="sqlite")
    if kind in ("postgresql", "postgres") and url.database:
        return url.set(drivername="postgresql+psycopg")
    got = repr(url.render_as_string(hide_password=True)[:120])
    raise InputError(f"{field} cannot be used", expected=expected, got=got, field=field)


def open_database(url: str | None, *, wait_s: float) -> Database:
    """The database at a URL, this user's file where there is none. Raises InputError, StorageError."""
    return Database(read_url(url or default_url()), wait_s=wait_s)


class Database:
    """One database, its connections, and transactions that raise our errors."""

    def __init__(self, url: URL, *, wait_s: float = 5.0, connections: int = 4) -> None:
        """wait_s bounds what the database's own client waits for: a connection, a lock, a statement."""
        self.url = url
        self.path = Path(url.database).absolute() if url.get_backend_name() == "sqlite" and url.database else None
        self._wait_s = wait_s
        pool: dict[str, Any] = {
            "pool_size": connections, "max_overflow": 0, "pool_timeout": wait_s, "pool_pre_ping": self.path is None,
        }  # fmt: skip
        try:
            self.engine = _sqlite(self.path, pool) if self.path else _postgresql(url, wait_s, pool)
        except (ImportError, NoSuchModuleError):
            raise StorageError(
                "the driver for PostgreSQL is not installed", remedy="pip install 'specworth[postgresql]'"
            ) from None

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with self._transaction(self.engine) as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that has the right to write from its start; on the disk once this returns."""
        with self._transaction(self.engine.execution_options(**{_WRITING: True})) as connection:
            yield connection

    def wipe_deleted(self) -> None:
        """Leave nothing of what was deleted in SQLite's log; PostgreSQL cleans up by itself."""
        if self.path is not None:
            with self._translated(), self.engine.connect() as connection:
                raw = connection.connection.driver_connection
                assert raw is not None
                busy, *_ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    raise UnavailableError("the deletion is done, but its trace in the log of the database is in use")

    def close(self) -> None:
        """Close every connection that nobody uses."""
        self.engine.dispose()

    @contextlib.contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        with self._translated():
            self._check_file(None)
            with engine.begin() as connection:
                opened = connection.info.get("file")
                self._check_file(opened)
                yield connection
            self._check_file(opened)

    def _check_file(self, opened: tuple[int, int] | None) -> None:
        """Raise UnavailableError where the path does not lead to the file that a connection has open."""
        if self.path is None:
            return
        try:
            found = os.stat(self.path)
        except OSError as error:
            self.engine.dispose()
            reason = (error.strerror or str(error)).lower()
            raise UnavailableError("the database's file is away", got=reason) from None
        if opened is not None and opened != (found.st_dev, found.st_ino):
            self.engine.dispose()
            raise UnavailableError("the database's file was replaced while the service ran")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLAlchemy's errors as ours; what says that our own statements are wrong comes through as it is."""
        try:
            yield
        except IntegrityError:
            raise
        except (OperationalError, InterfaceError, InternalError, PoolTimeoutError) as error:
            raise UnavailableError("the database does not answer", got=_reason(error)) from error
        except DBAPIError as error:
            if error.connection_invalidated or "malformed" in str(error.orig) or "not a database" in str(error.orig):
                raise UnavailableError("the database does not answer", got=_reason(error)) from error
            raise


def insert_new(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insert that leaves a row alone whose key is there."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _reason(error: Exception) -> str:
    """What the driver says, in its first line; statements and their values are never part of it."""
    told = str(getattr(error, "orig", None) or "no connection became free").strip()
    return told.splitlines()[0][:200] if told else type(error).__name__


def _sqlite(path: Path, pool: dict[str, Any]) -> Engine:
    # mode=rw: a file that is missing is an error here; `prepare` alone makes one.
    url = URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"})
    engine = create_engine(url, connect_args={"timeout": _BUSY_MS / 1000, "check_same_thread": False}, **pool)

    @event.listens_for(engine, "connect")
    def _opened(connection: Any, record: Any) -> None:  # noqa: ANN401  # drivers' own types
        connection.isolation_level = None  # transactions begin below, not where the driver guesses
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")
        found = os.stat(path)
        record.info["file"] = (found.st_dev, found.st_ino)

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A transaction that reads first and then writes could be refused without any wait, so writers lock at once.
        writing = connection.get_execution_options().get(_WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _postgresql(url: URL, wait_s: float, pool: dict[str, Any]) -> Engine:
    wait_ms = max(1, round(wait_s * 1000))
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(wait_s)),  # libpq takes whole seconds, 2 at least
        "prepare_threshold": None,  # named statements do not survive poolers such as PgBouncer
        # A host that vanished without a word is noticed by the kernel.
        "tcp_user_timeout": wait_ms, "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2,
        "keepalives_count": 3, "application_name": "specworth",
    }  # fmt: skip
    given = {name: value for name, value in arguments.items() if name not in url.query}
    engine = create_engine(url, connect_args=given, pool_recycle=1800, **pool)

    @event.listens_for(engine, "connect")
    def _opened(connection: Any, _: Any) -> None:  # noqa: ANN401
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {wait_ms}")
            cursor.execute(f"SET statement_timeout = {wait_ms}")
            cursor.execute("SHOW synchronous_commit")
            if cursor.fetchone()[0] == "off":
                cursor.execute("SET synchronous_commit = on")
        connection.commit()

    return engine
