"""Which acceptance shall be measured? Engines of real weights x classes of prompts x temperatures, read from YAML.

    models: {target: target-1.5b, draft: draft-0.5b}          # folders below --models
    prompts: {holdout: ../structure_holdout.jsonl}            # JSON lines, relative to the grid file
    prompts_per_class: 16
    output_tokens: 200
    engines:
      - {name: draft-k7, target: target, temperatures: [0, 0.7], speculation: {method: draft_model, draft: draft,
         num_speculative_tokens: 7}}

A record of a prompt file has a class ("class" or "category") and a conversation ("messages", "prompt", or "turns", of
which the first is asked). Refused: unknown fields, files without such records, imposed acceptance.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from profiler.sweep.grid import GridError, SweptSpeculation, parse_grid
from profiler.sweep.weights import check_models


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AcceptanceEngine(_Frozen):
    """One engine, and the temperatures that every class of prompts is asked at."""

    name: str
    target: str
    speculation: SweptSpeculation
    temperatures: tuple[Annotated[float, Field(ge=0.0, le=2.0)], ...] = (0.0,)
    structured: bool = False
    """Ask for JSON of the record's own schema (or of any object); only of classes that write JSON."""
    settings: dict[str, Any] = {}


class AcceptanceGrid(_Frozen):
    """A grid file as it stands."""

    models: dict[str, str]
    prompts: dict[str, str]
    prompts_per_class: int = Field(default=16, ge=1)
    output_tokens: int = Field(default=200, ge=2)
    settings: dict[str, Any] = {}
    json_classes: tuple[str, ...] = ("json", "extraction", "tool_calling")
    engines: tuple[AcceptanceEngine, ...]


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """One conversation; `number` is its record's place in the file, from 0."""

    prompt_set: str
    number: int
    structure: str
    messages: tuple[dict[str, Any], ...]
    schema: dict[str, Any] | None


def read_acceptance_grid(path: Path) -> AcceptanceGrid:
    """Read and check a grid file; GridError says what is wrong and where."""
    grid = parse_grid(path, AcceptanceGrid)
    for engine in grid.engines:
        check_models(engine.name, engine.target, engine.speculation, grid.models)
    return grid


def read_asked_prompts(grid: AcceptanceGrid, folder: Path) -> dict[tuple[str, str], list[AskedPrompt]]:
    """The first `prompts_per_class` prompts of each class, by prompt set and class."""
    found = read_prompt_files(grid.prompts, folder)
    return {group: asked[: grid.prompts_per_class] for group, asked in found.items()}


def read_prompt_files(files: Mapping[str, str], folder: Path) -> dict[tuple[str, str], list[AskedPrompt]]:
    """All conversations of the files of prompt sets, by prompt set and class; names are relative to `folder`."""
    found: dict[tuple[str, str], list[AskedPrompt]] = defaultdict(list)
    for name, file in files.items():
        path = folder / file
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise GridError(f"cannot read {path}", got=error.strerror, field="prompts") from error
        for number, line in enumerate(lines):
            asked = _asked(name, number, json.loads(line)) if line.strip() else None
            if asked is not None:
                found[name, asked.structure].append(asked)
    if not any(found.values()):
        raise GridError("no prompt file holds a class with a conversation", field="prompts")
    return dict(found)


def _asked(prompt_set: str, number: int, record: dict[str, Any]) -> AskedPrompt | None:
    structure = record.get("class") or record.get("category")
    messages = record.get("messages")
    if messages is None:
        text = record.get("prompt") or next(iter(record.get("turns", ())), None)
        messages = [{"role": "user", "content": text}] if text else None
    if not structure or not messages:
        return None
    schema = ((record.get("response_format") or {}).get("json_schema") or {}).get("schema")
    return AskedPrompt(prompt_set, number, structure, tuple(messages), schema)
