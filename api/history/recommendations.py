"""Recommendations in the database: kept, found again, labelled, deleted.

Functions of a database and plain values, each one transaction; they may be run again after a failure of which nobody
knows whether it came before or after the commit, and then do nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, Select, delete, insert, select, update

from api.history import profiles as stored_profiles
from api.history.cursor import Cursor, Page, read_page
from api.history.database import Database, insert_new
from api.history.errors import UnavailableError
from api.history.idempotency import Idempotency
from api.history.record import Record
from api.history.tables import labels, profiles, recommendations

_DOCUMENTS = ("prompts", "request", "answer")
_LISTED = [column for column in recommendations.c if column.name not in _DOCUMENTS]


@dataclass(frozen=True)
class Filter:
    """Which recommendations; what is None or empty does not restrict."""

    target: str | None = None
    verdict: Literal["enable", "disable"] | None = None
    labels: tuple[str, ...] = ()
    created_from: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True)
class Row:
    """One row with its labels; without the documents where it was listed."""

    values: RowMapping
    labels: tuple[str, ...]


def answered(database: Database, idempotency: Idempotency) -> str | None:
    """The answer that a key led to before, None where it did not. Raises KeyReusedError for another request's key."""
    with database.reading() as connection:
        return _answered(connection, idempotency)


def _answered(connection: Connection, idempotency: Idempotency) -> str | None:
    table = recommendations.c
    query = select(table.id, table.request_sha256, table.answer).where(table.idempotency == idempotency.key_sha256)
    row = connection.execute(query).first()
    if row is None:
        return None
    idempotency.check(row.request_sha256, what=f"recommendation {row.id}")
    answer: str = row.answer
    return answer


def keep(database: Database, record: Record) -> str | None:
    """Put one recommendation into the database; on the disk once this returns. Does nothing where it is there.

    None where it was kept; where another request came first with the same Idempotency-Key, the answer to that one.
    Raises KeyReusedError where that one asked something else.
    """
    with database.writing() as connection:
        values = record.values
        if record.profile is not None:
            values = values | {"profile_id": stored_profiles.keep_in(connection, record.profile)}
        elif values["profile_id"] is not None:  # it may have been deleted since it was read
            held = select(profiles.c.id).where(profiles.c.id == values["profile_id"]).with_for_update(read=True)
            values = values | {"profile_id": connection.execute(held).scalar()}
        connection.execute(insert_new(connection, recommendations).values(values))
        if record.idempotency is not None:
            mine = select(recommendations.c.id).where(recommendations.c.id == record.id)
            if connection.execute(mine).first() is None:
                earlier = _answered(connection, record.idempotency)
                if earlier is None:  # it was deleted between two statements: asked once more, this one is kept
                    raise UnavailableError("the answer with this Idempotency-Key was deleted just now")
                return earlier
        if record.labels:
            rows = [{"recommendation_id": record.id, "label": label} for label in record.labels]
            connection.execute(insert_new(connection, labels), rows)
    return None


def page(database: Database, where: Filter, *, after: Cursor | None, limit: int) -> Page[Row]:
    """The newest `limit` rows after a cursor."""
    query = _filtered(select(*_LISTED), where)
    with database.reading() as connection:
        found = read_page(connection, query, recommendations, after=after, limit=limit)
        named = _labels(connection, [row["id"] for row in found.rows])
    return Page([Row(row, named.get(row["id"], ())) for row in found.rows], found.following)


def _filtered(query: Select[Any], where: Filter) -> Select[Any]:
    table = recommendations.c
    if where.target is not None:
        query = query.where(table.target == where.target)
    if where.verdict is not None:
        query = query.where(table.verdict == where.verdict)
    if where.created_from is not None:
        query = query.where(table.created_at >= where.created_from)
    if where.created_before is not None:
        query = query.where(table.created_at < where.created_before)
    for label in where.labels:
        having = select(labels.c.recommendation_id).where(labels.c.label == label)
        query = query.where(table.id.in_(having))
    return query


def _labels(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    query = select(labels).where(labels.c.recommendation_id.in_(ids)).order_by(labels.c.label)
    found: dict[str, tuple[str, ...]] = {}
    for row in connection.execute(query):
        found[row.recommendation_id] = (*found.get(row.recommendation_id, ()), row.label)
    return found


def find(database: Database, key: str) -> Row | None:
    """One recommendation with its documents; None where none has that id."""
    with database.reading() as connection:
        row = connection.execute(select(recommendations).where(recommendations.c.id == key)).mappings().first()
        return None if row is None else Row(row, _labels(connection, [key]).get(key, ()))


def change(database: Database, key: str, *, named: Sequence[str] | None, note: str | None) -> Row | None:
    """Replace the labels, the note or both; None where no recommendation has that id."""
    with database.writing() as connection:
        of_key = recommendations.c.id == key
        if connection.execute(select(recommendations.c.id).where(of_key)).first() is None:
            return None
        if note is not None:
            connection.execute(update(recommendations).where(of_key).values(note=note))
        if named is not None:
            connection.execute(delete(labels).where(labels.c.recommendation_id == key))
            if named:
                connection.execute(insert(labels), [{"recommendation_id": key, "label": label} for label in named])
        row = connection.execute(select(*_LISTED).where(of_key)).mappings().one()
        return Row(row, _labels(connection, [key]).get(key, ()))


def remove(database: Database, key: str) -> bool:
    """Delete one recommendation, its labels and its prompts; False where none has that id."""
    with database.writing() as connection:
        return connection.execute(delete(recommendations).where(recommendations.c.id == key)).rowcount > 0
