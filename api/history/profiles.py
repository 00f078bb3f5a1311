"""Profiles in the database: what `specworth profile` measured, kept once each, and used as evidence by its id.

A document that is there already is not kept again: its id is given instead.
"""

from __future__ import annotations

from sqlalchemy import Connection, RowMapping, delete, select

from api.history.cursor import Cursor, Page, read_page
from api.history.database import Database, insert_new
from api.history.record import ProfileRecord
from api.history.tables import profiles

_LISTED = [column for column in profiles.c if column.name != "document"]


def keep(database: Database, record: ProfileRecord) -> RowMapping:
    """Put one profile into the database; the row that holds it, which may be older."""
    with database.writing() as connection:
        key = keep_in(connection, record)
        return connection.execute(select(*_LISTED).where(profiles.c.id == key)).mappings().one()


def keep_in(connection: Connection, record: ProfileRecord) -> str:
    """The same inside a transaction; the id under which the document stands."""
    connection.execute(insert_new(connection, profiles).values(record.values))
    key: str = connection.execute(select(profiles.c.id).where(profiles.c.sha256 == record.sha256)).scalar_one()
    return key


def find(database: Database, key: str) -> RowMapping | None:
    """One profile with its document; None where none has that id."""
    with database.reading() as connection:
        return connection.execute(select(profiles).where(profiles.c.id == key)).mappings().first()


def document(database: Database, key: str) -> str | None:
    """The profile itself, as it came; None where none has that id."""
    row = find(database, key)
    return None if row is None else str(row["document"])


def page(database: Database, *, target: str | None, after: Cursor | None, limit: int) -> Page[RowMapping]:
    """The newest `limit` profiles after a cursor."""
    query = select(*_LISTED)
    if target is not None:
        query = query.where(profiles.c.target == target)
    with database.reading() as connection:
        return read_page(connection, query, profiles, after=after, limit=limit)


def remove(database: Database, key: str) -> bool:
    """Delete one profile; recommendations that rested on it stay, and no longer name it."""
    with database.writing() as connection:
        return connection.execute(delete(profiles).where(profiles.c.id == key)).rowcount > 0
