"""Is what came a JSON object that says one thing only? Bodies of requests, and JSON files given on the command line.

JSON as RFC 8259 has it, in UTF-8: no NaN or Infinity, no lone surrogates, one value. Refused besides: a key that stands
twice in an object (parsers keep the last silently), nesting deeper than a limit, numbers too large for a double, and
more than a million values: 32 MiB of `[],` are 11 million lists, which took 1.5 GB and the worker for many seconds.

orjson decides what is JSON; the standard library's scanner then reads once more for repeated keys, because orjson does
not tell them. Measured on this: 0.07 ms for 14 KB with 20 chats, 66 ms for 29 MB of long prompts (orjson: 0.02 and
44 ms); counting colons outside strings instead took 0.11 and 148 ms.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

from profiler.errors import InputError

MOST_VALUES = 1_000_000  # 10,000 prompts of 10 messages each are 400,000
_BLOCK = 1 << 20  # bytes looked at together
_DISCARD = 8  # a refused body is read on to this multiple of the limit, so that its sender gets to read the answer


class BodyTooLargeError(Exception):
    """More bytes came than the limit allows."""


class NotJsonError(InputError):
    """Text that is no JSON at all, as opposed to JSON that is no request."""


async def collect(chunks: AsyncIterator[bytes], *, limit: int) -> bytes:
    """All of a body in one piece; counts while it comes, and keeps nothing beyond `limit` bytes.

    Raises BodyTooLargeError once more came. Some of the rest is read and thrown away first: a client that is still
    sending when the connection closes never sees the answer.
    """
    kept: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size <= limit:
            kept.append(chunk)
        else:
            kept.clear()
            if size > _DISCARD * limit:
                break
    if size > limit:
        raise BodyTooLargeError
    return b"".join(kept)


@dataclass(frozen=True)
class _Repeated:
    key: str
    keys: tuple[str, ...]


def read_object(text: bytes, *, max_depth: int, what: str = "the body") -> dict[str, Any]:
    """The JSON object that `text` is.

    Raises InputError: not JSON, not an object, too deep, or with a repeated key, which is named with its path.
    """
    if not text.strip():
        raise NotJsonError(f"{what} is empty", expected="a JSON object", got="nothing", field="")
    if _more_values_than(text, MOST_VALUES):
        raise InputError(
            f"{what} has too many values", expected=f"at most {MOST_VALUES:,} in lists and objects",
            got="more than that", remedy="send a sample of the prompts: a few hundred say as much", field="",
        )  # fmt: skip
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _not_json(text, error, what, max_depth) from None
    if not isinstance(value, dict):
        kinds = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean"}
        got = kinds.get(type(value), "null")
        raise InputError(f"{what} is not a JSON object", expected="a JSON object {...}", got=got, field="")
    if _deeper_than(value, max_depth):
        raise _too_deep(what, max_depth)
    _refuse_repeated_keys(text, what)
    return value


def _more_values_than(text: bytes, limit: int) -> bool:
    """Whether there are more commas and opening brackets, which values cannot do without, outside of texts."""
    if sum(text.count(mark) for mark in (b",", b"[", b"{")) <= limit:
        return False
    import numpy as np

    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # the quotes that are left begin or end a text
    found, inside = 0, np.uint8(0)
    for start in range(0, len(bare), _BLOCK):
        block = np.frombuffer(bare[start : start + _BLOCK], np.uint8)
        quoted = np.bitwise_xor.accumulate((block == ord('"')).astype(np.uint8)) ^ inside
        marks = (block == ord(",")) | (block == ord("[")) | (block == ord("{"))
        found += int(np.count_nonzero(marks & (quoted == 0)))
        inside = quoted[-1]
    return found > limit


def _too_deep(what: str, limit: int) -> InputError:
    return InputError(
        f"{what} is nested too deeply", expected=f"at most {limit} levels", got="more than that", field=""
    )


def _not_json(text: bytes, error: orjson.JSONDecodeError, what: str, max_depth: int) -> InputError:
    message = error.msg
    expected = "JSON as RFC 8259 has it, in UTF-8"
    if text.startswith(b"\xef\xbb\xbf"):
        got = "a byte order mark in front of it"
    elif "depth" in message or "recursion" in message:
        return _too_deep(what, max_depth)  # orjson's own limit is 1,024 levels, and ours is lower
    elif "UTF-8" in message:
        got = "bytes that are not valid UTF-8"
    elif "surrogate" in message:
        got = f"half of a surrogate pair (\\uD800 to \\uDFFF) at line {error.lineno} column {error.colno}"
    else:
        rest = error.doc[error.pos : error.pos + 9].lstrip("-")
        literal = next((name for name in ("NaN", "Infinity") if rest.startswith(name)), None)
        if literal:
            got = f"the literal {literal} at line {error.lineno} column {error.colno}, which JSON does not have"
        else:
            got = f"{message} at line {error.lineno} column {error.colno}"
    return NotJsonError(f"{what} is not valid JSON", expected=expected, got=got, field="")


def _deeper_than(value: object, limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit):
        below: list[Any] = []
        for item in level:
            children = item.values() if type(item) is dict else item
            below.extend(child for child in children if type(child) is dict or type(child) is list)
        if not below:
            return False
        level = below
    return True


def _refuse_repeated_keys(text: bytes, what: str) -> None:
    found = False

    def members(pairs: list[tuple[str, Any]]) -> object:
        nonlocal found
        given = dict(pairs)
        if len(given) == len(pairs):
            return given
        found = True
        keys = [key for key, _ in pairs]
        return _Repeated(next(key for key in keys if keys.count(key) > 1), tuple(given))

    value = json.loads(text, object_pairs_hook=members)
    if found:
        path, repeated = _first_repeated(value)
        place = f"{path}.{repeated.key}" if path else repeated.key
        raise InputError(
            f"{what} has the key {repeated.key[:60]!r} twice in {path or 'its outermost object'}",
            expected="each key once",
            got=f"{repeated.key[:60]!r} more than once among {', '.join(key[:30] for key in repeated.keys[:8])}",
            field=place[:200],
        )


def _first_repeated(value: object) -> tuple[str, _Repeated]:
    pending: list[tuple[str, object]] = [("", value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, _Repeated):
            return path, item
        if isinstance(item, dict):
            pending.extend((f"{path}.{key}" if path else key, child) for key, child in reversed(item.items()))
        elif isinstance(item, list):
            pending.extend((f"{path}[{index}]", child) for index, child in reversed(list(enumerate(item))))
    raise AssertionError("a repeated key was seen while reading, but none is there")
