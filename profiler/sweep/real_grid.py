"""Which real traffic shall be measured end to end? Engines of real weights x classes of prompts x load, from YAML.

    models: {Big: big-folder, Small: small-folder}    # folders below --models
    prompts: {own: ../acceptance_prompts.jsonl}       # JSON lines with a class and a conversation each
    prompts_per_class: 8                              # evenly taken from all of a class
    output_tokens: 200                                # no answer is longer
    traffic:
      main: [{classes: [edit, code], temperatures: [0], concurrency: [1, 16]}]
    engines:
      - {name: base, target: Big, traffic: [main]}    # without speculation: what all others are compared with
      - {name: draft-k3, target: Big, traffic: [main], speculation: {method: draft_model, draft: Small,
         num_speculative_tokens: 3}}

Cells come in the order of the blocks, within a block by temperature, concurrency and class: a run that ends early has
all classes of the first concurrencies. Refused: unknown fields, models and classes, imposed acceptance, two cells that
are one, prefix caching (prompts are asked again and again, and would cost nothing).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from profiler.sweep.acceptance_grid import AskedPrompt, read_prompt_files
from profiler.sweep.grid import GridError, SweptSpeculation, parse_grid, refuse_one_name
from profiler.sweep.weights import check_models, engine_arguments

Temperature = Annotated[float, Field(ge=0.0, le=2.0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RealCell(_Frozen):
    """One class of prompts at one temperature and a constant number of requests in flight."""

    prompt_set: str
    structure: str
    temperature: Temperature = 0.0
    concurrency: Annotated[int, Field(ge=1)]

    def label(self) -> str:
        """`class x concurrency T temperature`."""
        return f"{self.structure} x{self.concurrency} T{self.temperature:g}"


class _Engine(_Frozen):
    name: str
    target: str
    speculation: SweptSpeculation | None = None
    settings: dict[str, Any] = {}


class RealEngine(_Engine):
    """One engine and its cells, in their order."""

    cells: tuple[RealCell, ...]


class RealGrid(_Frozen):
    """What is to be measured, with the prompts of each set and class."""

    models: dict[str, str]
    output_tokens: int
    engines: tuple[RealEngine, ...]
    prompts: dict[tuple[str, str], tuple[AskedPrompt, ...]]

    def key(self, engine: RealEngine, cell: RealCell) -> str:
        """What makes a cell this cell and no other, as text; a resumed run skips the keys that it finds."""
        facts = engine.model_dump(exclude={"name", "cells"}, exclude_defaults=True) | cell.model_dump()
        facts |= {"output_tokens": self.output_tokens, "prompts": self.numbers(cell)}
        return json.dumps(facts, sort_keys=True, separators=(",", ":"))

    def numbers(self, cell: RealCell) -> list[int]:
        """The places of the cell's prompts in their file."""
        return [prompt.number for prompt in self.prompts[cell.prompt_set, cell.structure]]

    def arguments(self, engine: RealEngine, folder: Path) -> dict[str, Any]:
        """vLLM's engine arguments; model folders below `folder`."""
        settings = engine.settings | {"enable_prefix_caching": False}
        return engine_arguments(engine.target, engine.speculation, models=self.models, folder=folder, settings=settings)


class _Block(_Frozen):
    classes: tuple[str, ...]
    temperatures: tuple[Temperature, ...] = (0.0,)
    concurrency: tuple[Annotated[int, Field(ge=1)], ...]


class _EngineEntry(_Engine):
    traffic: tuple[str, ...]


class _GridFile(_Frozen):
    models: dict[str, str]
    prompts: dict[str, str]
    prompts_per_class: int = Field(default=8, ge=1)
    output_tokens: int = Field(default=200, ge=2)
    settings: dict[str, Any] = {}
    traffic: dict[str, tuple[_Block, ...]]
    engines: tuple[_EngineEntry, ...]


def read_real_grid(path: Path) -> RealGrid:
    """Read and check a grid and its prompts; GridError says what is wrong and where."""
    file = parse_grid(path, _GridFile)
    found = read_prompt_files(file.prompts, path.parent)
    prompts = {group: tuple(_evenly(asked, file.prompts_per_class)) for group, asked in found.items()}
    sets = {structure: prompt_set for prompt_set, structure in reversed(prompts)}  # the first set that has the class
    refuse_one_name(entry.name for entry in file.engines)
    engines = []
    for entry in file.engines:
        check_models(entry.name, entry.target, entry.speculation, file.models)
        settings = file.settings | entry.settings
        if settings.get("enable_prefix_caching"):
            raise GridError(
                f"engine {entry.name} would find its prompts cached", field="settings.enable_prefix_caching"
            )
        engines.append(RealEngine(
            name=entry.name, target=entry.target, speculation=entry.speculation, settings=settings,
            cells=tuple(_cells(entry, file, sets)),
        ))  # fmt: skip
    return RealGrid(models=file.models, output_tokens=file.output_tokens, engines=tuple(engines), prompts=prompts)


def _cells(entry: _EngineEntry, file: _GridFile, sets: dict[str, str]) -> list[RealCell]:
    cells = []
    for name in entry.traffic:
        if name not in file.traffic:
            raise GridError(
                f"engine {entry.name} names unknown traffic", got=name, expected=", ".join(file.traffic),
                field="engines.traffic",
            )  # fmt: skip
        for block in file.traffic[name]:
            for structure in block.classes:
                if structure not in sets:
                    raise GridError(
                        f"traffic {name} names a class without prompts", got=structure, expected=", ".join(sets),
                        field="traffic.classes",
                    )  # fmt: skip
            cells += [
                RealCell(prompt_set=sets[structure], structure=structure, temperature=temperature, concurrency=slots)
                for temperature in block.temperatures for slots in block.concurrency for structure in block.classes
            ]  # fmt: skip
    if len(set(cells)) < len(cells):
        raise GridError(f"engine {entry.name} names a cell twice", field="engines.traffic")
    return cells


def _evenly(asked: Sequence[AskedPrompt], most: int) -> list[AskedPrompt]:
    """At most so many, from the whole of the list: neighbours in a file are variations of one text."""
    count = min(most, len(asked))
    return [asked[place * len(asked) // count] for place in range(count)]
