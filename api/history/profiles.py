"""Profiles in the database: what `specworth profile` measured, kept once each, and used as evidence by its id.

A document that is there already is not kept again: its id is given instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, and_, delete, or_, select

from api.history.cursor import Cursor
from api.history.database import Database, insert_new
from api.history.record import ProfileRecord
from api.history.tables import profiles

_LISTED = [column for column in profiles.c if column.name != "document"]


@dataclass(frozen=True)
class ProfilePage:
    """Some profiles, newest first, and where the next page begins."""

    rows: list[RowMapping]
    following: Cursor | None


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


def page(database: Database, *, target: str | None, after: Cursor | None, limit: int) -> ProfilePage:
    """The newest `limit` profiles after a cursor."""
    query = select(*_LISTED)
    if target is not None:
        query = query.where(profiles.c.target == target)
    if after is not None:
        older = and_(profiles.c.created_at == after.created_at, profiles.c.id < after.id)
        query = query.where(or_(profiles.c.created_at < after.created_at, older))
    query = query.order_by(profiles.c.created_at.desc(), profiles.c.id.desc()).limit(limit + 1)
    with database.reading() as connection:
        rows = list(connection.execute(query).mappings())
    last = rows[limit - 1] if len(rows) > limit else None
    return ProfilePage(rows[:limit], None if last is None else Cursor(last["created_at"], last["id"]))


def remove(database: Database, key: str) -> bool:
    """Delete one profile; recommendations that rested on it stay, and no longer name it."""
    with database.writing() as connection:
        return connection.execute(delete(profiles).where(profiles.c.id == key)).rowcount > 0
