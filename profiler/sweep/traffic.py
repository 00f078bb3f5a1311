"""What does a slot of the closed loop ask next? Random tokens of one length, or real prompts one after the other.

`RandomPrompts`: as many uniformly random tokens as the point says, so that the prefix cache never helps and every
request writes the same number of tokens.
`PromptCycle`: the same prompts in the same order in every arm, around and around, so that any stretch as long as the
list holds each of them once. Answers end where the model ends them, so that what a request writes is learned from those
that ended: the loop's start is spread over it. Windows hold whole passes over the prompts, and whole cycles of requests
as nearly as that allows: a part of a pass would compare one arm's long answers with another's short ones.

Greedy answers are kept as digests, so that arms can be compared without keeping text.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from profiler.sweep.grid import Point


class Request(NamedTuple):
    """One request; `place` is that of its prompt where a traffic asks several again and again."""

    prompt: list[int]
    output_tokens: int
    temperature: float
    place: int = 0


class Traffic(Protocol):
    """What the slots of one cell ask."""

    @property
    def concurrency(self) -> int:
        """Slots, each with one request in flight at any time."""

    @property
    def output_tokens(self) -> float:
        """What a request writes, as far as is known now."""

    @property
    def window_requests(self) -> int:
        """A window of measurement holds a multiple of so many ended requests; no fewer than the slots."""

    def next_request(self, slot: int) -> Request:
        """What that slot asks next."""

    def ended(self, request: Request, token_ids: Sequence[int], output_tokens: int) -> None:
        """Take note of an answer, whether it falls into the measurement or not."""


class RandomPrompts:
    """Random tokens; which slot a request sits in decides its temperature, so that shares stay constant."""

    def __init__(self, point: Point, *, vocab_size: int, rng: np.random.Generator) -> None:
        self._point, self._vocab_size, self._rng = point, vocab_size, rng
        self.concurrency = self.window_requests = point.concurrency
        self.output_tokens = float(point.output_tokens)

    def next_request(self, slot: int) -> Request:
        """A prompt that no other request has."""
        point = self._point
        unmatched = math.floor((slot + 1) * point.unmatched_share) > math.floor(slot * point.unmatched_share)
        prompt = self._rng.integers(0, self._vocab_size, size=point.input_tokens).tolist()
        return Request(prompt, point.output_tokens, 1.0 if unmatched else point.temperature)

    def ended(self, request: Request, token_ids: Sequence[int], output_tokens: int) -> None:
        """Nothing is to be learned from it."""


class PromptCycle:
    """The prompts of one class around and around, at one temperature."""

    def __init__(
        self, prompts: Sequence[list[int]], *, concurrency: int, most_tokens: int, temperature: float,
        expected_tokens: float | None = None,
    ) -> None:  # fmt: skip
        self.concurrency = concurrency
        self.window_requests = len(prompts) * math.ceil(concurrency / len(prompts))
        self.digests: list[str | None] = [None] * len(prompts)
        """Of each prompt's first answer, at temperature 0; None while it has none."""
        self.answers = self.alike = self.cut = 0
        """Answers in all, those equal to their prompt's first, and those that `most_tokens` cut."""
        self._prompts, self._most_tokens, self._temperature = prompts, most_tokens, temperature
        self._asked, self._written = 0, 0
        self._expected_tokens = most_tokens if expected_tokens is None else expected_tokens

    @property
    def output_tokens(self) -> float:
        """The mean of the answers so far; before any, what was expected."""
        return self._written / self.answers if self.answers else self._expected_tokens

    def next_request(self, slot: int) -> Request:
        """The prompt whose turn it is, whatever the slot."""
        del slot
        place = self._asked % len(self._prompts)
        self._asked += 1
        return Request(self._prompts[place], self._most_tokens, self._temperature, place)

    def ended(self, request: Request, token_ids: Sequence[int], output_tokens: int) -> None:
        """Count the answer, and compare it with its prompt's first."""
        self.answers += 1
        self._written += output_tokens
        self.cut += output_tokens >= self._most_tokens
        if self._temperature == 0.0:
            digest = answer_digest(token_ids)
            self.alike += digest == (self.digests[request.place] or digest)
            self.digests[request.place] = self.digests[request.place] or digest


def answer_digest(token_ids: Sequence[int]) -> str:
    """Ten hexadecimal digits that two answers share only if they are token by token the same."""
    return hashlib.sha256(array("I", token_ids).tobytes()).hexdigest()[:10]
