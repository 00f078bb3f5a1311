"""Differences of two documents: by path, with lists matched by what their items are called."""

from __future__ import annotations

import pytest

from api.history.difference import Change, differences


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [Change("a", 1, 2)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, [Change("a.c", 2, None)]),
        ({}, {"a": {"b": 1}}, [Change("a", None, {"b": 1})]),
        ({"a": True}, {"a": 1}, [Change("a", True, 1)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [Change("a", [1, 2], [1, 3])]),
        (
            {"curve": [{"concurrency": 1, "x": 1}, {"concurrency": 4, "x": 2}]},
            {"curve": [{"concurrency": 1, "x": 1}, {"concurrency": 2, "x": 9}, {"concurrency": 4, "x": 3}]},
            [Change("curve[4].x", 2, 3), Change("curve[2]", None, {"concurrency": 2, "x": 9})],
        ),
        (
            {"reasons": [{"factor": "a", "effect": 1}, {"factor": "b", "effect": 2}]},
            {"reasons": [{"factor": "b", "effect": 2}, {"factor": "a", "effect": 1}]},
            [],
        ),
        ({"w": []}, {"w": [{"code": "few", "text": "t"}]}, [Change("w[few]", None, {"code": "few", "text": "t"})]),
        (
            {"w": [{"code": "x", "text": "1"}, {"code": "x", "text": "2"}]},
            {"w": [{"code": "x", "text": "1"}]},
            [Change("w", [{"code": "x", "text": "1"}, {"code": "x", "text": "2"}], [{"code": "x", "text": "1"}])],
        ),
    ],
)
def test_members_that_differ_are_told_by_their_path(before, after, expected):
    """And nothing else is."""
    assert differences(before, after) == expected
