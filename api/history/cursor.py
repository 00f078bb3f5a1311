"""Where does the next page begin? After the last row of this one, by its moment and id, so that new rows shift nothing.

A cursor is opaque to clients. One that was not given by us is refused; what it points to may have been deleted since.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from profiler.errors import InputError

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
