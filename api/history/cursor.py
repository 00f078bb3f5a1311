"""Which rows are on a page, and where does the next one begin?

A page begins after the last row of the one before, by its moment and id, so that new rows shift nothing.

A cursor is opaque to clients. One that was not given by us is refused; what it points to may have been deleted since.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, RowMapping, Select, Table, and_, or_

from profiler.errors import InputError

R = TypeVar("R")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Cursor:
    """The last row of a page, newest first."""

    created_at: datetime
    id: str

    def encode(self) -> str:
        """As it stands in an answer and in the next request."""
        microseconds = (self.created_at - _EPOCH) // timedelta(microseconds=1)
        return base64.urlsafe_b64encode(f"{microseconds}.{self.id}".encode()).decode().rstrip("=")


@dataclass(frozen=True)
class Page(Generic[R]):
    """Some rows, newest first, and where the next page begins; None at the end."""

    rows: list[R]
    following: Cursor | None


def read_page(
    connection: Connection, query: Select[Any], table: Table, *, after: Cursor | None, limit: int
) -> Page[RowMapping]:
    """The newest `limit` rows of a query after a cursor; the table is the one whose `created_at` and `id` order it."""
    moment, key = table.c.created_at, table.c.id
    if after is not None:
        older = and_(moment == after.created_at, key < after.id)
        query = query.where(or_(moment < after.created_at, older))
    query = query.order_by(moment.desc(), key.desc()).limit(limit + 1)
    rows = list(connection.execute(query).mappings())
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(rows[:limit], None if last is None else Cursor(last["created_at"], last["id"]))


def decode(text: str) -> Cursor:
    """The cursor that was given; raises InputError for anything else."""
    try:
        told = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        microseconds, _, row = told.partition(".")
        if not row.isalnum() or not microseconds.isdecimal():
            raise ValueError(told)
        return Cursor(_EPOCH + timedelta(microseconds=int(microseconds)), row)
    except (ValueError, OverflowError, binascii.Error):
        raise InputError(
            "the cursor is none of ours", expected="next_cursor of an earlier page, as it was", got=repr(text[:40]),
            field="query.cursor", remedy="leave it out to begin anew",
        ) from None  # fmt: skip
