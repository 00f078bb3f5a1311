"""How do a sweep's rows become the data set? Runs of one cell are numbered, labels made, baselines found, flags set.

Everything derived is made anew each time from what was measured, so that a better estimator needs no new GPU hour.
Rows are never dropped: what is odd is flagged. Rows that the tables hold already (same cell, same moment) are not
added twice.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from profiler.measurements.cells import by_engine, not_yet_in, numbered
from profiler.measurements.columns import CELL_COLUMNS, ENGINE_COLUMNS
from profiler.measurements.estimate import balanced_tokens_per_s, prefill_seconds, row_flags, tpot_by_little_ms
from profiler.measurements.table import (
    CELLS_FILE,
    MeasurementsError,
    Row,
    read_cells,
    read_engines,
    read_json_lines,
    write_cells,
    write_engines,
)

_MOST_S_OF_PROTOCOL_1 = 6.0  # after so long protocol 1 ended a cell that had not enough completions


def merge_sweep(sweep: Path, folder: Path) -> tuple[int, int]:
    """Add the rows of a sweep's --out folder to the tables in `folder`; new cells and new engines."""
    cells = read_cells(folder) if (folder / CELLS_FILE).exists() else []
    engines = read_engines(folder) if (folder / CELLS_FILE).exists() else []
    raw_cells, raw_engines = read_json_lines(sweep / "rows.jsonl"), read_json_lines(sweep / "engines.jsonl")
    known_engines = {e["engine_id"] for e in engines}
    new_engines, new_cells = [], []
    rest = not_yet_in(cells, raw_cells)
    for raw in raw_engines:
        own = [row for row in raw_cells if _same_engine(row, raw)]
        engine = engine_row(raw, own)
        if engine["engine_id"] not in known_engines:
            new_engines.append(engine)
        new_cells += [cell_from_raw(row, engine["engine_id"]) for row in rest if _same_engine(row, raw)]
    if len(new_cells) < len(rest):
        raise MeasurementsError(
            f"{sweep / 'rows.jsonl'}: rows without an engine", expected="a line of engines.jsonl for each engine",
            got=f"{len(rest) - len(new_cells)} rows without",
        )  # fmt: skip
    engines += new_engines
    write_engines(folder, engines)
    write_cells(folder, derive(cells + new_cells))
    return len(new_cells), len(new_engines)


def rederive(folder: Path) -> int:
    """Make every derived column anew; the number of cells."""
    cells = read_cells(folder)
    write_cells(folder, derive(cells))
    return len(cells)


def _same_engine(cell: Mapping[str, Any], engine: Mapping[str, Any]) -> bool:
    return bool(cell["engine"] == engine["engine"] and cell.get("startup_s") == engine.get("startup_s"))


def engine_row(raw: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Row:
    """One line of engines.jsonl as a row: model folders by their names, never by a host's paths.

    What the line lacks is taken from the facts that every row of its cells repeats.
    """
    facts = dict(cells[0]) if cells else {}
    row = {column.name: raw.get(column.name, facts.get(column.name)) for column in ENGINE_COLUMNS}
    arguments = _arguments(raw.get("arguments") or {}, facts)
    speculation = arguments.get("speculative_config") or {}
    first_cell_at = min((cell["measured_at"] for cell in cells), default="")
    for holder in (arguments, speculation):
        if holder.get("model"):
            holder["model"] = PurePath(holder["model"]).name
    day = first_cell_at[:19].replace("-", "").replace(":", "")
    return row | {
        "engine_id": f"{raw['engine']}@{day or 'no-cell'}",
        "arguments": arguments or None,
        "target": arguments.get("model"),
        "method": speculation.get("method", "none"),
        "drafter": speculation.get("model"),
        "drafter_lm_head": raw.get("drafter_lm_head") or _lm_head_before_protocol_2(arguments, speculation),
    }


def _arguments(given: Any, facts: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401  # either sweep's
    """Engine arguments as a mapping; a served sweep notes them as vLLM's flags, without the model."""
    if isinstance(given, dict):
        return dict(json.loads(json.dumps(given)))
    found: dict[str, Any] = {"model": facts.get("target")}
    name = ""
    for part in given:
        if part.startswith("--"):
            name = part.removeprefix("--").replace("-", "_")
            found[name.removeprefix("no_")] = not name.startswith("no_")
        else:
            found[name] = json.loads(part) if part[:1] in "{[" or part.replace(".", "").isdigit() else part
    return found


def _lm_head_before_protocol_2(arguments: Mapping[str, Any], speculation: Mapping[str, Any]) -> str | None:
    """vLLM gives a head the target's output layer unless its checkpoint shows one, which dummy weights never do."""
    dummy = arguments.get("load_format") == "dummy" and speculation.get("method") in ("eagle", "eagle3")
    return "target" if dummy else None


def cell_from_raw(raw: Mapping[str, Any], engine_id: str) -> Row:
    """One line of rows.jsonl as a row; what belongs to its engine is left to engines.csv."""
    row = {column.name: raw.get(column.name) for column in CELL_COLUMNS}
    ended_by = raw.get("ended_by") or (
        "enough" if raw["complete"] else "limit" if raw["measured_s"] >= _MOST_S_OF_PROTOCOL_1 else "deadline"
    )
    rates: Sequence[float] = raw["repeat_output_tokens_per_s"]
    median = raw["output_tokens_per_s"] if raw["protocol"] == 1 else raw["output_tokens_per_s_median"]
    return row | {
        "engine_id": engine_id,
        "ended_by": ended_by,
        "output_tokens_per_s_median": median,
        "repeat_output_tokens_per_s": tuple(rates),
        "accepted_per_position": tuple(raw["accepted_per_position"]),
    }


def derive(cells: Iterable[Row]) -> list[Row]:
    """All rows in the order of their cells, with runs, labels, baselines and flags."""
    rows = numbered(cells)
    for row in rows:
        _measure(row, rows)
    _pair(rows)
    for row in rows:
        row["flags"] = " ".join(row_flags(row)) or None
    return by_engine(rows)


def _measure(row: Row, rows: Sequence[Row]) -> None:
    """Labels of one row from its own counters."""
    c, n = row["concurrency"], row["output_tokens"]
    tokens, span = row["generation_tokens"], row["measured_s"]
    prefills = tokens - row["decode_tokens"]
    seconds = _prefill_seconds(row, rows)
    rate = balanced_tokens_per_s(
        tokens=tokens, seconds=span, prefills=prefills if seconds is not None else tokens / n, output_tokens=n,
        prefill_s=seconds or 0.0,
    )  # fmt: skip
    verified = row["decode_tokens"] - row["accepted_tokens"]  # one per sequence and step
    row["output_tokens_per_s"] = round(rate, 3)
    row["tpot_ms"] = None
    if row["ttft_ms_p50"] is not None:
        tpot = tpot_by_little_ms(concurrency=c, output_tokens=n, tokens_per_s=rate, ttft_ms=row["ttft_ms_p50"])
        row["tpot_ms"] = None if tpot is None else round(tpot, 4)
    row["tokens_per_step"] = round(row["decode_tokens"] / max(verified, 1), 4)
    row["acceptance_length"] = round(1 + row["accepted_tokens"] / row["drafts"], 4) if row["drafts"] else None
    row["draft_share"] = round(row["drafts"] / max(verified, 1), 4) if row["method"] != "none" else None
    row["cycles"] = round(tokens / (c * n), 3)
    row["imbalance"] = round(1 - prefills * n / tokens, 4)
    row["tokens_per_pass"] = round((verified + row["drafted_tokens"] + row["prompt_tokens"]) / max(row["steps"], 1), 2)
    row["little_gap"] = None
    if row["tpot_ms_mean"] is not None and row["ttft_ms_p50"] is not None:
        latency_ms = row["ttft_ms_p50"] + (n - 1) * row["tpot_ms_mean"]
        row["little_gap"] = round(1e3 * c * n / latency_ms / rate - 1, 4)


def _prefill_seconds(row: Row, rows: Sequence[Row]) -> float | None:
    """From rows of the same engine settings, else of the same target and method, else of the target's baseline."""
    for same in (("engine",), ("target", "quantization", "method"), ("target", "quantization")):
        alike = [r for r in rows if all(r[name] == row[name] for name in same)]
        if (seconds := prefill_seconds(alike, row["input_tokens"])) is not None:
            return seconds
    return None


def _pair(rows: Sequence[Row]) -> None:
    """Give each speculative row the baseline of its point: same temperature if there is one, else any."""
    baselines: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["method"] == "none" and not row["unmatched_share"]:
            baselines[_point(row)].append(row)
    for row in rows:
        found = baselines.get(_point(row), []) if row["method"] != "none" else []
        found = [r for r in found if r["temperature"] == row["temperature"]] or found
        row["baseline_id"] = found[0]["cell_id"] if found else None
        row["speedup_end_to_end"] = row["speedup_tpot"] = None
        if found:
            found = [r for r in found if r["cell_id"] == row["baseline_id"]]
            # A protocol's bias is in both arms; between two protocols it would be taken for a speedup.
            found = [r for r in found if r["protocol"] == row["protocol"]] or found
            row["speedup_end_to_end"] = _ratio(row["output_tokens_per_s"], [r["output_tokens_per_s"] for r in found])
            tpots = [r["tpot_ms"] for r in found if r["tpot_ms"] is not None]
            if tpots and row["tpot_ms"]:
                row["speedup_tpot"] = round(sum(tpots) / len(tpots) / row["tpot_ms"], 4)


def _point(row: Row) -> tuple[Any, ...]:
    key = json.loads(row["key"])
    settings = {name: value for name, value in key.get("settings", {}).items() if name != "compilation_config"}
    return (
        row["target"], row["quantization"], row["weights"], json.dumps(settings, sort_keys=True),
        key.get("engine_process"), row["concurrency"], row["input_tokens"], row["output_tokens"],
    )  # fmt: skip


def _ratio(value: float, baselines: Sequence[float]) -> float:
    return round(value * len(baselines) / sum(baselines), 4)
