"""Lengths of time as people write them: 60s, 5m, 1.5h, 200ms; a bare number is seconds."""

from __future__ import annotations

import re

from profiler.errors import InputError

_UNITS = {"ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LONGEST_S = 24 * 3600.0
_SHORTEST_S = 0.05


def seconds(text: str, *, option: str) -> float:
    """The time in seconds.

    Raises:
        InputError: no time, or one that no measurement takes.
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min|m|h)?", text.strip())
    length = float(found[1]) * _UNITS[found[2] or ""] if found else 0.0
    if not _SHORTEST_S <= length <= _LONGEST_S:
        raise InputError(f"{option}: no such time", expected="one from 50ms to 24h, such as 60s or 5m", got=repr(text))
    return length
