"""How records are packed in a file: JSON lines, JSON values, a dictionary of columns, a table, plain text, a server's
log.

Told from the beginning of the file, never from its name alone: JSON lines stand in files named .json, and log lines in
files named .txt. The name decides only where the text leaves it open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from profiler.errors import PromptsError
from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.encoding import MAX_LINE_BYTES, TOO_LONG, Lines
from profiler.prompts.json_text import JsonStream, Record, parse_line
from profiler.prompts.loose_json import (
    COMMENTS,
    PYTHON,
    behind_comments,
    notation_of,
    python_value,
    python_values,
    read_whole,
    without_comments,
)
from profiler.prompts.server_log import is_server_log
from profiler.prompts.source import EXPECTED, Source
from profiler.prompts.tables import (
    DELIMITERS,
    csv_records,
    find_delimiter,
    header_of,
    likeliest_delimiter,
    missing_column,
)
from profiler.prompts.unpacking import unpacked

CONTAINERS = ("jsonl", "json", "csv", "tsv", "parquet", "text", "log")
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson", ".jsonlines")
BLANK_LINES = "blank lines ignored"
ONE_A_LINE = "plain text is read as one prompt a line"
SONNET_POOL = (
    "blank lines part the text into stanzas: if this is a pool of lines for vLLM's sonnet data set, "
    "it has no prompts of its own"
)


@dataclass(frozen=True, slots=True)
class Container:
    """One packing: its slug (as format= takes it), its name in words, and for tables the delimiter."""

    slug: str
    words: str
    delimiter: str = ","


JSON_LINES = Container("jsonl", "JSON lines")
JSON_VALUES = Container("json", "JSON")
PLAIN_TEXT = Container("text", "plain text")
SERVER_LOG = Container("log", "log lines")
PARQUET_FILE = Container("parquet", "Parquet")


def recognise(source: Source, lines: Lines, forced: str | None, column: str | None) -> Container:
    """The packing of this source; `forced` is one of CONTAINERS.

    Raises:
        PromptsError: a table whose columns say nothing, or a column that is not there.
    """
    head = lines.head.replace("\x00", "")
    is_table = forced in ("csv", "tsv") or (forced is None and source.suffix in (".csv", ".tsv", ".tab"))
    if forced in ("jsonl", "json", "text", "log"):
        return {"jsonl": JSON_LINES, "json": JSON_VALUES, "text": PLAIN_TEXT, "log": SERVER_LOG}[forced]
    start = head.lstrip("\ufeff \t\r\n\x1e")
    if start[:2] in ("//", "/*") and behind_comments(start)[:1] in ("[", "{"):
        return JSON_VALUES
    if source.suffix in (".yaml", ".yml", ".toml"):
        raise PromptsError(
            f"{source.called()} is a {source.suffix[1:].upper()} file",
            expected=EXPECTED,
            remedy="write it as JSON",
            field="format",
        )
    if not is_table or start[:1] in "[{":
        if start[:1] in "[{":
            found = _json_packing(head, source.is_whole)
            if found is not None:
                return found
        elif _is_json_texts(start) or source.suffix in JSON_SUFFIXES:
            return JSON_LINES  # or text under a name that says JSON: better told line by line than read as prompts
    if is_server_log(_whole_lines(head, source.is_whole)[:50]):
        return SERVER_LOG
    if forced == "tsv":
        return _table("\t", head, column)
    delimiter = find_delimiter(head, column=column, is_named_table=is_table)
    if delimiter is not None:
        return _table(delimiter, head, column)
    if is_table:
        delimiter = likeliest_delimiter(head)
        names = header_of(head, delimiter)
        if column is not None:
            raise missing_column(column, names)
        raise PromptsError(
            f"{source.called()} is a table whose columns do not say which holds the prompts",
            expected="a column named prompt, text, messages, question, instruction or the like",
            got=", ".join(map(repr, names[:12])),
            remedy="name the column (--column), or read one prompt a line (--format text)",
            field="column",
        )  # fmt: skip
    if column is not None:
        raise PromptsError(
            f"{source.called()} has no column {column!r}", expected="JSON objects, or a table with that column",
            got="plain text", remedy="leave the column out to read one prompt a line", field="column",
        )  # fmt: skip
    return PLAIN_TEXT


def _table(delimiter: str, head: str, column: str | None) -> Container:
    if column is not None and column not in header_of(head, delimiter):
        raise missing_column(column, header_of(head, delimiter))
    name = {",": "CSV", "\t": "tab separated table"}.get(delimiter, f"CSV separated by {DELIMITERS[delimiter]}")
    return Container("csv", name, delimiter)


def _whole_lines(head: str, is_whole: bool) -> list[str]:
    lines = head.splitlines()
    return lines if is_whole or len(lines) < 2 else lines[:-1]


def _is_json_texts(start: str) -> bool:
    """Whether the first lines are JSON texts or other JSON scalars in quotes, one a line."""
    written = [line for line in start.split("\n")[:4] if line.strip()][:3]
    if not written or written[0][:1] != '"':
        return False
    return all(_is_json(line) for line in written[: max(1, len(written) - 1)])


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        try:
            json.loads(text, strict=False)
        except (ValueError, RecursionError):
            return False
    return True


def _is_value(text: str) -> bool:
    """Whether a line is a JSON value, be it in Python's notation."""
    if _is_json(text):
        return True
    if notation_of(text) != "python":
        return notation_of(text) == "comments" and _is_json(without_comments(text))
    try:
        return isinstance(python_value(text), dict | list)
    except NoPrompt:
        return True
    except ValueError:
        return False


def _json_packing(head: str, is_whole: bool) -> Container | None:
    """JSON lines, or values that lie across lines; None where it only begins like JSON."""
    lines = [line.strip("\ufeff\x1e \t\r") for line in _whole_lines(head, is_whole)]
    lines = [line for line in lines if line][:50]
    whole = [line for line in lines if line[0] in "[{" and _is_value(line.rstrip(","))]
    if not lines:
        return JSON_VALUES
    if len(lines) == 1 and not is_whole and whole and lines[0][0] == "{":
        return JSON_LINES  # a first line so long that no second one was looked at
    if len(lines) == 1:
        if is_whole and lines[0][0] == "{" and not whole and not _looks_like_json(lines[0]):
            return None
        return JSON_VALUES
    if lines[0][0] == "[" and _is_list_of_records(lines[0]):
        return JSON_VALUES
    # In a pretty printed file single lines may be JSON ("[],"), but not the first one.
    first_is_value = _is_value(lines[0]) and lines[0] not in ("[]", "{}")
    if first_is_value or (len(whole) >= 0.5 * len(lines) and lines[0] not in ("[", "{")):
        return JSON_LINES
    return JSON_VALUES if _looks_like_json("".join(lines[:20])) else None


def _is_list_of_records(line: str) -> bool:
    """Whether a line is an array of requests, not one request's messages or texts."""
    try:
        value = orjson.loads(line)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and not {"role", "from", "author"} & first.keys()


def _looks_like_json(text: str) -> bool:
    """A template in braces ("{name}, write ...") or a mark in brackets ("[INST]") is no JSON."""
    if notation_of(text) == "python":
        return True
    inner = text[1:].lstrip()
    return inner[:1] in '"]}' or (
        text[0] == "[" and (inner[:1] in "[{-0123456789" or inner[:4] in ("true", "fals", "null"))
    )


def records(container: Container, lines: Lines, remarks: Remarks) -> Iterator[Record]:
    """All records of the source with their lines."""
    if container.slug == "jsonl":
        return json_lines(lines, remarks)
    if container.slug == "json":
        return unpacked(_json_values(lines, remarks), remarks)
    if container.slug == "csv":
        return csv_records(lines.texts(), container.delimiter, remarks)
    if container.slug == "log":
        return _log_lines(lines)
    return _text_lines(lines, remarks)


def _json_values(lines: Lines, remarks: Remarks) -> Iterator[Record]:
    """Values across lines, strict JSON or not quite."""
    notation = notation_of(lines.head)
    if notation is None:
        yield from JsonStream(lines.pieces(), remarks).values()
        return
    remarks.line = 0
    try:
        text = read_whole(lines.pieces())
    except NoPrompt as reason:
        yield 1, reason
        return
    if notation == "python":
        remarks.add(PYTHON)
        remarks.unit = "record"
        yield from python_values(text)
    else:
        remarks.add(COMMENTS)
        yield from JsonStream([without_comments(text)], remarks).values()


def json_lines(lines: Lines, remarks: Remarks) -> Iterator[Record]:
    """One value a line."""
    for line in lines:
        if line.isspace():
            remarks.line = lines.number
            remarks.add(BLANK_LINES)
            continue
        number = remarks.line = lines.number
        try:
            if len(line) >= MAX_LINE_BYTES:
                raise NoPrompt(TOO_LONG)
            value = parse_line(line, lines.text, remarks)
        except NoPrompt as reason:
            yield number, reason
        else:
            yield number, value


def _text_lines(lines: Lines, remarks: Remarks) -> Iterator[Record]:
    blank_between = False
    for text in lines.texts():
        line = text.rstrip("\r\n")
        if not line or line.isspace():
            blank_between = lines.number > 1
            yield lines.number, NoPrompt("a blank line")
        else:
            yield lines.number, line
    remarks.line = 0
    remarks.add(ONE_A_LINE)
    if blank_between:
        remarks.add(SONNET_POOL)


def _log_lines(lines: Lines) -> Iterator[Record]:
    for text in lines.texts():
        if text.strip():
            yield lines.number, {"_vllm_log": text}
