"""How a template becomes a text.

A template is plain text with two kinds of places. `(a|b|c)` is one of its alternatives (parentheses without a bar are
plain text, as are those behind a backslash), `{slot}` one of the fillers of that name in the template's language,
English where it has none. Fillers may hold places of their own. A few slots are numbers that are drawn: {n} 2 to 12,
{m} 13 to 95, {k} 100 to 9,999, {money}, {pct}, {year}, {time}.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

Fillers = Mapping[str, Mapping[str, Sequence[str]]]  # language -> slot -> texts

_SLOT = re.compile(r"\{([a-z_]+)\}")
_INNERMOST = re.compile(r"\(([^()]*)\)")
_MAX_DEPTH = 12
PARENTHESES = ("\ue000", "\ue001")  # stand for literal ones, written with a backslash
_NUMBERS = {
    "n": lambda rng: str(rng.randint(2, 12)),
    "m": lambda rng: str(rng.randint(13, 95)),
    "k": lambda rng: str(rng.randint(100, 9999)),
    "money": lambda rng: f"{rng.randint(1, 900)}.{rng.choice(('00', '50', '99', '25'))}",
    "pct": lambda rng: f"{rng.randint(2, 96)}%",
    "year": lambda rng: str(rng.randint(1890, 2026)),
    "time": lambda rng: f"{rng.randint(1, 12)}:{rng.choice(('00', '15', '30', '45'))}",
}


def expand(template: str, language: str, fillers: Fillers, rng: random.Random) -> str:
    """One text of the template; raises KeyError for a slot that no filler has, ValueError for endless fillers."""
    text = template
    for _ in range(_MAX_DEPTH):
        before = text
        text = _SLOT.sub(lambda match: _fill(match.group(1), language, fillers, rng), text)
        text = _choose(text, rng)
        if text == before:
            return text.replace(PARENTHESES[0], "(").replace(PARENTHESES[1], ")")
    raise ValueError(f"fillers of {template!r} refer to each other without end")


def _choose(text: str, rng: random.Random) -> str:
    """Alternatives, innermost first; parentheses without a bar become literal ones on the way."""
    while True:
        chosen = _INNERMOST.sub(lambda match: _alternative(match.group(1), rng), text)
        if chosen == text:
            return text
        text = chosen


def _alternative(inside: str, rng: random.Random) -> str:
    if "|" in inside:
        return rng.choice(inside.split("|"))
    return PARENTHESES[0] + inside + PARENTHESES[1]


def _fill(slot: str, language: str, fillers: Fillers, rng: random.Random) -> str:
    draw = _NUMBERS.get(slot)
    if draw is not None:
        return draw(rng)
    texts = fillers.get(language, {}).get(slot) or fillers["en"][slot]
    return rng.choice(texts)
