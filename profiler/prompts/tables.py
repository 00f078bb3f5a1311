"""Rows of CSV and Parquet files as records.

A table is told from plain text by its header: its names must be ones that a record shape knows, or the user names a
column. Commas, semicolons, tabs and bars separate. Empty cells are null.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from typing import Any

from profiler.errors import PromptsError
from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.encoding import MAX_LINE_BYTES
from profiler.prompts.json_text import Record
from profiler.prompts.shapes import is_known_header
from profiler.prompts.source import REMEDY, Source

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
PARQUET_BATCH_ROWS = 256  # rows decoded at once: bounds memory where rows are long


def find_delimiter(head: str, *, column: str | None = None, is_named_table: bool = False) -> str | None:
    """The delimiter under which the first row is a header that is known; None where the text is no such table.

    Args:
        column: a name that the header must then hold.
        is_named_table: the file's name says that it is a table, so one column is enough.
    """
    best: tuple[int, str] | None = None
    for delimiter in DELIMITERS:
        rows = _head_rows(head, delimiter)
        if not rows:
            continue
        header = [cell.strip() for cell in rows[0]]
        known = column in header if column is not None else is_known_header([cell for cell in header if cell])
        if not known or any(len(cell) > 80 for cell in header):
            continue
        if len(header) == 1 and not is_named_table:
            continue
        if best is None or len(header) > best[0]:
            best = len(header), delimiter
    return best[1] if best else None


def likeliest_delimiter(head: str) -> str:
    """The delimiter that splits the first rows into the most columns, equally many in each."""
    widths = {}
    for delimiter in DELIMITERS:
        rows = [row for row in _head_rows(head, delimiter) if row]
        same = len({len(row) for row in rows}) == 1
        widths[delimiter] = (len(rows[0]) if rows else 0) * (2 if same else 1)
    return max(widths, key=lambda delimiter: widths[delimiter])


def header_of(head: str, delimiter: str) -> list[str]:
    """The names in the first row."""
    rows = _head_rows(head, delimiter)
    return [cell.strip() for cell in rows[0]] if rows else []


def _head_rows(head: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(MAX_LINE_BYTES)
    text = head.partition("\n")[2] if head.lower().startswith("sep=") else head
    try:
        return list(itertools.islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 20))
    except csv.Error:
        return []


def csv_records(lines: Iterator[str], delimiter: str, remarks: Remarks) -> Iterator[Record]:
    """Rows as dictionaries by the header's names, with the line on which each begins."""
    csv.field_size_limit(MAX_LINE_BYTES)
    reader = csv.reader(lines, delimiter=delimiter)
    names: list[str] | None = None
    row: list[str] = []
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            if row and row[-1].endswith("\n"):  # only a cell whose quotes never close keeps the file's last line end
                remarks.line = 0
                remarks.add("the table ends inside quotes: its last record holds all lines from there on")
            return
        except csv.Error as error:
            yield line, NoPrompt("a row that is no CSV", str(error))
            continue
        if not row or (names is None and row[0].lower().startswith("sep=")):
            continue
        if names is None:
            names = [name.strip().lstrip("\ufeff") for name in row]
            twice = next((name for name in names if name and names.count(name) > 1), None)
            if twice is not None:
                raise PromptsError(
                    "two columns have the same name", expected="one column of each name", got=repr(twice),
                    remedy="rename one of them",
                )  # fmt: skip
            continue
        if len(names) == 1 and len(row) > 1:  # nothing but text: its separators are not quoted
            remarks.line = line
            remarks.add("rows of a table of one column, whose text holds separators without quotes")
            row = [delimiter.join(row)]
        if len(row) > len(names) and any(cell.strip() for cell in row[len(names) :]):
            yield line, NoPrompt("a row with more cells than the header", f"{len(row)} for {len(names)}")
            continue
        if len(row) < len(names):
            remarks.line = line
            remarks.add("rows with fewer cells than the header, the rest taken as empty")
            row = [*row, *itertools.repeat("", len(names) - len(row))]
        yield line, {name: cell if cell else None for name, cell in zip(names, row, strict=False)}


def parquet_records(source: Source, column: str | None) -> Iterator[Record]:
    """Rows of a Parquet file with their number from 1, read row group by row group.

    Raises:
        PromptsError: it is damaged, or has no such column.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        place: Any = str(source.path) if source.path is not None else io.BytesIO(source.stream.read())
        file = pyarrow.parquet.ParquetFile(place)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PromptsError(
            f"{source.called()} is a damaged or truncated Parquet file", got=str(error).splitlines()[0],
            remedy="fetch the file again",
        ) from None  # fmt: skip
    names = file.schema_arrow.names
    if column is not None and column not in names:
        raise missing_column(column, names)
    # Columns of bytes (pictures, sound) hold no text and may be large.
    read = [field.name for field in file.schema_arrow if not _is_binary(field.type)]
    row = 0
    batches = file.iter_batches(batch_size=PARQUET_BATCH_ROWS, columns=read)
    while True:
        try:
            batch = next(batches, None)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            yield row + 1, NoPrompt("damaged Parquet data", str(error).splitlines()[0])
            return
        if batch is None:
            return
        try:
            records = batch.to_pylist()
        except UnicodeDecodeError as error:
            yield row + 1, NoPrompt("Parquet text that is not UTF-8", str(error))
            row += batch.num_rows
            continue
        for record in records:
            row += 1
            yield row, record


def _is_binary(kind: object) -> bool:
    import pyarrow.types

    return bool(
        pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind) or pyarrow.types.is_fixed_size_binary(kind)
    )


def missing_column(column: str, names: list[str]) -> PromptsError:
    """The error for a column that is not there, with the nearest that is."""
    from rapidfuzz import process

    nearest = process.extractOne(column, names)
    remedy = f"did you mean {nearest[0]!r}?" if nearest and nearest[1] >= 60 else REMEDY
    return PromptsError(
        f"there is no column {column!r}",
        expected=f"one of {', '.join(map(repr, names[:20]))}",
        remedy=remedy,
        field="column",
    )
