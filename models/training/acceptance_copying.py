"""How much do answers copy, by class and length of the prompt, on the scale that a replay of past answers has?

models.overlap replays prompt lookup on past answers and gives (τ - 1) / τ. Measured n-gram rows give the same of each
prompt but for another lookup (its shortest match, its k), so the two scales are laid over each other where published
prompt lookup and measured rows know the same classes: one shift on the log odds. What a class lets expect, and how it
goes with a prompt's length, is fitted to the measured prompts by their class probabilities (least squares, drawn to
what all classes have in common).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from models.acceptance.model import LEAST_OVERLAP, MOST_OVERLAP, copies_beside, expit, logit
from models.estimate import Floats
from models.overlap import ExpectedOverlap
from models.structure import STRUCTURES
from models.training.acceptance_priors import Published
from models.training.acceptance_rows import AcceptanceRows

SHORT_MATCH = 3.0  # matches of up to this many tokens, as prompt lookup and the replay seek
TYPICAL_TOKENS = 100.0  # of a prompt whose class nothing was measured of
_OVERLAP_SD = 0.2  # of one prompt's overlap beside what is expected of it
_CLASS_SD, _SLOPE_SD = 1.0, 0.3  # of classes about what they have in common, on the log odds
_COMMON_SLOPE_SD = 0.5


@dataclass(frozen=True, slots=True)
class CopyScale:
    """What classes let expect, and the shift from measured n-gram rows to the replay's scale."""

    expected: ExpectedOverlap
    shift: float
    overlaps: Mapping[str, float]  # of each prompt whose answer is known, on the replay's scale

    def known(self, rows: AcceptanceRows) -> Floats:
        """Overlap of each row's prompt by its answer, else what its class and length let expect."""
        cold = self.cold(rows)
        told = [self.overlaps.get(str(name), at) for name, at in zip(rows.prompt, cold.tolist(), strict=True)]
        return np.array(told, dtype=np.float64)

    def cold(self, rows: AcceptanceRows) -> Floats:
        """Overlap of each row's prompt as its class and length let expect."""
        return self.expected.of(rows.structure, rows.input_tokens)

    def beside(self, rows: AcceptanceRows, overlap: Floats) -> Floats:
        """Log-odds of an overlap beside what the class alone lets expect."""
        return copies_beside(overlap, rows.structure, self.expected.overlap)


def copy_scale(rows: AcceptanceRows, published: Published) -> CopyScale:
    """The scale from these rows; the published means alone where no n-gram row is among them."""
    gain = published.document["lookup"]["log_gain"]
    centre = float(np.mean(list(gain.values())))
    stated = expit(np.array([gain.get(name, centre) for name in STRUCTURES]))
    part = rows.take((rows.method == "ngram") & (rows.lookup_min <= SHORT_MATCH) & (rows.temperature == 0.0))
    if not len(part):
        count = len(STRUCTURES)
        return CopyScale(ExpectedOverlap(stated, np.full(count, TYPICAL_TOKENS), np.zeros(count)), 0.0, {})
    gained = 1.0 - 1.0 / part.tokens_per_step
    measured = _fit_expected(part, gained)
    known = np.array([name in gain for name in STRUCTURES]) & (part.structure.sum(axis=0) >= 2.0)
    shift = float(np.mean(logit(stated[known]) - logit(measured.overlap[known]))) if known.any() else 0.0
    odds = logit(np.clip(gained, LEAST_OVERLAP, MOST_OVERLAP)) + shift
    overlaps = dict(zip(part.prompt.tolist(), expit(odds).tolist(), strict=True))
    return CopyScale(replace(measured, overlap=expit(logit(measured.overlap) + shift)), shift, overlaps)


def _fit_expected(rows: AcceptanceRows, gained: Floats) -> ExpectedOverlap:
    """Class overlaps and slopes over log tokens, about what they have in common; a long answer counts for more."""
    count = len(STRUCTURES)
    weight = np.sqrt(rows.output_tokens / rows.output_tokens.mean())
    seen = rows.structure.sum(axis=0)
    logs = np.log(np.maximum(rows.input_tokens, 1.0))
    typical = (rows.structure.T @ logs + np.log(TYPICAL_TOKENS)) / (seen + 1.0)
    longer = logs[:, None] - typical[None, :]

    def residuals(x: Floats) -> Floats:
        level, classes, slope, slopes = x[0], x[1 : count + 1], x[count + 1], x[count + 2 :]
        odds = (rows.structure * (level + classes + (slope + slopes) * longer)).sum(axis=1)
        return np.concatenate([
            weight * (expit(odds) - gained) / _OVERLAP_SD, classes / _CLASS_SD, slopes / _SLOPE_SD,
            [slope / _COMMON_SLOPE_SD],
        ])  # fmt: skip

    x = least_squares(residuals, np.zeros(2 * count + 2)).x
    overlap = expit(np.clip(x[0] + x[1 : count + 1], logit(np.array(LEAST_OVERLAP)), logit(np.array(MOST_OVERLAP))))
    return ExpectedOverlap(overlap, np.exp(typical), np.asarray(x[count + 1] + x[count + 2 :], dtype=np.float64))
