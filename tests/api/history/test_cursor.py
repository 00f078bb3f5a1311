"""Cursors: what we gave comes back, anything else is refused."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.history.cursor import Cursor, decode
from profiler.errors import InputError


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31)), st.text("0123456789abcdef", min_size=1, max_size=32))
def test_a_cursor_comes_back_as_it_was(moment, key):
    """To the microsecond."""
    cursor = Cursor(moment.replace(tzinfo=UTC), key)
    assert decode(cursor.encode()) == cursor


@given(st.text(max_size=60))
def test_any_text_is_a_cursor_or_wrong_input(text):
    """Never another error."""
    with contextlib.suppress(InputError):
        assert isinstance(decode(text), Cursor)


@pytest.mark.parametrize("text", ["x", "====", "MTIz", "MTIzLic7", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OS5hYg"])
def test_what_is_none_is_refused(text):
    """With the way out."""
    with pytest.raises(InputError, match="next_cursor"):
        decode(text)
