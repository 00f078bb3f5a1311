"""Which entry does a user mean by this name, and what stands near a name that nobody knows?

Names match without regard to case and separators ("rtx_4090", "RTX 4090"); nothing is guessed beyond that: an unknown
name is refused with its nearest neighbours (RapidFuzz's weighted ratio), never replaced by one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from profiler.errors import UnknownNameError

_SEPARATORS = re.compile(r"[\s_\-./]+")
_NEAR = 60.0  # RapidFuzz's WRatio of "Qwen3-9B" to "Qwen3-8B" is 88, of unrelated model names below 50 (measured here)


def match_key(name: str) -> str:
    """The form in which names are compared: lower case, no separators."""
    return _SEPARATORS.sub("", name.strip().lower())


def nearest_names(name: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """The up to `count` known names that resemble `name`, nearest first; empty where none does."""
    from rapidfuzz import fuzz, process  # only errors need it

    found = process.extract(name.strip().lower(), list(known), scorer=fuzz.WRatio, processor=str.lower, limit=count)
    return [match for match, score, _ in found if score >= _NEAR]


def unknown_name(kind: str, name: str, known: Iterable[str], *, field: str, remedy: str) -> UnknownNameError:
    """The error for a name that the catalog lacks, with what stands near it."""
    near = nearest_names(name, known)
    return UnknownNameError(
        f"Unknown {kind} {name!r}",
        expected=("one of the catalog; nearest: " + ", ".join(near)) if near else "a name of the catalog",
        remedy=remedy,
        field=field,
    )
