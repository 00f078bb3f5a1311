"""Predicting from the fitted coefficients alone, so that no prompt waits for scikit-learn's import.

A present feature adds its row of the coefficient matrix to the logits; softmax follows. The sum is the pipeline's own
(a test holds both to the same probabilities).
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.structure import STRUCTURES
from models.structure.artefact import NUMBERS, checked_bytes, read_card
from models.structure.features import analyze
from profiler.errors import ArtefactError
from profiler.prompts.sample import Prompt

_CHUNK = 256  # prompts at a time: some 100,000 gathered rows, which stay in cache


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """The fitted numbers: vocabulary (to rows from 1), coefficients (1 + features, classes), intercept (classes,)."""

    vocabulary: dict[str, int]
    coefficients: NDArray[np.float32]
    intercept: Floats

    def probabilities(self, prompts: Sequence[Prompt]) -> Floats:
        """Class probabilities, shape (prompts, classes); equal ones for a prompt without text."""
        parts = [self._chunk(prompts[i : i + _CHUNK]) for i in range(0, len(prompts), _CHUNK)]
        return np.concatenate(parts)

    def _chunk(self, prompts: Sequence[Prompt]) -> Floats:
        lookup = self.vocabulary.get
        rows = array("q")
        sizes: list[int] = []
        silent: list[int] = []
        for index, prompt in enumerate(prompts):
            present = analyze(prompt)
            if not present:
                silent.append(index)
            before = len(rows)
            # Row 0 is no feature's. Sorted, since a set's order, and so a sum's last digit, differs between processes.
            rows.extend(sorted(filter(None, map(lookup, present))))
            sizes.append(len(rows) - before)
        logits = np.tile(self.intercept, (len(prompts), 1))
        filled = np.flatnonzero(sizes)
        if len(filled):
            starts = (np.cumsum(sizes) - np.array(sizes))[filled].astype(np.intp)
            logits[filled] += np.add.reduceat(
                self.coefficients.take(np.frombuffer(rows, dtype=np.int64), axis=0), starts, axis=0
            )
        logits[silent] = 0.0
        logits -= logits.max(axis=1, keepdims=True)
        weights = np.exp(logits)
        probabilities: Floats = weights / weights.sum(axis=1, keepdims=True)
        return probabilities


@cache
def load_scorer() -> Scorer:
    """The installed scorer, read once; raises ArtefactError."""
    card = read_card()
    content = checked_bytes(NUMBERS, card)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        names = arrays["vocabulary"].tobytes().decode("utf-8").split("\n")
        coefficients = arrays["coefficients"]
        intercept = arrays["intercept"].astype(np.float64)
    if coefficients.shape != (len(names), len(STRUCTURES)):
        raise ArtefactError("the structure classifier's vocabulary and coefficients differ in length")
    padded = np.vstack([np.zeros((1, len(STRUCTURES)), dtype=coefficients.dtype), coefficients])
    return Scorer({name: row for row, name in enumerate(names, start=1)}, padded, intercept)
