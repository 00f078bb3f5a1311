"""What a reading of prompts yields: the prompts, what was skipped and why, and what is known besides.

A sample never hides anything: every record that gave no prompt is counted under a reason, the first few with their
line numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Any  # a value as JSON has it: finding out what it is is what readers do
Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation, text only; parts that are no text are counted in `Prompt.other_parts`."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request as a server would get it: what is sent, how it is sampled, and a past answer where one is known."""

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    response_format: str | None = None  # "json_object", "json_schema", "regex", ... as the request names it
    tools: int = 0  # number of tools offered
    output: str | None = None  # a past answer, where the record carries one
    input_tokens: int | None = None  # lengths that the record states (traces, token-id prompts, usage columns)
    output_tokens: int | None = None
    other_parts: int = 0  # image, audio and file parts that were left out
    sampling: Mapping[str, Any] = field(default_factory=dict)  # other sampling parameters (min_p, logit_bias, n, ...)
    demands: Mapping[str, Any] | None = None  # response format and tools as the request states them, by their own names
    line: int | None = None  # where in its file it stood

    @property
    def text(self) -> str:
        """All that is sent, turns joined by a newline: what is counted as input."""
        if len(self.messages) == 1:
            return self.messages[0].text
        return "\n".join(m.text for m in self.messages)

    @property
    def instruction(self) -> str:
        """The last user turn (else the last turn): what the prompt asks for."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.text
        return self.messages[-1].text

    @property
    def system(self) -> str:
        """The system turns, joined; empty without one."""
        return "\n".join(m.text for m in self.messages if m.role == "system")


@dataclass(frozen=True, slots=True)
class Skipped:
    """One record that gave no prompt; `line` counts from 1 (the record number where the format has no lines)."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Lengths:
    """Request lengths known without a text (a trace, a usage table), in tokens; either may be empty."""

    input_tokens: Sequence[int] = ()
    output_tokens: Sequence[int] = ()
    requests: int = 0  # records that state a length, of which the above are a seeded uniform sample


@dataclass(frozen=True)
class PromptSample:
    """A seeded uniform sample of the readable prompts of one source, and an account of all the rest."""

    prompts: tuple[Prompt, ...]
    format: str  # what was recognised, in words ("OpenAI batch input, JSON lines")
    records: int  # records seen, readable or not
    usable: int  # records that yield at least one prompt (>= len(prompts))
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> count, over all records
    first_skipped: tuple[Skipped, ...] = ()  # the first few, with their lines
    notes: tuple[str, ...] = ()  # what a reader must know ("3 prompts have images: only text counts")
    lengths: Lengths | None = None  # lengths of records without text
    source: str | None = None  # file name as given, "standard input", or None for a list
