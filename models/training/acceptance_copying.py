"""How much do answers copy, by class and by prompt, on the scale that a replay of past answers has?

models.overlap replays prompt lookup on past answers and gives (τ - 1) / τ. Measured n-gram rows give the same of each
prompt but for another lookup (its shortest match, its k), so the two scales are laid over each other where published
prompt lookup and measured rows know the same classes: one shift on the log odds. What a class lets expect is fitted to
the measured prompts by their class probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.acceptance.model import expit, logit
from models.estimate import Floats
from models.structure import STRUCTURES
from models.training.acceptance_priors import Published
from models.training.acceptance_rows import AcceptanceRows

SHORT_MATCH = 3.0  # matches of up to this many tokens, as prompt lookup and the replay seek
LEAST, MOST = 0.02, 0.98  # an overlap of 0 or 1 in one answer is no proof of never or always
_RIDGE = 2.0  # prompts that the mean of all classes weighs in each


@dataclass(frozen=True, slots=True)
class CopyScale:
    """What classes let expect, and the shift from measured n-gram rows to the replay's scale."""

    expected: Floats  # (classes,)
    shift: float
    overlaps: Mapping[str, float]  # of each prompt whose answer is known, on the replay's scale

    def of(self, rows: AcceptanceRows) -> Floats:
        """Overlap of each row's prompt; nan where it is not known."""
        return np.array([self.overlaps.get(str(name), np.nan) for name in rows.prompt], dtype=np.float64)

    def beside(self, rows: AcceptanceRows) -> Floats:
        """Log-odds of each row's overlap beside what its classes let expect; 0 where it is not known."""
        known = self.of(rows)
        away = logit(np.clip(known, LEAST, MOST)) - logit(rows.structure @ self.expected)
        return np.where(np.isfinite(known), away, 0.0)


def copy_scale(rows: AcceptanceRows, published: Published) -> CopyScale:
    """The scale from these rows; the published means alone where no n-gram row is among them."""
    gain = published.document["lookup"]["log_gain"]
    centre = float(np.mean(list(gain.values())))
    stated = expit(np.array([gain.get(name, centre) for name in STRUCTURES]))
    part = rows.take((rows.method == "ngram") & (rows.lookup_min <= SHORT_MATCH) & (rows.temperature == 0.0))
    if not len(part):
        return CopyScale(stated, 0.0, {})
    gained = 1.0 - 1.0 / part.tokens_per_step
    weight = part.output_tokens / part.output_tokens.mean()
    mean = float(np.average(gained, weights=weight))
    weighed = part.structure * weight[:, None]
    normal = weighed.T @ part.structure + _RIDGE * np.eye(len(STRUCTURES))
    measured = np.clip(np.linalg.solve(normal, weighed.T @ gained + _RIDGE * mean), LEAST, MOST)
    both = np.array([name in gain for name in STRUCTURES]) & (part.structure.sum(axis=0) >= _RIDGE)
    shift = float(np.mean(logit(stated[both]) - logit(measured[both]))) if both.any() else 0.0
    odds = logit(np.clip(gained, LEAST, MOST)) + shift
    overlaps = dict(zip(part.prompt.tolist(), expit(odds).tolist(), strict=True))
    return CopyScale(expit(logit(measured) + shift), shift, overlaps)
