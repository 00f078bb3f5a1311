"""Which files does an engine need to run a shape? A config.json written from dimension numbers, and nothing else.

vLLM fills the weights itself (`load_format="dummy"`) and takes token ids instead of text (`skip_tokenizer_init`), so a
published architecture runs at its real speed without a download. The text it then writes means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_model(folder: Path, shape: Mapping[str, Any]) -> Path:
    """Write `shape` as the config.json of a model folder and give the folder back."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(shape), indent=1), encoding="utf-8")
    return folder


def conditional_acceptance(*, acceptance_length: float, num_speculative_tokens: int) -> float:
    """The one probability α with 1 + α + … + α^k = acceptance_length (Leviathan et al. 2023), by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        length = sum(middle**i for i in range(num_speculative_tokens + 1))
        low, high = (middle, high) if length < acceptance_length else (low, middle)
    return (low + high) / 2


def acceptance_rates(*, acceptance_length: float, num_speculative_tokens: int) -> list[float]:
    """Unconditional acceptance per position for vLLM's synthetic rejection sampling, from one α for all positions.

    vLLM's own reading of a length is the schedule of least variance (1, 1, …, rest, 0), which keeps all sequences in
    step; a constant α spreads the accepted lengths as a real drafter does.
    """
    alpha = conditional_acceptance(acceptance_length=acceptance_length, num_speculative_tokens=num_speculative_tokens)
    return [round(alpha**i, 6) for i in range(1, num_speculative_tokens + 1)]
