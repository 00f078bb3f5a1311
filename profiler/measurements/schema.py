"""Does every file of the data set hold what its columns promise? A pandera schema made of the columns' declaration.

Beside kinds, bounds and empty cells (`columns`), it holds what must be true across columns: counts that contain each
other, a cell's digest, a baseline for every speedup, derived columns that follow from the measured ones, 5 MB in all.
Needs pandera (the `dev` extra); refused with that remedy where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler.errors import InputError
from profiler.measurements import acceptance, real_pair
from profiler.measurements.cells import cell_id, not_derived_anew
from profiler.measurements.columns import CELL_COLUMNS, ENGINE_COLUMNS, Column
from profiler.measurements.merge import derive
from profiler.measurements.table import CELLS_FILE, Row, read_cells, read_engines

MOST_BYTES = 5_000_000
MOST_PROMPT_TOKENS = 256 * 1024  # of one cell: concurrency x input


class MissingSchemaLibraryError(InputError):
    """pandera is not installed."""


def check_tables(folder: Path) -> list[str]:
    """What is wrong with the files in `folder`, one line each; empty when all is well."""
    cells, engines = read_cells(folder), read_engines(folder)
    problems = _validate("cost_cells.csv", CELL_COLUMNS, cells, _CELL_RULES, unique=["cell_id", "run"])
    problems += _validate("engines.csv", ENGINE_COLUMNS, engines, {}, unique=["engine_id"])
    if not problems:
        problems += _across(cells, engines)
    asked, prompts = acceptance.read_acceptance(folder)
    if asked:
        found = _validate(acceptance.CELLS_FILE, acceptance.CELL_COLUMNS, asked, {}, unique=["cell_id", "run"])
        names = ["cell_id", "run", "prompt_set", "prompt"]
        found += _validate(acceptance.PROMPTS_FILE, acceptance.PROMPT_COLUMNS, prompts, {}, unique=names)
        problems += found or acceptance.acceptance_problems(asked, prompts)
    if real := real_pair.read_real_pair(folder):
        found = _validate(real_pair.CELLS_FILE, real_pair.REAL_COLUMNS, real, {}, unique=["cell_id", "run"])
        problems += found or real_pair.real_pair_problems(real)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        problems.append(f"{folder}: {size:,} bytes, at most {MOST_BYTES:,} are wanted")
    return problems


def _counts_contain_each_other(row: Row) -> bool:
    return bool(
        row["accepted_tokens"] <= row["drafted_tokens"] <= row["drafts"] * max(row["num_speculative_tokens"], 1)
        and row["decode_tokens"] <= row["generation_tokens"]
        and sum(row["accepted_per_position"] or ()) == row["accepted_tokens"]
    )


def _speculation_is_whole(row: Row) -> bool:
    none = row["method"] == "none"
    within = row["asked_acceptance_length"] is None or (
        row["asked_acceptance_length"] <= row["num_speculative_tokens"] + 1
    )
    return bool(
        within
        and none == (row["num_speculative_tokens"] == 0) == (row["acceptance"] is None)
        and (row["acceptance"] == "synthetic") == (row["asked_acceptance_length"] is not None)
    )


_CELL_RULES: dict[str, Callable[[Row], bool]] = {
    "counts contain each other": _counts_contain_each_other,
    "method, k and acceptance agree": _speculation_is_whole,
    "cell_id is the digest of key": lambda row: cell_id(row["key"]) == row["cell_id"],
    "one rate for each window": lambda row: len(row["repeat_output_tokens_per_s"]) == row["repeats"],
    "at most 256k prompt tokens": lambda row: row["concurrency"] * row["input_tokens"] <= MOST_PROMPT_TOKENS,
    "a speedup has its baseline": lambda row: (row["speedup_end_to_end"] is None) == (row["baseline_id"] is None),
}


def _validate(
    name: str, columns: tuple[Column, ...], rows: list[Row], rules: dict[str, Callable[[Row], bool]], unique: list[str]
) -> list[str]:
    try:
        import pandas
        import pandera.pandas as pandera
    except ImportError as error:
        raise MissingSchemaLibraryError(
            "the schema needs pandera", got=str(error), remedy="pip install 'specworth[dev]'"
        ) from error
    frame = pandas.DataFrame(rows, columns=[column.name for column in columns], dtype=object)
    schema = pandera.DataFrameSchema(
        {column.name: _column(pandera, column) for column in columns},
        checks=[
            pandera.Check(
                lambda table, rule=rule: table.apply(lambda line: rule(_without_nan(line)), axis=1).astype(bool),
                name=title, error=title,
            )
            for title, rule in rules.items()
        ],
        unique=unique, strict=True, ordered=True,
    )  # fmt: skip
    try:
        schema.validate(frame, lazy=True)
    except pandera.errors.SchemaErrors as error:
        failures = error.failure_cases
        return [
            f"{name}: {case['column'] or 'row'}: {case['check']}"
            + (f": line {int(case['index']) + 2}" if case["index"] is not None else "")
            for case in failures.drop_duplicates(["column", "check", "index"]).to_dict("records")
        ]
    return []


def _without_nan(line: Any) -> Row:  # noqa: ANN401  # a pandas Series
    return {name: None if isinstance(value, float) and value != value else value for name, value in line.items()}


def _column(pandera: Any, column: Column) -> Any:  # noqa: ANN401  # pandera is imported late
    checks = []
    if column.least is not None:
        checks.append(pandera.Check.ge(column.least))
    if column.most is not None:
        checks.append(pandera.Check.le(column.most))
    if column.among is not None:
        checks.append(pandera.Check.isin(column.among))
    return pandera.Column(object, checks=checks, nullable=not column.required, required=True)


def _across(cells: list[Row], engines: list[Row]) -> list[str]:
    known = {engine["engine_id"] for engine in engines}
    baselines = {row["cell_id"] for row in cells if row["method"] == "none"}
    problems = [
        f"cost_cells.csv: {row['cell_id']} run {row['run']}: no engine {row['engine_id']}"
        for row in cells if row["engine_id"] not in known
    ]  # fmt: skip
    problems += [
        f"cost_cells.csv: {row['cell_id']}: baseline {row['baseline_id']} is no row"
        for row in cells if row["baseline_id"] and row["baseline_id"] not in baselines
    ]  # fmt: skip
    if not problems:
        problems = not_derived_anew(CELLS_FILE, CELL_COLUMNS, cells, derive(dict(row) for row in cells))
    return problems
