"""Rows in a sweep's own format, drawn from acceptances that are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

KINDS = {"own": ("code", "json", "creative"), "other": ("summarisation", "math", "chat")}
EFFECT = {"code": 0.5, "json": 0.9, "creative": -0.8, "summarisation": 0.1, "math": 0.4, "chat": -0.3}
SLOPE = {"code": 0.4, "json": 0.1, "creative": 0.9, "summarisation": 0.6, "math": 0.2, "chat": 0.5}
COPIES = {"code": 0.0, "json": 0.3, "creative": -1.0, "summarisation": 1.0, "math": -0.3, "chat": -0.6}
LEVEL, POWER, RELIEF, DECAY = 1.2, 1.5, 0.4, 0.1
ENGINES = (
    ("draft-greedy", {"method": "draft_model", "draft": "draft", "num_speculative_tokens": 7}, (0.0, 0.7, 1.0)),
    ("draft-soft", {"method": "draft_model", "draft": "draft", "num_speculative_tokens": 7,
                    "draft_sample_method": "probabilistic"}, (0.7, 1.0)),
    ("draft-short", {"method": "draft_model", "draft": "draft", "num_speculative_tokens": 3}, (0.0,)), ("ngram",
    {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 2, "prompt_lookup_max": 5}, (0.0, 1.0)),
    ("ngram-long", {"method": "ngram", "num_speculative_tokens": 7, "prompt_lookup_min": 4, "prompt_lookup_max": 8},
    (0.0,)),
)  # fmt: skip


def true_odds(kind: str, temperature: float, *, soft: bool = False, position: int = 1) -> float:
    """Log-odds that a draft model's token at this position is accepted, for the mean prompt."""
    heat = temperature**POWER * (RELIEF if soft else 1.0)
    return LEVEL + EFFECT[kind] - SLOPE[kind] * heat + DECAY * np.log(position)


def _expit(odds: np.ndarray | float) -> np.ndarray | float:
    return 1.0 / (1.0 + np.exp(-np.asarray(odds)))


def _answer(
    rng: np.random.Generator, kind: str, particular: float, engine: dict, temperature: float
) -> tuple[list[int], int]:
    """Tokens of each step of one answer of 200 tokens, and how many steps drafted."""
    k = engine["num_speculative_tokens"]
    soft = engine.get("draft_sample_method") == "probabilistic"
    steps, drafts, left = [], 0, 199
    while left > 0:
        if engine["method"] == "ngram":
            shorter = np.log(engine["prompt_lookup_min"] / 5)
            copy = COPIES[kind] + particular
            drafted = rng.random() < _expit(-0.6 + copy - 0.6 * shorter - 0.3 * temperature)
            odds = 0.4 + 0.4 * copy + 0.3 * shorter - 0.3 * temperature
            alpha = np.full(k, _expit(odds))
        else:
            drafted = True
            alpha = _expit(
                np.array([true_odds(kind, temperature, soft=soft, position=i) for i in range(1, k + 1)]) + particular
            )
        taken = int(np.cumprod(rng.random(k) < alpha).sum()) if drafted else 0
        drafts += int(drafted)
        steps.append(min(taken + 1, left))
        left -= taken + 1
    return steps, drafts


def write_sweep(folder: Path, *, prompts: int = 10, between: float = 0.4, seed: int = 0) -> None:
    """A sweep's two files of rows; prompts differ by `between` on the log odds."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    particular = {(s, i): rng.normal(0, between) for s in KINDS for i in range(len(KINDS[s]) * prompts)}
    cells, rows = [], []
    for name, engine, temperatures in ENGINES:
        for prompt_set, kinds in KINDS.items():
            for place, kind in enumerate(kinds):
                for temperature in temperatures:
                    key = json.dumps({"speculation": engine, "structure": kind, "prompt_set": prompt_set,
                                      "temperature": temperature, "target": "target"}, sort_keys=True)  # fmt: skip
                    k, drafts, own = engine["num_speculative_tokens"], 0, []
                    for number in range(place * prompts, (place + 1) * prompts):
                        steps, drafted = _answer(rng, kind, particular[prompt_set, number], engine, temperature)
                        drafts += int(drafted)
                        counts = [steps.count(length) for length in range(1, k + 2)]
                        own.append({"key": key, "prompt_set": prompt_set, "prompt": number, "input_tokens": 50,
                                    "output_tokens": 200, "decode_steps": len(steps), "step_lengths": counts,
                                    "copied_share": 0.1})  # fmt: skip
                    lengths = np.array([row["step_lengths"] for row in own]).sum(axis=0)
                    accepted = [int(lengths[i:].sum()) for i in range(1, k + 1)]
                    cells.append({
                        "key": key, "protocol": 1, "measured_at": f"{len(cells)}", "engine": name, "target": "target",
                        "method": engine["method"], "drafter": engine.get("draft"), "num_speculative_tokens": k,
                        "draft_sample_method": engine.get("draft_sample_method", "greedy") if engine.get("draft") else
                        None, "temperature": temperature, "prompt_set": prompt_set, "structure": kind, "structured":
                        False, "prompts": prompts, "input_tokens": 50 * prompts, "decode_tokens": 199 * prompts,
                        "decode_steps": int(lengths.sum()), "drafts": drafts, "drafted_tokens": drafts * k,
                        "accepted_tokens": sum(accepted), "accepted_per_position": accepted, "seconds": 1.0,
                        "engine_version": "0.26.0",
                    })  # fmt: skip
                    rows += own
    for name, found in (("acceptance_cells", cells), ("acceptance_prompts", rows)):
        text = "".join(json.dumps(row) + "\n" for row in found)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def certain_features(prompts: int = 10, confidence: float = 0.9) -> dict[tuple[str, int], np.ndarray]:
    """Scores of a scorer that is nearly sure of each prompt's kind, and right."""
    from models.structure import STRUCTURES

    found = {}
    for prompt_set, kinds in KINDS.items():
        for place, kind in enumerate(kinds):
            score = np.full(len(STRUCTURES), (1 - confidence) / (len(STRUCTURES) - 1))
            score[STRUCTURES.index(kind)] = confidence
            found |= {(prompt_set, number): score for number in range(place * prompts, (place + 1) * prompts)}
    return found
