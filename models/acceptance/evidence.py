"""What do counts from the user's own engine say about acceptance, at their own settings and near them?

vLLM's counters (drafts, accepted and drafted tokens, accepted per position) are used as they are: AL = 1 + accepted /
drafts, m = drafts / decode steps with decode steps = decode tokens - accepted tokens. Where a candidate differs from
the evidence in temperature, k or drafting, the model's own difference on the log-odds scale is added and the spread
widened. Counts that contradict themselves are refused with the field that does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.acceptance.estimate import POSITIONS, AcceptanceEstimate, AcceptanceInputs
from models.acceptance.model import COPYING, AcceptanceModel, expit, length_from_conditionals, logit
from models.estimate import Floats
from profiler.errors import EvidenceError

DRAFTS_PER_REQUEST = 67.0  # an answer of 200 tokens at an AL of 3, as in the design notes' measurements
# vLLM counts every accepted token, but a request's last step emits only up to its end: decode tokens - accepted tokens
# falls short of the steps by about (AL - 1) / 2 a request. Seen on an H200 (EAGLE-3, AL 3): 3 % too few steps with
# answers of 128 tokens, 9 to 12 % with 64; half as many again as there are steps are answers of some ten tokens.
MOST_DRAFTS_A_STEP = 1.5
SHIFT_DOUBT = 0.5  # of a model's difference between settings: the sd of the temperature slopes over their mean


@dataclass(frozen=True, slots=True)
class AcceptanceEvidence:
    """Counts of one engine over one stretch of traffic, for one method and k."""

    method: str
    num_speculative_tokens: int
    drafts: float
    accepted_tokens: float | None = None
    accepted_per_position: tuple[float, ...] | None = None
    drafted_tokens: float | None = None
    decode_tokens: float | None = None
    temperature: float | None = None
    probabilistic: bool = False

    def __post_init__(self) -> None:
        """Refuse counts that cannot be true together; EvidenceError names the field."""
        _check_numbers(self)
        _check_agreement(self)

    @property
    def accepted(self) -> float:
        """Accepted draft tokens over all positions."""
        if self.accepted_per_position is not None:
            return float(sum(self.accepted_per_position))
        return float(self.accepted_tokens or 0.0)

    @property
    def acceptance_length(self) -> float:
        """1 + accepted / drafts; 1 where nothing was drafted."""
        return 1.0 + self.accepted / self.drafts if self.drafts else 1.0

    @property
    def draft_share(self) -> float | None:
        """m = drafts / decode steps; None where no decode tokens were counted."""
        if self.decode_tokens is None:
            return None
        return min(1.0, self.drafts / max(self.decode_tokens - self.accepted, 1e-9))


def _refuse(what: str, *, field: str, expected: str, got: object) -> EvidenceError:
    return EvidenceError(what, expected=expected, got=str(got), field=f"evidence.{field}")


def _check_numbers(evidence: AcceptanceEvidence) -> None:
    """Every count is a finite number that is not negative."""
    scalars = ("drafts", "accepted_tokens", "drafted_tokens", "decode_tokens", "temperature")
    values = [(name, getattr(evidence, name)) for name in scalars]
    values += [("accepted_per_position", value) for value in evidence.accepted_per_position or ()]
    for name, value in values:
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise _refuse("A count cannot be used", field=name, expected="a finite number, 0 or more", got=value)


def _check_agreement(evidence: AcceptanceEvidence) -> None:
    """The counts fit together."""
    k, drafts = evidence.num_speculative_tokens, evidence.drafts
    positions = evidence.accepted_per_position
    if positions is None and evidence.accepted_tokens is None:
        raise _refuse(
            "The evidence says nothing about acceptance",
            field="accepted_tokens",
            expected="accepted_tokens or accepted_per_position",
            got="neither",
        )
    if positions is not None:
        if len(positions) != k:
            raise _refuse(
                "Accepted tokens are not counted for each drafted position",
                field="accepted_per_position",
                expected=f"{k} counts, one for each draft token (0 where none was accepted)",
                got=f"{len(positions)} counts",
            )
        if any(later > earlier for earlier, later in zip((drafts, *positions), positions, strict=False)):
            raise _refuse(
                "A later position cannot be accepted more often than an earlier one",
                field="accepted_per_position",
                expected=f"counts that do not rise, from at most {drafts:g} drafts",
                got=list(positions),
            )
        stated = evidence.accepted_tokens
        if stated is not None and abs(stated - evidence.accepted) > 0.01 * max(stated, evidence.accepted) + 0.5:
            raise _refuse(
                "The accepted tokens differ from the sum over positions",
                field="accepted_tokens",
                expected=f"{evidence.accepted:g}, the sum of accepted_per_position",
                got=f"{stated:g}",
            )
    if evidence.drafted_tokens is not None and evidence.accepted > evidence.drafted_tokens:
        raise _refuse(
            "More tokens were accepted than drafted",
            field="accepted_tokens",
            expected=f"at most drafted_tokens ({evidence.drafted_tokens:g})",
            got=f"{evidence.accepted:g}",
        )
    if evidence.drafted_tokens is not None and evidence.drafted_tokens > drafts * k:
        raise _refuse(
            "More tokens were drafted than the drafts can hold",
            field="drafted_tokens",
            expected=f"at most drafts x num_speculative_tokens = {drafts * k:g}",
            got=f"{evidence.drafted_tokens:g}",
        )
    if evidence.accepted > drafts * k:
        raise _refuse(
            "More tokens were accepted than the drafts can hold",
            field="accepted_tokens",
            expected=f"at most drafts x num_speculative_tokens = {drafts * k:g}",
            got=f"{evidence.accepted:g}",
        )
    if drafts == 0 and (evidence.method not in COPYING or not evidence.decode_tokens):
        raise _refuse(
            "No draft was counted, so nothing is known about acceptance",
            field="drafts",
            expected="at least 1 (0 only for n-gram and suffix, with decode_tokens)",
            got="0",
        )
    if evidence.decode_tokens is not None:
        steps = evidence.decode_tokens - evidence.accepted
        if drafts > MOST_DRAFTS_A_STEP * steps + 1:
            raise _refuse(
                "More drafts than decode steps were counted",
                field="decode_tokens",
                expected=f"decode_tokens - accepted tokens of at least about drafts ({drafts:g})",
                got=f"{steps:g} decode steps",
            )


def acceptance_from_evidence(
    evidence: AcceptanceEvidence, *, inputs: AcceptanceInputs, model: AcceptanceModel
) -> AcceptanceEstimate:
    """Predict `inputs`, with rows of the evidence's method resting on its counts; other rows keep the prior.

    At the evidence's own k, temperature and drafting AL is 1 + accepted / drafts exactly. Elsewhere the model's
    difference between the two settings is added on the log-odds scale, and half of that difference to the spread.
    """
    prior = model.predict(inputs)
    rows = inputs.method == evidence.method
    if evidence.drafts == 0:
        # A copying method that found no match: what it would have accepted stays the prior's, and never counts.
        return replace(
            prior,
            draft_share=np.where(rows, 0.0, prior.draft_share),
            draft_share_log_sd=np.where(rows, 0.0, prior.draft_share_log_sd),
            measured=rows,
        )
    k, k_measured = inputs.num_speculative_tokens, evidence.num_speculative_tokens
    longest = np.full(len(inputs), max(POSITIONS, k_measured, int(k.max(initial=1))), dtype=np.int64)
    there = replace(inputs, num_speculative_tokens=longest)
    here = replace(
        there,
        temperature=inputs.temperature if evidence.temperature is None else np.full(len(inputs), evidence.temperature),
        probabilistic=np.full(len(inputs), evidence.probabilistic),
    )
    odds_here = logit(model.predict(here).per_position)
    odds_there = logit(model.predict(there).per_position)
    measured = _measured_odds(evidence, odds_here)
    alpha = expit(measured + odds_there - odds_here)
    alpha = np.where(np.arange(1, alpha.shape[1] + 1)[None, :] <= k[:, None], alpha, np.nan)
    alpha = alpha[:, : prior.per_position.shape[1]]
    gain = length_from_conditionals(alpha) - 1.0
    share = evidence.draft_share
    share_rows = rows & (share is not None)
    return AcceptanceEstimate(
        per_position=np.where(rows[:, None], alpha, prior.per_position),
        draft_share=np.where(share_rows, share or 0.0, prior.draft_share),
        acceptance_length=np.where(rows, 1.0 + gain, prior.acceptance_length),
        length_log_sd=np.where(
            rows, _spread(evidence, model, gain=gain, k=k, moved=(odds_here, odds_there)), prior.length_log_sd
        ),
        draft_share_log_sd=np.where(share_rows, _share_spread(evidence, model), prior.draft_share_log_sd),
        measured=rows,
    )


def _measured_odds(evidence: AcceptanceEvidence, odds: Floats) -> Floats:
    """Log-odds (n, K) at the evidence's own setting: its counts where they reach, the model's shape beyond them.

    A total without positions moves all of the model's positions by the one shift that gives the total.
    """
    k, wanted = evidence.num_speculative_tokens, evidence.accepted / evidence.drafts
    low, high = np.full((odds.shape[0], 1), -30.0), np.full((odds.shape[0], 1), 30.0)
    for _ in range(60):
        middle = (low + high) / 2
        short = np.cumprod(expit(odds[:, :k] + middle), axis=1).sum(axis=1, keepdims=True) < wanted
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    shifted: Floats = odds + (low + high) / 2
    positions = evidence.accepted_per_position
    if positions is not None:
        counts = np.array([evidence.drafts, *positions])
        alpha = np.divide(counts[1:], counts[:-1], out=np.zeros(k), where=counts[:-1] > 0)
        shifted[:, :k] = logit(alpha)[None, :]
    return shifted


def _requests(evidence: AcceptanceEvidence) -> float:
    """About how many requests stand behind the counts: drafts of one request are alike, requests are not."""
    return max(1.0, evidence.drafts / DRAFTS_PER_REQUEST)


def _spread(
    evidence: AcceptanceEvidence,
    model: AcceptanceModel,
    *,
    gain: Floats,
    k: NDArray[np.int64],
    moved: tuple[Floats, Floats],
) -> Floats:
    """Sd of log(AL - 1): counting, requests that differ, and how far the setting is from the evidence's."""
    within = model.coefficients_.within_log_sd
    mean = max(evidence.accepted / evidence.drafts, 0.5 / evidence.drafts)
    # Var(X) <= mean (k - mean) for X in 0..k: counts say no more where positions are not given.
    counting = math.sqrt(max(mean * (evidence.num_speculative_tokens - mean), 0.0) / evidence.drafts) / mean
    base = math.hypot(counting, within / math.sqrt(_requests(evidence)))
    here, there = (
        length_from_conditionals(np.where(np.arange(1, odds.shape[1] + 1)[None, :] <= k[:, None], expit(odds), np.nan))
        for odds in moved
    )
    setting = SHIFT_DOUBT * np.abs(np.log(np.maximum(there - 1.0, 1e-9) / np.maximum(here - 1.0, 1e-9)))
    # Positions beyond the evidence's, or the shape that a total does not give.
    reach = within * np.abs(np.log(k / evidence.num_speculative_tokens))
    if evidence.accepted_per_position is not None:
        reach = np.where(k > evidence.num_speculative_tokens, reach, 0.0)
    spread: Floats = np.sqrt(base**2 + np.square(setting) + np.square(reach)) + 0.0 * gain
    return spread


def _share_spread(evidence: AcceptanceEvidence, model: AcceptanceModel) -> float:
    """Sd of log m: counting, and requests that differ; 0 where every step drafts."""
    share = evidence.draft_share
    if share is None or share >= 1.0:
        return 0.0
    counting = math.sqrt((1.0 - share) / max(evidence.drafts, 1.0))
    return math.hypot(counting, (1.0 - share) * model.coefficients_.within_log_sd / math.sqrt(_requests(evidence)))
