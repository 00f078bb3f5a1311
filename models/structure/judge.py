"""How well does the classifier do on prompts that it was not made from? `python -m models.structure.judge FILE ...`

Files are JSON lines: `{"category", "turns"}` as Spec-Bench has them, of which first turns count, or `{"class"}` with
`prompt` or `messages` and any of `tools`, `response_format`, `system`. Recall per class goes to standard output, and
with `--record NAME` into the card. Every judging leaves its entry there: a second one is no longer a first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.structure import STRUCTURES, structure_probabilities
from models.structure.artefact import read_card, write_card
from profiler.errors import PromptsError
from profiler.prompts.sample import Message, Prompt, Role

# Spec-Bench's categories as our classes; reasoning has no class of ours and is told unscored.
CATEGORIES: Mapping[str, str | None] = {
    "writing": "creative", "roleplay": "creative", "stem": "question_answering", "humanities": "question_answering",
    "qa": "question_answering", "rag": "summarisation", "summarization": "summarisation", "math": "math",
    "math_reasoning": "math", "coding": "code", "extraction": "json", "translation": "translation", "reasoning": None,
}  # fmt: skip


def read_judgement(path: Path) -> list[tuple[str, str | None, Prompt]]:
    """(category, class or None, prompt) of each row; raises PromptsError for rows that name neither."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        row = json.loads(line)
        category = row.get("category", row.get("class"))
        expected = CATEGORIES.get(category, category)
        if category is None or (expected is not None and expected not in STRUCTURES):
            raise PromptsError(
                f"line {number} of {path} names no class", expected=f"one of {', '.join(STRUCTURES)}", got=str(category)
            )
        rows.append((str(category), expected, _prompt(row)))
    return rows


def judge(rows: Sequence[tuple[str, str | None, Prompt]]) -> dict[str, Any]:
    """Recall per class, per category, their macro mean over classes, and what was taken for what."""
    probabilities = structure_probabilities([prompt for _, _, prompt in rows])
    guesses = [STRUCTURES[i] for i in probabilities.argmax(axis=1)]
    classes: dict[str, list[bool]] = {}
    categories: dict[str, list[bool]] = {}
    confusions: dict[str, int] = {}
    losses: list[float] = []
    unscored: dict[str, int] = {}
    for (category, expected, _), guess, chances in zip(rows, guesses, probabilities, strict=True):
        if expected is None:
            unscored[guess] = unscored.get(guess, 0) + 1
            continue
        classes.setdefault(expected, []).append(guess == expected)
        categories.setdefault(category, []).append(guess == expected)
        losses.append(-math.log(max(float(chances[STRUCTURES.index(expected)]), 1e-9)))
        if guess != expected:
            pair = f"{expected} taken for {guess}"
            confusions[pair] = confusions.get(pair, 0) + 1
    recall = {name: round(float(np.mean(hits)), 3) for name, hits in classes.items()}
    return {
        "macro_recall": round(float(np.mean([np.mean(hits) for hits in classes.values()])), 3),
        "recall": recall,
        "counts": {name: len(hits) for name, hits in classes.items()},
        "recall_by_category": {name: round(float(np.mean(hits)), 3) for name, hits in categories.items()},
        "log_loss": round(float(np.mean(losses)), 3),
        "confusions": dict(sorted(confusions.items(), key=lambda pair: -pair[1])),
        "unscored_guesses": unscored,
    }


def _prompt(row: Mapping[str, Any]) -> Prompt:
    """The request of a row; only a first turn where there are several."""
    messages: list[Message] = []
    if isinstance(row.get("system"), str):
        messages.append(Message("system", row["system"]))
    if "turns" in row:
        messages.append(Message("user", row["turns"][0]))
    elif "prompt" in row and isinstance(row["prompt"], str):
        messages.append(Message("user", row["prompt"]))
    for message in row.get("messages", ()):
        role: Role = message["role"] if message["role"] in ("system", "user", "assistant", "tool") else "user"
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "\n".join(part.get("text", "") for part in content)
        messages.append(Message(role, content))
    tools = row.get("tools") or 0
    style = row.get("response_format")
    return Prompt(
        tuple(messages),
        tools=tools if isinstance(tools, int) else len(tools),
        response_format=style.get("type") if isinstance(style, dict) else style,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the installed artefact; the last line of output is JSON."""
    parser = argparse.ArgumentParser(description="Recall of the structure classifier on labelled prompts.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--record", metavar="NAME", help="add the result to the card under this name")
    options = parser.parse_args(arguments)
    rows = [row for path in options.files for row in read_judgement(path)]
    result = judge(rows)
    if options.record:
        card = read_card()
        texts = "\n".join(prompt.text for _, _, prompt in rows)
        entry = {"name": options.record, "prompts_sha256": hashlib.sha256(texts.encode()).hexdigest(), **result}
        card["judged"].append(entry)
        write_card(card)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
