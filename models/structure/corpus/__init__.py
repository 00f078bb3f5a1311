"""The corpus the structure classifier learns from: prompts made from the project's own templates.

One text file per class. `## LANGUAGE FAMILY` opens a family, a way of asking, and each line under it is a template (a
backslash and n is a line break). Families are the groups of every split, so that a score says how well unseen ways of
asking are told apart. `## LANGUAGE FAMILY paste=KIND,KIND` names the documents that are put before or behind what is
asked. A template that begins with `{"` is a JSON object: `user`, and any of `system`, `turns` (earlier turns,
alternating, the user's first), `tools` and `format`. Lines of one `#` are comments.

No public benchmark prompt is in here. Same seed, same files, same corpus.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.structure.corpus.documents import document
from models.structure.corpus.grammar import PARENTHESES, Fillers, expand
from profiler.prompts.sample import Message, Prompt, Role

FOLDER = Path(__file__).parent
_NOISE = {"lower": 0.10, "unpunctuated": 0.10, "typo": 0.06, "polite": 0.12, "system": 0.10}
_DELIMITERS = (
    "{ask}\n\n{text}",
    "{ask}\n\n{text}",
    "{ask}\n{text}",
    "{ask} {text}",
    "{ask} {text}",
    '{ask}\n\n"{text}"',
    "{ask}\n```\n{text}\n```",
    "{text}\n\n{ask}",
    "{text}\n\n{ask}",
    "{text}\n{ask}",
    '"""{text}"""\n{ask}',
    "{ask}\n---\n{text}\n---",
    "{ask}\n\n<text>\n{text}\n</text>",
    "### Instruction\n{ask}\n\n### Input\n{text}",
    "Text: {text}\n\n{ask}",
    "{ask}\n\nInput: {text}\nOutput:",
    "Instruction: {ask}\n\n{text}\n\nAnswer:",
)


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt of the corpus with its class, the family of its template, and the group it is held out with.

    English has many families a class, so whole families are held out; other languages have few, so templates are.
    """

    prompt: Prompt
    structure: str
    language: str
    family: str
    group: str


@dataclass(frozen=True, slots=True)
class Family:
    """One way of asking for one class of work in one language."""

    name: str
    structure: str
    language: str
    templates: tuple[Mapping[str, Any], ...]
    paste: tuple[str, ...] = ()


def load_fillers() -> Fillers:
    """Fillers of all languages: `fillers.txt`, `documents.txt` and `prose.txt` joined."""
    joined: dict[str, dict[str, list[str]]] = {}
    for file in ("fillers.txt", "documents.txt", "prose.txt"):
        for language, name, _, lines in _read(FOLDER / file):
            joined.setdefault(language, {}).setdefault(name, []).extend(lines)
    return joined


def load_families(structures: tuple[str, ...]) -> list[Family]:
    """Every family of the given classes, in the order of the files."""
    families = []
    for structure in structures:
        for language, name, paste, lines in _read(FOLDER / f"{structure}.txt"):
            templates = tuple(json.loads(line) if line.startswith('{"') else {"user": line} for line in lines)
            families.append(Family(f"{structure}.{language}.{name}", structure, language, templates, paste))
    return families


def corpus_hash() -> str:
    """SHA-256 over the corpus's own files, data and code."""
    digest = hashlib.sha256()
    for path in sorted([*FOLDER.glob("*.txt"), *FOLDER.glob("*.py")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def generate_corpus(structures: tuple[str, ...], *, per_class: int, seed: int) -> list[Example]:
    """`per_class` prompts of each class, three in five of them English, families of one language equally often."""
    families_of = {structure: load_families((structure,)) for structure in structures}
    fillers = _with_asks(load_fillers(), families_of)
    examples = []
    for structure in structures:
        rng = random.Random(f"{seed}/{structure}")
        families = families_of[structure]
        english = [family for family in families if family.language == "en"]
        others: dict[str, list[Family]] = {}
        for family in families:
            if family.language != "en":
                others.setdefault(family.language, []).append(family)
        for _ in range(per_class):
            pool = english if rng.random() < 0.6 or not others else others[rng.choice(sorted(others))]
            family = rng.choice(pool)
            template = rng.randrange(len(family.templates))
            group = family.name if family.language == "en" else f"{family.name}#{template}"
            prompt = _prompt(family, family.templates[template], fillers, rng)
            examples.append(Example(prompt, structure, family.language, family.name, group))
    return examples


def _with_asks(fillers: Fillers, families_of: Mapping[str, list[Family]]) -> Fillers:
    """The fillers and two more: {any_ask}, what prompts of all classes ask, and the English words of their asking."""
    joined = {language: dict(slots) for language, slots in fillers.items()}
    words: set[str] = set()
    for families in families_of.values():
        for family in families:
            asks = [t["user"] for t in family.templates if len(t) == 1 and "{any_" not in t["user"]]
            joined.setdefault(family.language, {}).setdefault("any_ask", [])
            joined[family.language]["any_ask"] = [*joined[family.language]["any_ask"], *asks]
            if family.language == "en":
                words.update(word for ask in asks for word in re.findall(r"[A-Za-z]{3,}", ask))
    joined["any"] = {"word": sorted(words)}
    return joined


def _prompt(family: Family, body: Mapping[str, Any], fillers: Fillers, rng: random.Random) -> Prompt:
    ask = expand(body["user"], family.language, fillers, rng)
    if rng.random() < _NOISE["polite"]:
        ask = _polite(ask, family.language, fillers, rng)
    text = ask
    if family.paste:
        pasted = document(rng.choice(family.paste), family.language, fillers, rng)
        text = rng.choice(_DELIMITERS).replace("{ask}", ask).replace("{text}", pasted)
    if not family.paste or len(text) < 300:
        text = _noise(text, rng)
    messages = []
    if "system" in body:
        messages.append(Message("system", expand(body["system"], family.language, fillers, rng)))
    elif rng.random() < _NOISE["system"]:
        messages.append(Message("system", expand("{any_system}", family.language, fillers, rng)))
    roles: tuple[Role, Role] = ("user", "assistant")
    for index, turn in enumerate(body.get("turns", ())):
        messages.append(Message(roles[index % 2], expand(turn, family.language, fillers, rng)))
    messages.append(Message("user", text))
    tools = rng.randint(1, 12) if body.get("tools") else 0
    return Prompt(messages=tuple(messages), tools=tools, response_format=body.get("format"))


def _polite(ask: str, language: str, fillers: Fillers, rng: random.Random) -> str:
    opening = expand("{polite}", language, fillers, rng)
    if opening[-1] not in "!:.\n。":
        ask = ask[:1].lower() + ask[1:]
    return opening + ("" if language in ("zh", "ja") or opening.endswith("\n") else " ") + ask


def _noise(text: str, rng: random.Random) -> str:
    if rng.random() < _NOISE["lower"]:
        text = text.lower()
    if rng.random() < _NOISE["unpunctuated"]:
        text = text.rstrip(".?!。？")
    if rng.random() < _NOISE["typo"] and len(text) > 12:
        at = rng.randrange(1, len(text) - 2)
        text = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    return text


def _read(path: Path) -> list[tuple[str, str, tuple[str, ...], list[str]]]:
    """(language, name, pasted kinds, lines) of each block of a file."""
    blocks: list[tuple[str, str, tuple[str, ...], list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            language, name, *options = line[3:].split()
            paste = tuple(options[0].removeprefix("paste=").split(",")) if options else ()
            blocks.append((language, name, paste, []))
        elif line.strip() and not line.startswith("# "):
            body = line.strip().replace("\\?", "?").replace("\\(", PARENTHESES[0]).replace("\\)", PARENTHESES[1])
            blocks[-1][3].append(body if body.startswith('{"') else body.replace("\\n", "\n"))
    return blocks
