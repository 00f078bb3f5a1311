"""JSON as people have it: strict where it matters, tolerant where the meaning is plain.

Duplicate keys are refused, since each parser takes another of the two. NaN is read as a number that no setting accepts,
lone surrogates are replaced (they cannot be sent to a server), raw control characters inside texts are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.cleaning import NULS, cleaned
from profiler.prompts.loose_json import COMMENTS, PYTHON, notation_of, python_value, without_comments
from profiler.prompts.sample import Json

DUPLICATE = "a key that stands twice"
CUT = "JSON that breaks off"
MISSING_COMMA = "a missing comma passed over"
TRAILING_COMMA = "a trailing comma passed over"
MAX_VALUE_CHARACTERS = 1 << 26  # as for lines

Record = tuple[int, Any]  # line and value; the value is a NoPrompt where the record could not be read


class Duplicates:
    """An object_pairs_hook that remembers keys that stood twice."""

    def __init__(self) -> None:
        """No duplicates yet."""
        self.keys: list[str] = []

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Make the dictionary, as json does."""
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.keys.append(key)
                seen.add(key)
        return found


def parse_line(line: bytes, decode: Callable[[bytes], str], remarks: Remarks) -> Json:
    """One JSON value that fills the line; `decode` makes text of a line that is no UTF-8.

    Raises:
        NoPrompt: no JSON, or a key that stands twice.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_slowly(decode(line), remarks)
    # A cheap test for duplicate keys: more `":` outside of texts than keys. Only then is the line read again.
    keys = count_keys(value)
    written = line.count(b'":')
    if written > keys:
        written -= line.count(b'\\":')
    elif written < keys:
        written += line.count(b'" :')
    if written <= keys and b"\\u0000" not in line:
        return value
    return _parse_slowly(decode(line), remarks)


def count_keys(value: Json) -> int:
    """How many keys all objects inside `value` have."""
    count = 0
    open_values = [value]
    for item in open_values:  # grows while it is walked: faster than a recursion, and no deep nesting stops it
        if type(item) is dict:
            count += len(item)
            inner: Iterable[Json] = item.values()
        elif type(item) is list:
            inner = item
        else:
            continue
        for part in inner:
            kind = type(part)
            if kind is dict or kind is list:
                open_values.append(part)
    return count


def _parse_slowly(text: str, remarks: Remarks) -> Json:
    duplicates = Duplicates()
    if "\x00" in text:
        text = text.replace("\x00", "")
        remarks.add(NULS)
        if not text.strip():
            raise NoPrompt("a line of NUL bytes")
    text = text.strip().lstrip(
        "\ufeff\x1e"
    )  # byte order marks of files joined; record separators of JSON text sequences
    if text.endswith(","):  # lines cut out of an array
        text = text[:-1]
    try:
        value = json.loads(text, strict=False, object_pairs_hook=duplicates)
    except json.JSONDecodeError as error:
        notation = notation_of(text)
        try:
            if notation == "python":
                value = python_value(text)
            elif notation == "comments":
                value = json.loads(without_comments(text), strict=False, object_pairs_hook=duplicates)
            else:
                raise error
        except (ValueError, RecursionError):
            raise NoPrompt(*reason_of(error, text)) from None
        remarks.add(PYTHON if notation == "python" else COMMENTS)
    except RecursionError:
        raise NoPrompt("JSON nested too deeply") from None
    except ValueError as error:  # integers of thousands of digits
        raise NoPrompt("not JSON", str(error)) from None
    if duplicates.keys:
        raise NoPrompt(DUPLICATE, repr(duplicates.keys[0]))
    return cleaned(value, remarks)


def reason_of(error: json.JSONDecodeError, text: str) -> tuple[str, str]:
    """The kind of a JSON error and its place: text that ends inside a value is told from text that is wrong."""
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return CUT, f"in column {len(text.rstrip()) + 1}"
    return "not JSON", f"{error.msg} in column {error.colno}"


class JsonStream:
    """The values of a JSON array, or of objects written one after the other, read without holding the whole.

    Memory is that of the largest value. Where the JSON breaks, what came before is kept and the place is told as the
    last, unreadable, record.
    """

    def __init__(self, texts: Iterable[str], remarks: Remarks) -> None:
        """`texts` are the lines, or any other pieces, of the text."""
        self._texts = iter(texts)
        self._remarks = remarks
        self._buffer = ""
        self._position = 0
        self._line = 1  # of _position
        self._line_start = 0  # offset in the buffer at which that line begins; negative where it was dropped
        self._ended = False
        self._broken = False
        self._items = 0
        self._duplicates = Duplicates()
        self._decoder = json.JSONDecoder(strict=False, object_pairs_hook=self._duplicates)

    def values(self) -> Iterator[Record]:
        """The items of an array, and values one after the other, with the lines on which they begin."""
        in_array = after_comma = False
        while self._skip_space():
            char = self._buffer[self._position]
            if char == "[" and not in_array:
                in_array, after_comma = True, False
                self._items = 0
                self._position += 1
            elif char == "]" and in_array:
                in_array = False
                self._position += 1
                if after_comma:
                    self._remark(TRAILING_COMMA)
            elif char == "," and not after_comma:
                after_comma = True
                self._position += 1
            else:
                if in_array and not after_comma and self._items:
                    self._remark(MISSING_COMMA)
                after_comma = False
                yield self._one()
        if in_array and not self._broken:
            yield self._line, NoPrompt(CUT, f"the array has no end, line {self._line}")

    def _one(self) -> Record:
        line = self._line
        self._items += 1
        self._duplicates.keys.clear()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._position)
            except json.JSONDecodeError as error:
                if not self._ended and len(self._buffer) - self._position < MAX_VALUE_CHARACTERS:
                    # It may only lack its end. Doubling what is read keeps the work proportional to the text.
                    self._duplicates.keys.clear()
                    self._more(max(65536, len(self._buffer) - self._position))
                    continue
                reason, _ = reason_of(error, self._buffer)
                return line, NoPrompt(reason, f"{error.msg} at {self._place(error.pos)}; {self._resume(error.pos)}")
            except (RecursionError, ValueError) as error:
                return line, NoPrompt("not JSON", f"{error} at line {line}; {self._resume(self._position + 1)}")
            if end == len(self._buffer) and not self._ended and not isinstance(value, dict | list | str):
                self._more(65536)  # a number may go on
                continue
            break
        self._advance(end)
        self._remarks.line = line
        if self._duplicates.keys:
            return line, NoPrompt(DUPLICATE, repr(self._duplicates.keys[0]))
        return line, cleaned(value, self._remarks)

    def _resume(self, error: int) -> str:
        """Go on behind an unreadable value: at the next line that opens an object with the same indentation."""
        line_start = self._buffer.rfind("\n", 0, self._position) + 1
        indent = self._buffer[line_start : self._position]
        opening = "\n" + indent + "{"
        found = self._buffer.find(opening, error) if not indent.strip(" \t") else -1
        if found >= 0:
            self._items = 0  # the comma before it is behind us
            self._advance(found + len(opening) - 1)
            return f"reading goes on at line {self._line}"
        self._ended = self._broken = True
        self._buffer, self._position = "", 0
        return "the rest is unread"

    def _remark(self, kind: str) -> None:
        self._remarks.line = self._line
        self._remarks.add(kind)

    def _place(self, position: int) -> str:
        line = self._line + self._buffer.count("\n", self._position, position)
        newline = self._buffer.rfind("\n", 0, position)
        return f"line {line}, column {position - (newline if newline >= 0 else self._line_start - 1)}"

    def _advance(self, position: int) -> None:
        breaks = self._buffer.count("\n", self._position, position)
        if breaks:
            self._line += breaks
            self._line_start = self._buffer.rfind("\n", 0, position) + 1
        self._position = position
        if position > 1 << 20:  # drop what was read
            self._buffer = self._buffer[position:]
            self._line_start -= position
            self._position = 0

    def _more(self, characters: int) -> None:
        pieces, size = [self._buffer], 0
        for text in self._texts:
            pieces.append(text)
            size += len(text)
            if size >= characters:
                break
        else:
            self._ended = True
        self._buffer = "".join(pieces)

    def _skip_space(self) -> bool:
        """Go to the next character that is no space; False at the end."""
        while True:
            position, buffer = self._position, self._buffer
            while position < len(buffer) and buffer[position] in " \t\r\n\ufeff\x1e":
                position += 1
            self._advance(position)
            if self._position < len(self._buffer):
                return True
            if self._ended:
                return False
            self._more(65536)
