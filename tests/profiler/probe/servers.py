"""Prompts and sessions for tests of probing, against the stand-in servers."""

from __future__ import annotations

from typing import Any

from profiler.load import Patience
from profiler.probe.events import Event
from profiler.probe.profile import Profile
from profiler.probe.session import Session
from profiler.probe.settings import Attached, Launched, ProbeSettings, Question
from profiler.prompts.sample import Message, Prompt

SLOW = {"ttft_s": 0.004, "step_s": 0.01}
HASTY = Patience(attempts=3, first_wait_s=0.02)  # as the default, thirty times as fast
FAST = {**SLOW, "tokens_per_step": 3, "num_speculative_tokens": 4}


def prompts(n: int, **fields: Any) -> list[Prompt]:
    """Prompts that all differ, at temperature 0, with short answers."""
    known = {"max_tokens": 13, "temperature": 0.0, **fields}
    return [Prompt(messages=(Message("user", f"say number {i} with many words please"),), **known) for i in range(n)]


def session(
    servers: Attached | Launched, *, n: int = 48, structure: list[str] | None = None, events: list[Event] | None = None,
    sample: list[Prompt] | None = None, one_class_per_wave: bool = True, **settings: Any,
) -> Session:  # fmt: skip
    """A session that stalls soon and looks at four requests at once, unless told otherwise."""
    sample = sample if sample is not None else prompts(n)
    known = {"concurrency": 4, "budget_s": 20.0, "stall_timeout_s": 2.0, "look_around": False, "patience": HASTY}
    known |= settings
    return Session(
        Question(prompts=sample, structure=structure or ["chat"] * len(sample), target="fake",
                 speculation={"method": "ngram", "num_speculative_tokens": 4}),
        ProbeSettings(**known),
        servers,
        listen=(events if events is not None else []).append,
        one_class_per_wave=one_class_per_wave,
    )  # fmt: skip


def profile_of(run: Session, ended: str = "tested") -> Profile:
    """What the session would have written."""
    return run.profile(status="complete", ended=ended, created="now")
