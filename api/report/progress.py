"""How is a long measurement followed: bars on a terminal, plain lines elsewhere, JSON lines for programs, or nothing?

Everything goes to standard error, but the JSON lines, which are the output of those who ask for them.
"""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from profiler.probe.events import Event

_BAR = 16  # cells: what is told beside it needs the rest of 80


class Follower:
    """Takes events while it is open."""

    def listen(self, event: Event) -> None:
        """One event."""

    def finish(self, result: BaseModel) -> None:
        """The last word, after everything went well."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""


class JsonLines(Follower):
    """One JSON object a line, on standard output."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def listen(self, event: Event) -> None:
        """Print it."""
        told: dict[str, Any] = {"event": event.kind, "at_s": round(time.monotonic() - self._begun, 3)}
        if event.text:
            told["text"] = event.text
        print(json.dumps(told | event.values), flush=True)

    def finish(self, result: BaseModel) -> None:
        """Print the whole result."""
        print(json.dumps({"event": "result", "profile": result.model_dump(mode="json")}), flush=True)


class PlainLines(Follower):
    """A line for each phase, wave and look."""

    def listen(self, event: Event) -> None:
        """Print what has a text."""
        if event.text:
            print(f"specworth: {event.text}", file=sys.stderr, flush=True)


class Bars(Follower):
    """A bar for the wave that runs, finished lines above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            console=Console(stderr=True, markup=False, highlight=False, emoji=False),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, rate="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._progress.stop()

    def listen(self, event: Event) -> None:
        """Move the bar, or print a line above it."""
        values = event.values
        if event.kind == "progress":
            self._progress.update(self._task, completed=values.get("answered", 0), rate=_rate(values))
        elif event.kind in ("wave_started", "phase"):
            what = event.text.partition(" (")[0]
            if event.kind == "wave_started":
                what = f"{values['arm']}: {values['structure']}, {values['concurrency']} at once"
            self._progress.reset(self._task, description=what, total=values.get("prompts"), completed=0, rate="")
        elif event.text:
            self._progress.console.print(event.text)


def _rate(values: dict[str, Any]) -> str:
    if "starting_s" in values:
        return f"{values['starting_s']:.0f} s"
    parts = [f"{values['output_tokens_per_s']:.0f} tokens/s"] if "output_tokens_per_s" in values else []
    if "acceptance_length" in values:
        parts.append(f"AL {values['acceptance_length']:.2f}")
    if "left_s" in values:
        parts.append(f"{values['left_s']:.0f} s left")
    return ", ".join(parts)


def listener(*, quiet: bool, events: bool) -> Follower:
    """Who follows, by what was asked for and what standard error is."""
    if events:
        return JsonLines()
    if quiet:
        return Follower()
    return Bars() if sys.stderr.isatty() else PlainLines()
