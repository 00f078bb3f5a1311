"""What was accepted, prompt by prompt, as arrays that acceptance is fitted to?

One row is one prompt under one engine and temperature. Its decode steps are known by how many tokens each wrote; what
the engine counted by cell (drafts, and accepted tokens by position) scales them, since a request's last step is cut at
its end and the engine's counters are not. Methods that copy draft on some steps alone, and a step that wrote one token
may or may not have drafted: the cell's drafts that failed at once are given to its prompts by their single-token steps.

Refused: rows without structure scores, and models whose size nobody knows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.acceptance.estimate import POSITIONS
from models.acceptance.model import COPYING
from models.estimate import Floats
from models.structure import STRUCTURES
from models.training.acceptance_features import PromptKey, read_features
from profiler.measurements.acceptance import read_acceptance
from profiler.measurements.table import MeasurementsError, Row

# Parameters of what data/grids/acceptance-1.yaml calls its models: Qwen2.5-Coder-1.5B- and 0.5B-Instruct, model cards.
GRID_PARAMETERS = {"target": 1.544e9, "draft": 0.494e9}

Labels = NDArray[np.str_]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class AcceptanceRows:
    """Equal-length arrays; what is nan beyond a row's k is 0 here, with no trials."""

    prompt: Labels  # prompt set and record: rows of one prompt are never apart in a fold
    prompt_set: Labels
    kind: Labels  # class as its file names it: for baselines and groups, never a feature
    cell: Labels  # cell and run
    setting: Labels  # method, way of drafting, shortest match and temperature in one
    method: Labels
    num_speculative_tokens: NDArray[np.int64]
    temperature: Floats
    probabilistic: Mask
    structured: Mask  # JSON was enforced
    size_ratio: Floats
    lookup_min: Floats
    structure: Floats  # (n, classes)
    copied_share: Floats  # nan: unknown
    input_tokens: Floats
    output_tokens: Floats
    steps: Floats
    drafts: Floats
    accepted: Floats  # (n, POSITIONS)

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.method.shape[0])

    def take(self, rows: Mask | NDArray[np.int64]) -> AcceptanceRows:
        """Those rows alone."""
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @property
    def copying(self) -> Mask:
        """Rows of methods that draft on a match alone."""
        found: Mask = np.isin(self.method, COPYING)
        return found

    @property
    def tokens_per_step(self) -> Floats:
        """τ of each row."""
        found: Floats = 1.0 + self.accepted.sum(axis=1) / np.maximum(self.steps, 1e-9)
        return found

    def length(self, k: int) -> Floats:
        """AL as k draft tokens would have had it; nan where nothing was drafted or fewer were."""
        known = (self.drafts > 0) & (self.num_speculative_tokens >= k)
        found = 1.0 + self.accepted[:, :k].sum(axis=1) / np.where(known, self.drafts, 1.0)
        return np.where(known, found, np.nan)


def read_rows(folder: Path) -> AcceptanceRows:
    """The rows of a folder of measurements; none where no acceptance was measured."""
    cells, prompts = read_acceptance(folder)
    if not cells:
        return _rows([])
    features = read_features(folder)
    by_cell: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for prompt in prompts:
        by_cell[prompt["cell_id"], prompt["run"]].append(prompt)
    found: list[Row] = []
    for cell in cells:
        found += _prompts_of(cell, by_cell[cell["cell_id"], cell["run"]], features)
    return _rows(found)


def joined_rows(parts: Sequence[AcceptanceRows]) -> AcceptanceRows:
    """The rows of several folders."""
    if not parts:
        return _rows([])
    names = [field.name for field in fields(AcceptanceRows)]
    return AcceptanceRows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _prompts_of(cell: Row, prompts: Sequence[Row], features: dict[PromptKey, Floats]) -> list[Row]:
    """One cell's prompts with their counts, scaled to the cell's own."""
    k = cell["num_speculative_tokens"]
    own = [prompt for prompt in prompts if prompt["decode_steps"] > 0]
    if not own:
        return []
    lengths = np.array([prompt["step_lengths"] for prompt in own], dtype=np.float64)
    steps = lengths.sum(axis=1)
    # Steps that wrote more than i tokens accepted draft token i.
    accepted = lengths[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    counted = np.zeros(k)
    given = cell["accepted_per_position"] or ()
    counted[: len(given)] = given
    total = accepted.sum(axis=0)
    accepted = accepted * np.divide(counted, total, out=np.zeros(k), where=total > 0)[None, :]
    if cell["method"] in COPYING:
        failed = max(cell["drafts"] - counted[0], 0.0)
        single = np.maximum(steps - accepted[:, 0], 0.0)
        drafts = accepted[:, 0] + single * min(failed / max(single.sum(), 1e-9), 1.0)
    else:
        drafts = steps * cell["drafts"] / steps.sum()
    # Scaling position by position must not let a later one pass an earlier one.
    accepted = np.minimum.accumulate(np.minimum(accepted, drafts[:, None]), axis=1)
    padded = np.zeros((len(own), POSITIONS))
    padded[:, : min(k, POSITIONS)] = accepted[:, :POSITIONS]
    least = json.loads(cell["key"])["speculation"].get("prompt_lookup_min") or np.nan
    shared = {
        "prompt_set": cell["prompt_set"], "kind": cell["structure"], "cell": f"{cell['cell_id']}-{cell['run']}",
        "method": cell["method"], "num_speculative_tokens": k,
        "temperature": cell["temperature"], "probabilistic": cell["draft_sample_method"] == "probabilistic",
        "structured": cell["structured"], "size_ratio": size_ratio(cell["drafter"], cell["target"]),
        "lookup_min": least,
        "setting": f"{cell['method']} {cell['draft_sample_method']} {least:g} {cell['temperature']:g}",
    }  # fmt: skip
    return [
        shared | {
            "prompt": f"{prompt['prompt_set']}/{prompt['prompt']}", "structure": _scores(features, prompt),
            "copied_share": np.nan if prompt["copied_share"] is None else prompt["copied_share"],
            "input_tokens": prompt["input_tokens"], "output_tokens": prompt["output_tokens"],
            "steps": steps[i], "drafts": drafts[i], "accepted": padded[i],
        }
        for i, prompt in enumerate(own)
    ]  # fmt: skip


def _scores(features: dict[PromptKey, Floats], prompt: Row) -> Floats:
    found = features.get((prompt["prompt_set"], prompt["prompt"]))
    if found is None:
        raise MeasurementsError(
            "a prompt whose acceptance was measured has no structure scores", got=f"{prompt['prompt_set']}/"
            f"{prompt['prompt']}", remedy="add its set with `python -m models.training.acceptance_features`",
        )  # fmt: skip
    return found


def size_ratio(drafter: str | None, target: str) -> float:
    """Parameters of the drafter by those of the target; nan without a drafter."""
    if drafter is None:
        return float("nan")
    return _parameters(drafter) / _parameters(target)


def _parameters(name: str) -> float:
    from profiler.catalog import find_model

    return GRID_PARAMETERS[name] if name in GRID_PARAMETERS else float(find_model(name).parameters)


def _rows(found: list[Row]) -> AcceptanceRows:
    kinds: dict[str, object] = {
        **dict.fromkeys(("prompt", "prompt_set", "kind", "cell", "setting", "method"), np.str_),
        **dict.fromkeys(("probabilistic", "structured"), np.bool_), "num_speculative_tokens": np.int64,
    }  # fmt: skip
    widths = {"structure": len(STRUCTURES), "accepted": POSITIONS}
    arrays = {}
    for field in fields(AcceptanceRows):
        values = np.array([row[field.name] for row in found], dtype=kinds.get(field.name, np.float64))  # type: ignore[call-overload]
        arrays[field.name] = values.reshape(-1, widths[field.name]) if field.name in widths else values
    return AcceptanceRows(**arrays)
