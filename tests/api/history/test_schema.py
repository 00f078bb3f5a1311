"""Migrations on both databases: up, down, at once, and refused where they are not ours."""

from __future__ import annotations

import os
import stat
import threading
import time

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import URL, inspect, text

from api.history import schema
from api.history.database import Database, read_url
from api.history.errors import StorageError
from api.history.history import patiently
from api.history.tables import metadata
from profiler.errors import InputError


@pytest.fixture
def empty(database_url):
    """A database without tables."""
    opened = Database(read_url(database_url), wait_s=5.0)
    yield opened
    opened.close()


def tables(database):
    with database.reading() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_migrations_make_the_tables_that_the_code_uses(database):
    """Every column, index and key of `tables` is what the migrations made, and nothing else."""
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_up_and_down_and_up_again(empty):
    """`base` leaves no table of ours; the way up from there is whole again."""
    schema.upgrade(empty)
    assert schema.inspect(empty).current
    schema.downgrade(empty, "base")
    assert tables(empty) == set()
    assert not schema.inspect(empty).current
    schema.prepare(empty)
    assert tables(empty) == set(metadata.tables)


def test_several_that_start_at_once_migrate_once(database_url):
    """Eight services start on an empty database: none fails, and the tables are there."""
    failures = []

    def start():
        opened = Database(read_url(database_url), wait_s=5.0)
        try:
            patiently(lambda: schema.prepare(opened), until=time.monotonic() + 20)
        except Exception as error:
            failures.append(error)
        finally:
            opened.close()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    opened = Database(read_url(database_url), wait_s=5.0)
    assert schema.inspect(opened).current
    assert tables(opened) == set(metadata.tables)
    opened.close()


def test_a_migration_that_breaks_off_leaves_nothing(empty):
    """Tables are changed inside a transaction, in both databases."""

    def break_off():
        with empty.writing() as connection:
            connection.execute(text("CREATE TABLE half (a INTEGER)"))
            raise ZeroDivisionError

    schema.upgrade(empty)
    schema.downgrade(empty, "base")
    with pytest.raises(ZeroDivisionError):
        break_off()
    assert tables(empty) == set()


def test_a_database_of_a_newer_version_is_refused(database):
    """Its revision is told, and what to do."""
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StorageError, match="newer specworth") as caught:
        schema.prepare(database)
    assert "9999" in str(caught.value)


def test_an_unknown_revision_is_wrong_input(database):
    """One line, and the tables stay."""
    with pytest.raises(InputError, match="nope"):
        schema.downgrade(database, "nope")
    assert schema.inspect(database).current


def test_the_file_is_for_its_owner_alone(tmp_path):
    """Nobody else on the machine reads what others asked."""
    path = tmp_path / "new" / "history.sqlite3"
    opened = Database(read_url(f"sqlite:///{path}"))
    schema.prepare(opened)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    with opened.reading() as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 2]  # 2 is FULL
    opened.close()


@pytest.mark.parametrize("name", ["a b", "50%25", "q?mode=memory", "h#ash", "ü&=+"])
def test_a_folder_may_have_any_name(tmp_path, name):
    """Characters that mean something in a URI are part of the path, and the file is there."""
    path = tmp_path / name / "h.sqlite3"
    opened = Database(URL.create("sqlite", database=str(path)))
    schema.prepare(opened)
    assert path.stat().st_size > 0
    assert schema.inspect(opened).current
    opened.close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    """With both ways out: another place, or keeping nothing."""
    (tmp_path / "taken").write_text("a file")
    opened = Database(read_url(f"sqlite:///{tmp_path / 'taken' / 'history.sqlite3'}"))
    with pytest.raises(StorageError, match="SPECWORTH_STORE=false"):
        schema.prepare(opened)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://u:secret@h/d",
        "postgresql://h",
        "http://x",
        "",
        "sqlite:////tmp/h?mode=ro",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(text):
    """The message names the setting and both forms, never a password."""
    with pytest.raises(InputError, match="SPECWORTH_DATABASE_URL") as caught:
        read_url(text)
    assert "sqlite:////" in str(caught.value)
    assert "secret" not in str(caught.value)
