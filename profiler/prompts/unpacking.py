"""Records inside one JSON value: dictionaries of columns, lists under a key, one conversation as an array."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from profiler.prompts.account import Remarks
from profiler.prompts.json_text import Record
from profiler.prompts.sample import Json
from profiler.prompts.shapes import find_shape

DEEPEST_KEY = 3  # {"response": {"data": {"rows": [...]}}}
NUMBERED = re.compile(r"[A-Za-z]*[-_ #.:]?\d+")
# Shapes that say no more than that something stands there: parts of one object, rather than records.
_NO_RECORDS = frozenset({"server-error", "wrapped-request", "usage", "benchmark-report", "model-config"})
MOST_TURNS = 2000  # of one conversation that is an array by itself; a longer array holds single messages
# Keys under which exports keep their list of records.
LIST_KEYS = ("data", "rows", "prompts", "requests", "records", "items", "examples", "samples", "conversations",
             "entries", "results", "observations", "traces", "runs", "instances", "questions", "train", "test",
             "dataset", "inputs")  # fmt: skip
# What marks an object with a list under such a key as one record all the same.
RECORD_KEYS = frozenset(
    {"messages", "prompt", "model", "role", "instruction", "question", "custom_id", "session_id", "id"}
)


def unpacked(values: Iterator[Record], remarks: Remarks) -> Iterator[Record]:
    """Values with dictionaries of columns and lists under a key taken apart, and one conversation put together."""
    first = next(values, None)
    if first is None:
        return
    if is_message(first[1]):
        rest = list(itertools.islice(values, MOST_TURNS))
        if all(is_message(value) for _, value in rest) and any(value["role"] == "assistant" for _, value in rest):
            remarks.line = 0
            remarks.add("the array of messages is read as one conversation")
            yield first[0], [first[1], *(value for _, value in rest)]
            return
        values = itertools.chain(rest, values)
    for line, value in itertools.chain([first], values):
        if type(value) is dict:
            table = columns_of(value)
            if table is not None:
                yield from table
                continue
            path, records = records_inside(value)
            if records is not None:
                remarks.line = 0
                where = f"under the key {'.'.join(path)!r}" if path else "under their ids"
                remarks.add(f"the records are those {where}")
                remarks.unit = "record"
                yield from enumerate(records, start=1)
                continue
        yield line, value


def is_message(value: object) -> bool:
    """Whether this is one chat message and nothing else."""
    return isinstance(value, dict) and "role" in value and "content" in value and "id" not in value and len(value) <= 4


def list_key_of(value: dict[str, Any]) -> str | None:
    """The key under which an object keeps its list of records; None where it is itself a record."""
    if not RECORD_KEYS.isdisjoint(value):
        return None
    for key in LIST_KEYS:
        inner = value.get(key)
        if isinstance(inner, list) and inner and isinstance(inner[0], dict | list | str):
            if (
                key in ("conversations", "items")
                and isinstance(inner[0], dict)
                and ("value" in inner[0] or "role" in inner[0])
            ):
                return None
            if key == "inputs" and isinstance(inner[0], str):
                return None
            return key
    return None


def records_inside(value: dict[str, Any], depth: int = 0) -> tuple[tuple[str, ...], list[Any] | None]:
    """The records that an object keeps under a key, or under their ids, and the keys that lead there."""
    key = list_key_of(value)
    if key is not None:
        return (key,), value[key]
    if not value or find_shape(tuple(value))[0] is not None:
        return (), None
    if _are_by_id(value):
        return (), list(value.values())
    if depth < DEEPEST_KEY:
        found = [
            ((key, *path), records)
            for key, inner in value.items() if type(inner) is dict
            for path, records in [records_inside(inner, depth + 1)] if records is not None
        ]  # fmt: skip
        if len(found) == 1:
            return found[0]
    return (), None


def _are_by_id(value: dict[str, Any]) -> bool:
    """{"p1": record, "p2": record}: every value is a record that is known, or a text under a numbered key."""
    inner = list(value.values())
    if len(inner) < 2:
        return False
    if all(type(record) is dict and record for record in inner):
        shapes = [find_shape(tuple(record))[0] for record in inner]
        return all(shape is not None and shape.slug not in _NO_RECORDS for shape in shapes)
    if all(type(turns) is list and turns for turns in inner):
        return all(type(turn) is dict and ("role" in turn or "from" in turn) for turns in inner for turn in turns[:1])
    return all(type(text) is str for text in inner) and all(NUMBERED.fullmatch(key) for key in value)


def columns_of(value: dict[str, Any]) -> list[Record] | None:
    """The rows of a dictionary of columns ({"prompt": [...], "max_tokens": [...]}); None where it is no such thing.

    pandas writes columns as lists (orient="list") or as objects by row label (its default).
    """
    columns = {key: _column(cells) for key, cells in value.items()}
    if len(columns) == 0 or any(cells is None for cells in columns.values()):
        return None
    lengths = {len(cells) for cells in columns.values() if cells is not None}
    if len(lengths) != 1 or lengths == {0}:
        return None
    prompt_key = next(
        (key for key in ("prompt", "text", "question", "instruction", "input", "query", "messages") if key in columns),
        None,
    )
    if prompt_key is None:
        return None
    first = next((cell for cell in columns[prompt_key] or [] if cell is not None), None)
    if isinstance(first, int | float) or (prompt_key == "messages" and isinstance(first, dict)):
        return None  # token ids; one request's messages
    if (
        len(columns) == 1
        and prompt_key != "prompt"
        and isinstance(value[prompt_key], list)
        and not isinstance(first, str)
    ):
        return None
    return [
        (row + 1, {key: cells[row] for key, cells in columns.items() if cells is not None})
        for row in range(lengths.pop())
    ]


def _column(cells: Json) -> list[Any] | None:
    if isinstance(cells, list):
        return cells
    if isinstance(cells, dict) and cells and all(key.isdigit() for key in cells):
        return list(cells.values())
    return None
