"""How much of an answer stands in its prompt, or in the answer so far: what n-gram and suffix drafters live on.

Where a past answer is known, prompt lookup is replayed on it word by word: the overlap is the share of its tokens that
a lookup drafter would have had accepted, (τ − 1) / τ in design's symbols. Where none is, the class of the prompt lets
expect the published mean of just that quantity (`expected_overlap` of the acceptance artefact), so
that measured and expected overlap are one scale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from models.estimate import Floats

# Prompt lookup as published (apoorvumang/prompt-lookup-decoding): n-grams up to 3 are sought, 10 tokens are copied.
MAX_NGRAM = 3
COPIED_TOKENS = 10
READ_TOKENS = 4000  # of prompt and of answer each; a longer pair tells nothing new and costs time

# About what a byte-pair tokenizer gives: words with their space, numbers by up to three digits, single marks.
_PIECE = re.compile(r" ?[^\W\d_]+|\d{1,3}|\n+|[^\w\s]|_|\s")


def replayed_overlap(*, prompt: str, output: str) -> float:
    """Share of the output's tokens that prompt lookup would draft rightly, 0 to 1; nan for an empty output."""
    start = _PIECE.findall(prompt[-READ_TOKENS * 4 :])[-READ_TOKENS:]
    answer = _PIECE.findall(output[: READ_TOKENS * 4])[:READ_TOKENS]
    if not answer:
        return float("nan")
    tokens = start + answer
    begin = len(start)
    places: dict[tuple[str, ...], int] = {}
    known = 0  # n-grams that end before this place are in `places`
    accepted = 0
    at = begin
    while at < len(tokens):
        # Only n-grams that some token follows can be copied from; the latest place wins, as it is nearest.
        while known < at:
            for size in range(1, MAX_NGRAM + 1):
                if known >= size:
                    places[tuple(tokens[known - size : known])] = known
            known += 1
        source = None
        for size in range(min(MAX_NGRAM, at), 0, -1):
            source = places.get(tuple(tokens[at - size : at]))
            if source is not None:
                break
        right = 0
        if source is not None:
            limit = min(COPIED_TOKENS, at - source, len(tokens) - at)
            while right < limit and tokens[source + right] == tokens[at + right]:
                right += 1
        accepted += right
        at += right + 1  # the verifying pass gives one token of its own
    return min(accepted / len(answer), 1.0)


@dataclass(frozen=True, slots=True)
class ExpectedOverlap:
    """What classes let expect: overlap of a prompt of typical length, and how its log-odds go with the prompt's length.

    A text to be edited or summed up makes a prompt long, and what is asked of it is copied from it.
    """

    overlap: Floats  # (classes,)
    tokens: Floats  # (classes,) typical prompt
    slope: Floats  # (classes,) per natural logarithm of prompt tokens over the typical

    def of(self, prompt_structure: Floats, input_tokens: Floats) -> Floats:
        """Overlap of each prompt, shape (prompts,), from its class mixture (prompts, classes) and its tokens."""
        longer = np.log(np.maximum(input_tokens, 1.0))[:, None] - np.log(self.tokens)[None, :]
        odds = (prompt_structure * (np.log(self.overlap / (1.0 - self.overlap)) + self.slope * longer)).sum(axis=1)
        return np.asarray(1.0 / (1.0 + np.exp(-odds)), dtype=np.float64)
