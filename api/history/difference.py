"""What changed between two recommendations, and was it what was asked or what was answered?

Both documents are walked side by side; members that differ are told by their dotted path. Lists of things with names of
their own (a curve's points by concurrency, reasons by factor, warnings by code, alternatives by method and drafter) are
matched by those, so that one point more shifts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAMED_BY = (("concurrency",), ("factor",), ("code",), ("method", "draft"))


@dataclass(frozen=True)
class Change:
    """One member that differs; None where one side lacks it."""

    path: str
    before: Any
    after: Any


def differences(before: Any, after: Any, path: str = "") -> list[Change]:  # noqa: ANN401  # any JSON value
    """Every member that differs, in the order of the documents."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found = []
        for name in dict.fromkeys([*before, *after]):
            place = f"{path}.{name}" if path else str(name)
            found += differences(before.get(name), after.get(name), place)
        return found
    if isinstance(before, Sequence) and isinstance(after, Sequence) and not isinstance(before, str):
        named = _by_name(before), _by_name(after)
        if named[0] is not None and named[1] is not None and (before or after):
            found = []
            for name in dict.fromkeys([*named[0], *named[1]]):
                found += differences(named[0].get(name), named[1].get(name), f"{path}[{name}]")
            return found
    return [] if before == after and type(before) is type(after) else [Change(path, before, after)]


def _by_name(items: Sequence[Any]) -> dict[str, Any] | None:
    """Items by what they are called; None where they have no names, or two the same."""
    for keys in _NAMED_BY:
        if all(isinstance(item, Mapping) and all(key in item for key in keys) for item in items):
            named = {" ".join(str(item[key]) for key in keys if item[key] is not None): item for item in items}
            return named if len(named) == len(items) else None
    return None
