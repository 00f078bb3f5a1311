"""JSON as people have it: strict where it matters, tolerant where the meaning is plain.

Duplicate keys are refused, since each parser takes another of the two. NaN is read as a number that no setting accepts,
lone surrogates are replaced (they cannot be sent to a server), raw control characters inside texts are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from profiler.prompts.account import NoPrompt, Remarks

DUPLICATE = "a key that stands twice"
CUT = "JSON that breaks off"
SURROGATES = "lone surrogates replaced by U+FFFD"
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


def parse_line(line: bytes, text: str | None, remarks: Remarks) -> Any:
    """One JSON value that fills the line; `text` is the line decoded where it is not UTF-8.

    Raises:
        NoPrompt: no JSON, or a key that stands twice.
    """
    if text is None:
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            pass
        else:
            # A cheap test for duplicate keys: more `":` outside of texts than keys. Only then is the line read again.
            written = line.count(b'":') + line.count(b'" :') - line.count(b'\\":')
            if written <= count_keys(value):
                return value
    return _parse_slowly(line.decode("utf-8", "replace") if text is None else text, remarks)


def count_keys(value: Any) -> int:
    """How many keys all objects inside `value` have."""
    if type(value) is dict:
        count = len(value)
        for inner in value.values():
            if type(inner) is dict or type(inner) is list:
                count += count_keys(inner)
        return count
    count = 0
    if type(value) is list:
        for inner in value:
            if type(inner) is dict or type(inner) is list:
                count += count_keys(inner)
    return count


def _parse_slowly(text: str, remarks: Remarks) -> Any:
    duplicates = Duplicates()
    if "\x00" in text:
        text = text.replace("\x00", "")
        remarks.add("NUL bytes dropped")
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
        raise NoPrompt(*reason_of(error, text)) from None
    except RecursionError:
        raise NoPrompt("JSON nested too deeply") from None
    except ValueError as error:  # integers of thousands of digits
        raise NoPrompt("not JSON", str(error)) from None
    if duplicates.keys:
        raise NoPrompt(DUPLICATE, repr(duplicates.keys[0]))
    return without_surrogates(value, remarks)


def reason_of(error: json.JSONDecodeError, text: str) -> tuple[str, str]:
    """The kind of a JSON error and its place: text that ends inside a value is told from text that is wrong."""
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return CUT, f"in column {len(text.rstrip()) + 1}"
    return "not JSON", f"{error.msg} in column {error.colno}"


def without_surrogates(value: Any, remarks: Remarks) -> Any:
    """The value with every lone surrogate replaced: none of them can be encoded, so none can have been sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except (UnicodeEncodeError, TypeError):
        remarks.add(SURROGATES)
    except ValueError:
        return value
    return _replaced(value)


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replaced(item) for item in value]
    if isinstance(value, dict):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    return value


class JsonStream:
    """The values of a JSON array, or of objects written one after the other, read without holding the whole.

    Memory is that of the largest value. Where the JSON breaks, what came before is kept and the place is told as the last,
    unreadable, record.
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
        self._duplicates = Duplicates()
        self._decoder = json.JSONDecoder(strict=False, object_pairs_hook=self._duplicates)

    def array(self) -> Iterator[Record]:
        """The items of one array (further arrays after it as well), counted lines."""
        while self._skip_space():
            if self._buffer[self._position] != "[":
                yield from self._one(in_array=False)
                continue
            self._position += 1
            yield from self._items()

    def values(self) -> Iterator[Record]:
        """Values one after the other; an array among them counts as its items."""
        return self.array()

    def _items(self) -> Iterator[Record]:
        after_comma = False
        while True:
            if not self._skip_space():
                yield self._line, NoPrompt(CUT, f"the array has no end, line {self._line}")
                return
            if self._buffer[self._position] == "]":
                self._position += 1
                if after_comma:
                    self._remarks.line = self._line
                    self._remarks.add(TRAILING_COMMA)
                return
            yield from self._one(in_array=True)
            if not self._skip_space():
                yield self._line, NoPrompt(CUT, f"the array has no end, line {self._line}")
                return
            after_comma = self._buffer[self._position] == ","
            if after_comma:
                self._position += 1
            elif self._buffer[self._position] != "]":
                yield (
                    self._line,
                    NoPrompt(
                        "not JSON", f"a comma or ] is missing at {self._place(self._position)}; the rest is unread"
                    ),
                )
                self._give_up()
                return

    def _one(self, *, in_array: bool) -> Iterator[Record]:
        line = self._line
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
                place = self._place(error.pos)
                yield line, NoPrompt(reason, f"{error.msg} at {place}; the rest is unread")
                self._give_up()
                return
            except (RecursionError, ValueError) as error:
                yield line, NoPrompt("not JSON", f"{error} in the value at line {line}; the rest is unread")
                self._give_up()
                return
            if end == len(self._buffer) and not self._ended and not isinstance(value, dict | list | str):
                self._more(65536)  # a number may go on
                continue
            break
        self._advance(end)
        self._remarks.line = line
        if self._duplicates.keys:
            yield line, NoPrompt(DUPLICATE, repr(self._duplicates.keys[0]))
        else:
            yield line, without_surrogates(value, self._remarks) if _has_escapes(value) else value

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

    def _give_up(self) -> None:
        self._ended = True
        self._buffer, self._position = "", 0


def _has_escapes(value: Any) -> bool:
    """Whether any text inside holds a surrogate; texts that are ASCII, as most, cost nothing."""
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        return any(_has_escapes(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_escapes(item) for item in value)
    return False
