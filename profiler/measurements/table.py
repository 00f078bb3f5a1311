"""How do measured tables lie on disk? CSV files in the columns of `columns`, read into typed rows and written back."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from profiler.errors import InputError
from profiler.measurements.columns import CELL_COLUMNS, ENGINE_COLUMNS, Column, Kind, column_names

CELLS_FILE, ENGINES_FILE = "cost_cells.csv", "engines.csv"

Row = dict[str, Any]


class MeasurementsError(InputError):
    """A table of measurements that is missing, damaged, or not of this schema."""


def _numbers(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: tuple(parse(part) for part in text.split())


_PARSERS: dict[Kind, Callable[[str], Any]] = {
    "text": str,
    "int": int,
    "float": float,
    "bool": lambda text: {"true": True, "false": False}[text],
    "ints": _numbers(int),
    "floats": _numbers(float),
    "json": json.loads,
}


def read_cells(folder: Path) -> list[Row]:
    """The cost cells, one dict a measured cell; empty values are None."""
    return read_table(folder / CELLS_FILE, CELL_COLUMNS)


def read_engines(folder: Path) -> list[Row]:
    """The engines that were started for them; `engine_id` joins the two."""
    return read_table(folder / ENGINES_FILE, ENGINE_COLUMNS)


def write_cells(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the cost cells in their columns' order."""
    write_table(folder / CELLS_FILE, CELL_COLUMNS, rows)


def write_engines(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the engines in their columns' order."""
    write_table(folder / ENGINES_FILE, ENGINE_COLUMNS, rows)


def read_json_lines(path: Path) -> list[Row]:
    """What a sweep appended to one file."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, json.JSONDecodeError) as error:
        raise MeasurementsError(f"cannot read {path}", expected="a sweep's output", got=str(error)) from error


def read_table(path: Path, columns: tuple[Column, ...]) -> list[Row]:
    """The rows of one file, each value of its column's kind; MeasurementsError says where it is damaged."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MeasurementsError(
            f"cannot read {path}", expected="the measurements' folder, data/measurements in a checkout", got=str(error)
        ) from error
    names = column_names(columns)
    if not lines or tuple(lines[0]) != names:
        found = set(lines[0]) if lines else set()
        odd = sorted(found - set(names)) + sorted(set(names) - found)
        raise MeasurementsError(
            f"{path} has not the columns of this version", expected=f"{len(names)} columns",
            got=f"differing in {', '.join(odd) or 'their order'}",
        )  # fmt: skip
    return [_parse(path, number, line, columns) for number, line in enumerate(lines[1:], start=2)]


def _parse(path: Path, number: int, line: list[str], columns: tuple[Column, ...]) -> Row:
    if len(line) != len(columns):
        raise MeasurementsError(f"{path}:{number} is cut", expected=f"{len(columns)} fields", got=str(len(line)))
    row: Row = {}
    for column, text in zip(columns, line, strict=True):
        try:
            row[column.name] = _PARSERS[column.kind](text) if text else None
        except (ValueError, KeyError) as error:
            raise MeasurementsError(
                f"{path}:{number} {column.name}", expected=f"a value of kind {column.kind}", got=repr(text[:80])
            ) from error
    return row


def write_table(path: Path, columns: tuple[Column, ...], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows in their columns' order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(column_names(columns))
        writer.writerows([_text(row.get(column.name), column.kind) for column in columns] for row in rows)


def _text(value: object, kind: Kind) -> str:
    if value is None or (kind == "json" and not value):
        return ""
    if kind == "json":
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    if kind in ("ints", "floats"):
        return " ".join(_text(part, "int" if kind == "ints" else "float") for part in value)  # type: ignore[attr-defined]
    if kind == "bool":
        return "true" if value else "false"
    if kind == "int":
        return str(int(value))  # type: ignore[call-overload]
    return f"{value:.10g}" if kind == "float" else str(value)
