"""What people paste: articles, passages, messages, code, logs, tables, records.

Every class of prompt pastes the same documents, so that a classifier must learn what is asked of them and not what they
are about. Their sentences come from `documents.txt` and `prose.txt` and are put together at random; only their look
matters.
"""

from __future__ import annotations

import random
import re

from models.structure.corpus.grammar import Fillers, expand

FOREIGN_SHARE = 0.4  # of the sentences of prose, chosen on held-out prompts
PROSE_SHARE = 0.6
KINDS = ("article", "passages", "note", "sentence", "code", "log", "table", "records", "schema", "dialogue")
_COLUMNS = ("name", "date", "amount", "city", "status", "quantity", "price", "owner", "country", "score", "id", "email")


def document(kind: str, language: str, fillers: Fillers, rng: random.Random) -> str:
    """A document of one of `KINDS` in a language; some 20 to 6,000 characters."""
    if kind == "sentence":
        count = rng.choice((1, 1, 1, 2, 3))
        return " ".join(_some(count, language, fillers, rng))
    if kind == "article":
        return _paragraphs(rng.choice((4, 6, 10, 16, 24, 40)), language, fillers, rng)
    if kind == "note":
        return _paragraphs(rng.choice((2, 3, 4, 6)), language, fillers, rng)
    if kind == "passages":
        return _passages(language, fillers, rng)
    if kind == "dialogue":
        speakers = rng.choice((("Agent", "Customer"), ("A", "B"), ("{person}", "{person}"), ("Interviewer", "Guest")))
        names = [expand(name, language, fillers, rng) for name in speakers]
        lines = [f"{names[i % 2]}: {expand('{remark}', language, fillers, rng)}" for i in range(rng.randint(4, 14))]
        return "\n".join(lines)
    if kind == "code":
        return "\n\n".join(expand("{code}", "en", fillers, rng) for _ in range(rng.choice((1, 1, 2, 4))))
    if kind == "log":
        return "\n".join(expand("{log_line}", "en", fillers, rng) for _ in range(rng.randint(3, 20)))
    if kind == "table":
        return _table(fillers, rng)
    if kind == "records":
        return "\n".join(expand("{record}", language, fillers, rng) for _ in range(rng.randint(3, 10)))
    if kind == "schema":
        return "\n\n".join(expand("{ddl}", "en", fillers, rng) for _ in range(rng.randint(1, 3)))
    raise KeyError(kind)


def _foreign_words(sentence: str, fillers: Fillers, rng: random.Random) -> str:
    """The sentence with some words of other prompts in it, so that a word of asking tells nothing amid a document."""
    words = sentence.split(" ")
    pool = fillers["any"]["word"]
    for _ in range(rng.randint(1, 4)):
        words[rng.randrange(len(words))] = rng.choice(pool)
    return " ".join(words)


def _sentences(count: int, language: str, fillers: Fillers, rng: random.Random) -> list[str]:
    """Sentences without repetition as far as the pool reaches."""
    pool = list(fillers.get(language, {}).get("line") or fillers["en"]["line"])
    rng.shuffle(pool)
    sentences = [expand(pool[i % len(pool)], language, fillers, rng) for i in range(count)]
    return [_foreign_words(s, fillers, rng) if rng.random() < FOREIGN_SHARE else s for s in sentences]


def _prose(count: int, language: str, fillers: Fillers, rng: random.Random) -> list[str]:
    """About `count` sentences of whole written paragraphs, begun and left anywhere."""
    paragraphs = list(fillers.get(language, {}).get("prose") or fillers["en"]["prose"])
    rng.shuffle(paragraphs)
    end = re.compile(r"(?<=[.!?।])\s+|(?<=。)")
    sentences = [sentence for paragraph in paragraphs for sentence in end.split(paragraph) if sentence]
    start = rng.choice((0, 0, rng.randrange(len(sentences))))
    return [sentences[(start + i) % len(sentences)] for i in range(count)]


def _some(count: int, language: str, fillers: Fillers, rng: random.Random) -> list[str]:
    """Sentences of either kind."""
    make = _prose if rng.random() < PROSE_SHARE else _sentences
    return make(count, language, fillers, rng)


def _paragraphs(count: int, language: str, fillers: Fillers, rng: random.Random) -> str:
    sentences = _some(count, language, fillers, rng)
    glue = "" if language in ("zh", "ja") else " "
    size = rng.choice((2, 3, 5, 50))
    paragraphs = [glue.join(sentences[i : i + size]) for i in range(0, count, size)]
    text = rng.choice(("\n", "\n\n")).join(paragraphs)
    if rng.random() < 0.25:
        text = expand("{headline}", language, fillers, rng) + "\n\n" + text
    return text


def _passages(language: str, fillers: Fillers, rng: random.Random) -> str:
    """Retrieved passages, numbered, titled or merely one after another."""
    style = rng.choice(
        (
            "[{i}] {text}",
            "Passage {i}: {text}",
            "Document {i} (Title: {title}) {text}",
            "Title: {title}\nText: {text}",
            "{text}",
            "<doc id={i}>\n{text}\n</doc>",
            "Source: {title}\n{text}",
            "{i}. {text}",
            "### {title}\n{text}",
        )
    )
    parts = []
    for number in range(1, rng.choice((2, 3, 3, 5, 8)) + 1):
        text = _paragraphs(rng.choice((2, 3, 5)), language, fillers, rng).replace("\n", " ")
        title = expand("{headline}", language, fillers, rng)
        parts.append(style.replace("{i}", str(number)).replace("{title}", title).replace("{text}", text))
    return rng.choice(("\n", "\n\n")).join(parts)


def _table(fillers: Fillers, rng: random.Random) -> str:
    columns = rng.sample(_COLUMNS, rng.randint(3, 5))
    separator = rng.choice((",", ",", "\t", " | ", ";"))
    rows = [separator.join(columns)]
    for _ in range(rng.randint(3, 12)):
        rows.append(separator.join(_cell(column, fillers, rng) for column in columns))
    return "\n".join(rows)


def _cell(column: str, fillers: Fillers, rng: random.Random) -> str:
    if column in ("amount", "price"):
        return f"{rng.uniform(1, 900):.2f}"
    if column in ("quantity", "score", "id"):
        return str(rng.randint(1, 5000))
    if column == "date":
        return f"{rng.randint(2015, 2026)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    if column == "email":
        return expand("{person}", "en", fillers, rng).split()[0].lower() + "@example.com"
    if column == "status":
        return rng.choice(("open", "paid", "late", "closed", "pending"))
    return expand("{place}" if column in ("city", "country") else "{person}", "en", fillers, rng)
