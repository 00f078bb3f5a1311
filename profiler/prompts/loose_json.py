"""JSON that is not quite JSON: Python's own notation, comments, and commas before a closing brace.

str() of a Python list or dictionary has single quotes, None and True; people who write JSON by hand leave comments and
commas. All of it has one meaning, so it is read and told. Refused: a file of it that does not fit in memory, since
programs that write large files write JSON.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from profiler.prompts.account import NoPrompt
from profiler.prompts.sample import Json

MOST_CHARACTERS = 1 << 24  # 16 Mi characters; the syntax tree of Python's notation takes some 50 times as much memory
PYTHON = "Python's notation (single quotes, None, True) read as JSON"
COMMENTS = "comments, and commas before a closing brace, passed over in JSON"

Notation = Literal["python", "comments"]

_PYTHON = re.compile(r"[\s(\[]*\{\s*'(?:[^'\\\n]|\\.)*'\s*:|\s*[(\[]\s*'")
# A text in quotes (kept), the beginning of one that does not end, and what JSON has no place for.
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(?P<open>")|(?P<loose>//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*\}))', re.DOTALL)
_LEADING = re.compile(r"(?:\s*(?://[^\n]*\n|/\*.*?\*/))+\s*", re.DOTALL)


def notation_of(head: str) -> Notation | None:
    """Which notation other than JSON the beginning of a file is in; None where it may be JSON."""
    if _PYTHON.match(head):
        return "python"
    for token in _TOKENS.finditer(head):
        if token["open"]:  # the head ends inside a text, or this is no JSON
            return None
        if token["loose"]:
            return "comments"
    return None


def behind_comments(text: str) -> str:
    """The text behind the comments that it begins with."""
    found = _LEADING.match(text)
    return text[found.end() :] if found else text


def without_comments(text: str) -> str:
    """The text without comments and without commas before a closing brace; its lines stay where they are."""
    return _TOKENS.sub(lambda token: "\n" * token[0].count("\n") if token["loose"] else token[0], text)


def python_value(text: str) -> Json:
    """The JSON value that a Python literal stands for.

    Raises:
        NoPrompt: a key that stands twice.
        ValueError: no such literal.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                twice = next((key for key in keys if keys.count(key) > 1), None)
                if twice is not None:
                    raise NoPrompt("a key that stands twice", repr(twice))
        return _as_json(ast.literal_eval(tree))
    except (SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None


def _as_json(value: object) -> object:
    """Tuples are lists; whatever JSON lacks is none of it."""
    if isinstance(value, dict):
        return {str(key): _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"a {type(value).__name__} is no JSON value")


def read_whole(pieces: Iterable[str]) -> str:
    """All pieces of a small file.

    Raises:
        NoPrompt: it is too large.
    """
    read, size = [], 0
    for piece in pieces:
        read.append(piece)
        size += len(piece)
        if size > MOST_CHARACTERS:
            raise NoPrompt("JSON with comments or in Python's notation, longer than 16 MiB", "write it with json.dumps")
    return "".join(read)


def python_values(text: str) -> Iterator[tuple[int, Any]]:
    """The items of a Python list, or the one value, with their numbers from 1."""
    try:
        value = python_value(text)
    except NoPrompt as reason:
        yield 1, reason
        return
    except ValueError as error:
        yield 1, NoPrompt("Python's notation that cannot be read", f"{error}; write it with json.dumps")
        return
    yield from enumerate(value, start=1) if isinstance(value, list) else ((1, value),)
