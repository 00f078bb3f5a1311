"""What a session tells while it runs: one event at a time, for a progress bar, plain lines or a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["phase", "wave_started", "progress", "wave_finished", "look", "note", "decision"]


@dataclass(frozen=True)
class Event:
    """`text` is for people; `values` for programs: numbers and names only."""

    kind: Kind
    text: str
    values: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]


def silent(_: Event) -> None:
    """A listener for those who do not want to know."""
