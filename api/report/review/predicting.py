"""How far may predictions be believed? What was measured to fit them, and how far off they were where no fit looked."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from models.artefact import folder_in_use
from models.step_cost import read_constants
from profiler.errors import ArtefactError

_CARD = "card.json"


def coverage() -> str:
    """What the cells that step costs were fitted to have among them."""
    seen = read_constants().measured
    ranks = ", ".join(str(size) for size in sorted(seen.tensor_parallel_sizes))
    return (
        f"Step costs were measured on {_listed(seen.gpus)} with vLLM {_listed(seen.engines)}: "
        f"{_listed(seen.methods)}, targets of {seen.least_parameters / 1e9:.1f} to {seen.most_parameters / 1e9:.1f} "
        f"billion parameters, tensor parallel {ranks}, up to {seen.concurrency:,.0f} requests at once and contexts of "
        f"{seen.context_tokens:,.0f} tokens."
    )


def accuracy() -> tuple[str, ...]:
    """Held-out errors of the speedup, acceptance being given, and of the acceptance."""
    card = _card()
    try:
        ours = card["step_cost"]["families"]["one target out"]["all"]["specworth"]
        told = [
            f"Speedups end to end, acceptance given, on targets that no fit saw: off by {ours['mape']:.1%} on average "
            f"over {ours['cells']:,} cells; {ours['coverage']:.0%} lie inside the interval.",
        ]
        for row in card["acceptance"]["families"]["every fifth prompt out"]:
            if row["predictor"] == "model":
                told.append(
                    f"Acceptance length, {row['method']}, on prompts that no fit saw: off by {row['MAE of AL']:.2f} "
                    f"on average over {row['cells']:,} cells."
                )
    except (KeyError, TypeError) as error:
        raise ArtefactError(f"the models' card {_CARD} is of another version", got=f"no {error}") from error
    return tuple(told)


@cache
def _card() -> dict[str, Any]:
    path = folder_in_use() / _CARD
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtefactError(f"the models' card {path} cannot be read", got=str(error)) from error
    return found


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
