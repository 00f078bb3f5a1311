"""What do real weights accept? `python -m profiler.sweep.acceptance GRID.yaml --models DIR --out DIR`

For each engine, class of prompts and temperature all prompts of the class are asked at once, each to its own end.
vLLM's counters give drafts and acceptance by position over the cell; the tokens that each decode step adds to each
request give the same by prompt, without asking one prompt at a time. How much of an answer is copied from its prompt is
kept, too: it decides what prompt lookup finds. Tokens accepted beyond an answer's end are in vLLM's
counters and not in the prompts' steps.

Rows: acceptance_cells.jsonl, one a cell, and acceptance_prompts.jsonl, one a prompt. A cell is kept whole or not at
all; a second run with --resume goes on. On a CPU only temperature 0 is valid (vLLM reads unset buffers above it).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from profiler.engine import EngineError, InProcessEngine, import_vllm, prepare_environment
from profiler.errors import SpecworthError
from profiler.serving.interruption import Interrupted, interruptible
from profiler.sweep.acceptance_grid import (
    AcceptanceEngine,
    AcceptanceGrid,
    AskedPrompt,
    read_acceptance_grid,
    read_asked_prompts,
)
from profiler.sweep.closed_loop import Counters
from profiler.sweep.host import read_host, wait_for_free_gpu
from profiler.sweep.process import lead_group, print_to, running
from profiler.sweep.rows import RowsError, append_row, read_rows, speculation_facts
from profiler.sweep.session import tell_stopped
from profiler.sweep.weights import engine_arguments
from profiler.sweep.worker import DISK_FULL

PROTOCOL_VERSION = 1
SHINGLE = 4  # tokens in a row that count as copied
CELLS, PROMPTS = "acceptance_cells.jsonl", "acceptance_prompts.jsonl"
ANY_OBJECT = {"type": "object"}


class TextEngine(Protocol):
    """What a cell needs of an engine."""

    def submit_text(
        self, request_id: str, prompt: list[int], *, output_tokens: int, temperature: float, seed: int,
        schema: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Queue one request."""

    def step_tokens(self) -> list[tuple[str, list[int], bool]]:
        """Wait for the next output: request, new tokens, whether it ended."""

    def counters(self) -> Counters:
        """Totals since the engine started."""


@dataclass(slots=True)
class PromptOutcome:
    """One answer: its tokens, and how many decode steps added 1, 2, ... tokens."""

    input_tokens: int
    output: list[int] = field(default_factory=list)
    step_lengths: Counter[int] = field(default_factory=Counter)

    @property
    def decode_steps(self) -> int:
        """Steps after the first token."""
        return sum(self.step_lengths.values())


def measure_acceptance(
    engine: TextEngine, prompts: Sequence[list[int]], *, output_tokens: int, temperature: float, seed: int,
    schemas: Sequence[Mapping[str, Any] | None],
) -> tuple[list[PromptOutcome], Counters, float]:  # fmt: skip
    """Ask all prompts at once on an idle engine: outcomes in their order, counters of the cell, seconds."""
    before, began = engine.counters(), time.monotonic()
    outcomes = {}
    for place, (prompt, schema) in enumerate(zip(prompts, schemas, strict=True)):
        name = f"p{place}"
        outcomes[name] = PromptOutcome(input_tokens=len(prompt))
        engine.submit_text(
            name, prompt, output_tokens=output_tokens, temperature=temperature, seed=seed + place, schema=schema
        )
    left = set(outcomes)
    while left:
        for name, tokens, ended in engine.step_tokens():
            outcome = outcomes[name]
            if tokens and outcome.output:  # the first token is the prefill's
                outcome.step_lengths[len(tokens)] += 1
            outcome.output += tokens
            if ended:
                left.discard(name)
    return list(outcomes.values()), engine.counters().minus(before), time.monotonic() - began


def copied_share(prompt: Sequence[int], output: Sequence[int], *, shingle: int = SHINGLE) -> float | None:
    """Share of the output's runs of `shingle` tokens that the prompt holds; None where the output is shorter."""
    if len(output) < shingle:
        return None
    known = {tuple(prompt[i : i + shingle]) for i in range(len(prompt) - shingle + 1)}
    runs = [tuple(output[i : i + shingle]) for i in range(len(output) - shingle + 1)]
    return sum(run in known for run in runs) / len(runs)


def cell_rows(
    spec: AcceptanceEngine, asked: Sequence[AskedPrompt], prompts: Sequence[list[int]],
    outcomes: Sequence[PromptOutcome], counted: Counters, *, key: str, temperature: float, seconds: float,
    facts: Mapping[str, Any],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """The cell's row and those of its prompts."""
    k = spec.speculation.num_speculative_tokens
    steps = sum(outcome.decode_steps for outcome in outcomes)
    decoded = sum(max(len(outcome.output) - 1, 0) for outcome in outcomes)
    cell = {
        "key": key, "protocol": PROTOCOL_VERSION, "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": spec.name, "target": spec.target, **speculation_facts(spec.speculation),
        "temperature": temperature, "prompt_set": asked[0].prompt_set, "structure": asked[0].structure,
        "structured": spec.structured, "prompts": len(asked), "input_tokens": sum(map(len, prompts)),
        "decode_tokens": decoded, "decode_steps": steps, "drafts": counted.drafts,
        "drafted_tokens": counted.drafted_tokens, "accepted_tokens": counted.accepted_tokens,
        "accepted_per_position": list(counted.accepted_per_position), "seconds": round(seconds, 3), **facts,
    }  # fmt: skip
    rows = [
        {
            "key": key, "prompt_set": prompt.prompt_set, "prompt": prompt.number, "input_tokens": outcome.input_tokens,
            "output_tokens": len(outcome.output), "decode_steps": outcome.decode_steps,
            "step_lengths": [outcome.step_lengths[length] for length in range(1, k + 2)],
            "copied_share": None if (share := copied_share(ids, outcome.output)) is None else round(share, 4),
        }
        for prompt, ids, outcome in zip(asked, prompts, outcomes, strict=True)
    ]  # fmt: skip
    return cell, rows


def cell_key(spec: AcceptanceEngine, grid: AcceptanceGrid, prompt_set: str, structure: str, temperature: float) -> str:
    """What makes an acceptance cell this one and no other."""
    facts = spec.model_dump(exclude={"name", "temperatures"}, exclude_defaults=True)
    facts |= {"prompt_set": prompt_set, "structure": structure, "temperature": temperature}
    facts |= {"output_tokens": grid.output_tokens, "prompts_per_class": grid.prompts_per_class}
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def _measure_engine(
    spec: AcceptanceEngine, grid: AcceptanceGrid, asked: Mapping[tuple[str, str], list[AskedPrompt]],
    given: argparse.Namespace,
    done: set[str], deadline: float,
) -> None:  # fmt: skip
    """Process entry: start one engine and measure what is left of it."""
    lead_group()
    told = os.dup(1)
    print_to(given.out / f"{spec.name}.log")
    try:
        version, began = import_vllm(), time.monotonic()
        engine = InProcessEngine(
            engine_arguments(
                spec.target,
                spec.speculation,
                models=grid.models,
                folder=given.models,
                settings=grid.settings | spec.settings,
            )
        )
        facts = {"engine_version": version, **engine.facts(), **read_host().facts()}
        os.write(told, f"{spec.name}: up in {time.monotonic() - began:.1f} s\n".encode())
        for (prompt_set, structure), prompts in asked.items():
            if spec.structured and structure not in grid.json_classes:
                continue
            ids = [engine.encode_chat(list(prompt.messages)) for prompt in prompts]
            schemas = [(prompt.schema or ANY_OBJECT) if spec.structured else None for prompt in prompts]
            for temperature in spec.temperatures:
                key = cell_key(spec, grid, prompt_set, structure, temperature)
                if key in done or time.monotonic() > deadline:
                    continue
                outcomes, counted, seconds = measure_acceptance(
                    engine, ids, output_tokens=grid.output_tokens, temperature=temperature, seed=given.seed,
                    schemas=schemas,
                )  # fmt: skip
                cell, rows = cell_rows(
                    spec,
                    prompts,
                    ids,
                    outcomes,
                    counted,
                    key=key,
                    temperature=temperature,
                    seconds=seconds,
                    facts=facts,
                )
                for row in rows:
                    append_row(given.out / PROMPTS, row)
                append_row(given.out / CELLS, cell)
                tau = cell["decode_tokens"] / max(cell["decode_steps"], 1)
                length = 1 + cell["accepted_tokens"] / cell["drafts"] if cell["drafts"] else float("nan")
                os.write(told, f"  {spec.name} {prompt_set}/{structure} T{temperature:g}: {cell['drafts']} drafts, "
                               f"AL {length:.2f}, tau {tau:.2f} [{seconds:.1f} s]\n".encode())  # fmt: skip
    except (EngineError, RowsError) as error:
        os.write(told, f"{spec.name} failed: {error.line()}\n".encode())
        os._exit(DISK_FULL if isinstance(error, RowsError) else 0)
    os._exit(0)


def main(arguments: list[str] | None = None) -> int:
    """Parse, run each engine in a process of its own, and tell an error in one line."""
    parser = argparse.ArgumentParser(prog="python -m profiler.sweep.acceptance", description=__doc__)
    parser.add_argument("grid", type=Path, help="see data/grids/acceptance-1.yaml")
    parser.add_argument("--models", type=Path, required=True, help="folder of the model folders that the grid names")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="measure no more once this has passed")
    parser.add_argument("--resume", action="store_true", help="go on in --out where an earlier run stopped")
    parser.add_argument("--only", nargs="*", metavar="ENGINE", help="these engines of the grid alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompts", nargs="*", default=[], metavar="NAME=FILE", help="prompt files beside the grid's")
    given = parser.parse_args(arguments)
    if any("=" not in named for named in given.prompts):
        parser.error("--prompts takes NAME=FILE")
    began = time.monotonic()
    try:
        grid = read_acceptance_grid(given.grid)
        more = dict(named.split("=", 1) for named in given.prompts)
        grid = grid.model_copy(update={"prompts": grid.prompts | {k: str(Path(v).absolute()) for k, v in more.items()}})
        asked = read_asked_prompts(grid, given.grid.parent)
    except SpecworthError as error:
        print(error.line(), file=sys.stderr)
        return 2
    try:
        with interruptible():
            return _measure(grid, asked, given, began)
    except Interrupted as stop:
        return tell_stopped(stop, given.out / CELLS)


def _measure(
    grid: AcceptanceGrid, asked: Mapping[tuple[str, str], list[AskedPrompt]], given: argparse.Namespace, began: float
) -> int:
    given.out.mkdir(parents=True, exist_ok=True)
    done = {row["key"] for row in read_rows([given.out / CELLS])} if given.resume else set()
    prepare_environment("separate")
    import_vllm()
    context: Any = multiprocessing.get_context("fork")
    deadline = began + given.time_limit if given.time_limit else float("inf")
    for spec in grid.engines:
        if (given.only and spec.name not in given.only) or time.monotonic() > deadline:
            continue
        wait_for_free_gpu()
        process = context.Process(target=_measure_engine, args=(spec, grid, asked, given, done, deadline))
        with running(process):
            process.join()
        if process.exitcode == DISK_FULL:
            return 1
    print(f"{len(read_rows([given.out / CELLS]))} cells in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
