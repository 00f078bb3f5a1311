"""What do counts from the user's own engine say about acceptance, at their own settings and near them?

vLLM's counters (drafts, accepted and drafted tokens, accepted per position) are used as they are: AL = 1 + accepted /
drafts, m = drafts / decode steps with decode steps = decode tokens - accepted tokens. Where a candidate differs from
the evidence in temperature, k or drafting, the model's own difference on the log-odds scale is added and the spread
widened. Counts that contradict themselves are refused with the field that does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.acceptance.estimate import AcceptanceEstimate, AcceptanceInputs
from models.acceptance.model import COPYING, AcceptanceModel, conditionals
from models.estimate import Floats
from profiler.errors import EvidenceError


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
        if len(positions) > k:
            raise _refuse(
                "More positions were accepted than are drafted",
                field="accepted_per_position",
                expected=f"at most {k} counts, one for each draft token",
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
        # The last step of a request may draft past its end: 5 % of slack, no more.
        if drafts > 1.05 * steps + 1:
            raise _refuse(
                "More drafts than decode steps were counted",
                field="decode_tokens",
                expected=f"decode_tokens - accepted tokens of at least drafts ({drafts:g})",
                got=f"{steps:g} decode steps",
            )


def acceptance_from_evidence(
    evidence: AcceptanceEvidence, *, inputs: AcceptanceInputs, model: AcceptanceModel
) -> AcceptanceEstimate:
    """Predict `inputs`, with rows of the evidence's method resting on its counts; other rows keep the prior."""
    rows = inputs.method == evidence.method
    prior = model.predict(inputs)
    if not rows.any():
        return prior
    if evidence.drafts == 0:
        share = np.where(rows, 0.0, prior.draft_share)
        return AcceptanceEstimate(
            per_position=prior.per_position,
            draft_share=share,
            acceptance_length=prior.acceptance_length,
            length_log_sd=prior.length_log_sd,
            draft_share_log_sd=np.where(rows, 0.0, prior.draft_share_log_sd),
            measured=rows,
        )
    survival = np.where(rows[:, None], _survival(evidence, prior.per_position.shape[1]), 0.0)
    within = np.arange(1, survival.shape[1] + 1)[None, :] <= inputs.num_speculative_tokens[:, None]
    survival = np.where(within, survival, 0.0)
    share = evidence.draft_share
    return AcceptanceEstimate(
        per_position=np.where(rows[:, None], conditionals(survival, inputs.num_speculative_tokens), prior.per_position),
        draft_share=prior.draft_share if share is None else np.where(rows, share, prior.draft_share),
        acceptance_length=np.where(rows, 1.0 + survival.sum(axis=1), prior.acceptance_length),
        length_log_sd=np.where(rows, 1.0 / math.sqrt(max(evidence.accepted, 1.0)), prior.length_log_sd),
        draft_share_log_sd=prior.draft_share_log_sd if share is None else np.where(rows, 0.0, prior.draft_share_log_sd),
        measured=rows,
    )


def _survival(evidence: AcceptanceEvidence, length: int) -> Floats:
    """Survival per position; where only a total is known, one α for all positions that gives it."""
    k = evidence.num_speculative_tokens
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**i for i in range(1, k + 1)) < evidence.accepted / evidence.drafts:
            low = middle
        else:
            high = middle
    return np.array([high**i for i in range(1, length + 1)])
