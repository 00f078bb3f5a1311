"""How many prompts a second does the structure classifier read, on one core, end to end?

    python benchmarks/bench_structure.py

Prompt objects go in, probabilities come out; loading is reported apart. The last line of output is JSON.
"""

from __future__ import annotations

import json
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from models.structure import STRUCTURES, structure_probabilities
from models.structure.corpus import Example, generate_corpus
from models.structure.scorer import load_scorer
from profiler.prompts.sample import Message, Prompt

PROMPTS = 4000
LENGTHS = (300, 2000, 20000)  # characters


def of_length(examples: list[Example], characters: int) -> list[Prompt]:
    """Prompts of just so many characters, each joined from several of the corpus in one language."""
    by_language: dict[str, list[str]] = {}
    for example in examples:
        by_language.setdefault(example.language, []).append(example.prompt.instruction)
    prompts = []
    for at in range(PROMPTS):
        texts = by_language[examples[at % len(examples)].language]
        text = ""
        while len(text) < characters:
            text += texts[(at + len(text)) % len(texts)] + "\n"
        prompts.append(Prompt((Message("user", text[:characters]),)))
    return prompts


def main() -> None:
    started = time.perf_counter()
    load_scorer()
    load_ms = (time.perf_counter() - started) * 1e3
    examples = generate_corpus(STRUCTURES, per_class=300, seed=1)
    random.Random(1).shuffle(examples)
    report = {"benchmark": "structure", "load_ms": round(load_ms, 1)}
    for characters in LENGTHS:
        prompts = of_length(examples, characters)
        best = min(timed(prompts) for _ in range(5))
        report[f"prompts_per_s_at_{characters}_characters"] = round(PROMPTS / best)
    print(json.dumps(report))


def timed(prompts: list[Prompt]) -> float:
    started = time.process_time()
    structure_probabilities(prompts)
    return time.process_time() - started


if __name__ == "__main__":
    main()
