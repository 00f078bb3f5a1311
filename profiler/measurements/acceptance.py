"""How do acceptance rows become the data set? Columns of the two tables, their labels, and the merging of a sweep.

acceptance_cells.csv has a row for each run of an engine, class of prompts and temperature; acceptance_prompts.csv one
for each prompt of each run. Both are there once acceptance has been measured. Rows are kept as they came; what is
derived is made anew each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from profiler.measurements.cells import acceptance_labels, cell_id, not_yet_in
from profiler.measurements.columns import DRAFT_COUNTS, METHODS, REAL_CELL, Column, column
from profiler.measurements.table import Row, read_json_lines, read_table, write_table

CELLS_FILE, PROMPTS_FILE = "acceptance_cells.csv", "acceptance_prompts.csv"

CELL_COLUMNS: tuple[Column, ...] = (
    *REAL_CELL,
    column("method", "text", "speculative method", among=METHODS[1:]),
    column("drafter", "text", "drafter", required=False),
    column("num_speculative_tokens", "int", "k", least=1, most=16),
    column("draft_sample_method", "text", "greedy or probabilistic drafting", required=False),
    column("temperature", "float", "sampling temperature", least=0, most=2),
    column("prompt_set", "text", "file of prompts"),
    column("structure", "text", "class of prompts, as the file names it"),
    column("structured", "bool", "whether JSON was enforced"),
    column("prompts", "int", "prompts asked", least=1),
    column("input_tokens", "int", "of all prompts", least=1),
    column("acceptance_length", "float", "LABEL: AL = 1 + accepted / drafts", required=False, derived=True, least=1),
    column("tokens_per_step", "float", "LABEL: τ = decode tokens / decode steps", derived=True, least=1),
    column("draft_share", "float", "LABEL: m = drafts / decode steps", derived=True, least=0),
    column("acceptance_per_position", "floats", "LABEL: α_i, accepted at i of those accepted at i - 1",
           required=False, derived=True),
    column("decode_tokens", "int", "tokens written, first ones left out", least=0),
    column("decode_steps", "int", "steps that wrote them, over all requests", least=0),
    *DRAFT_COUNTS,
    column("seconds", "float", "all of the cell", least=0),
    column("engine_version", "text", "vLLM's"),
    column("gpu", "text", "as nvidia-smi names it; empty on a CPU", required=False),
    column("git_revision", "text", "this repository's, when measuring", required=False),
    column("key", "text", "every setting that makes this cell this cell, as JSON"),
)  # fmt: skip

PROMPT_COLUMNS: tuple[Column, ...] = (
    column("cell_id", "text", "the cell that it belongs to", derived=True),
    column("run", "int", "and its run", derived=True, least=1),
    column("prompt_set", "text", "file of prompts"),
    column("prompt", "int", "record of the file, from 0", least=0),
    column("input_tokens", "int", "prompt length, chat template included", least=1),
    column("output_tokens", "int", "answer length", least=0),
    column("decode_steps", "int", "steps after the first token", least=0),
    column("step_lengths", "ints", "how many of them wrote 1, 2, ..., k + 1 tokens"),
    column("copied_share", "float", "share of the answer's runs of four tokens that the prompt holds",
           required=False, least=0, most=1),
)  # fmt: skip


def merge_acceptance(sweep: Path, folder: Path) -> int:
    """Add an acceptance sweep's --out folder to the tables; the number of new cells."""
    cells, prompts = read_acceptance(folder)
    runs: dict[str, int] = defaultdict(int)
    for cell in cells:
        runs[cell["cell_id"]] = max(runs[cell["cell_id"]], cell["run"])
    new: list[Row] = []
    for raw in not_yet_in(cells, read_json_lines(sweep / "acceptance_cells.jsonl")):
        name = cell_id(raw["key"])
        runs[name] += 1
        new.append(raw | {"cell_id": name, "run": runs[name]})
    latest = {row["key"]: row for row in new}  # a sweep measures a key once
    prompts += [
        raw | {"cell_id": latest[raw["key"]]["cell_id"], "run": latest[raw["key"]]["run"]}
        for raw in read_json_lines(sweep / "acceptance_prompts.jsonl") if raw["key"] in latest
    ]  # fmt: skip
    write_table(folder / CELLS_FILE, CELL_COLUMNS, [row | acceptance_labels(row) for row in [*cells, *new]])
    write_table(folder / PROMPTS_FILE, PROMPT_COLUMNS, prompts)
    return len(new)


def read_acceptance(folder: Path) -> tuple[list[Row], list[Row]]:
    """Cells and prompts; empty where none was measured yet."""
    if not (folder / CELLS_FILE).exists():
        return [], []
    return read_table(folder / CELLS_FILE, CELL_COLUMNS), read_table(folder / PROMPTS_FILE, PROMPT_COLUMNS)


def acceptance_problems(cells: Iterable[Row], prompts: Iterable[Row]) -> list[str]:
    """What is wrong across the two tables, one line each."""
    by_cell: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for prompt in prompts:
        by_cell[prompt["cell_id"], prompt["run"]].append(prompt)
    problems = []
    for cell in cells:
        own = by_cell.pop((cell["cell_id"], cell["run"]), [])
        name = f"{CELLS_FILE}: {cell['cell_id']} run {cell['run']}"
        if len(own) != cell["prompts"]:
            problems.append(f"{name}: {len(own)} prompts of {cell['prompts']}")
        elif sum(prompt["decode_steps"] for prompt in own) != cell["decode_steps"]:
            problems.append(f"{name}: its prompts' steps do not add up")
        if cell != cell | acceptance_labels(cell):
            problems.append(f"{name}: labels not derived anew")
    return problems + [f"{PROMPTS_FILE}: prompts of no cell: {cell}" for cell, _ in by_cell]
