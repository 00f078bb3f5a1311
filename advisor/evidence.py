"""What did the user's own engine count, and of what?

Refused: counts that contradict themselves (models.acceptance says which) or that could be of several drafters, and ids
of profiles, which only a service with storage could look up.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.candidates import Candidate
from advisor.request import EvidenceSpec, SpeculationSpec
from models.acceptance import AcceptanceEvidence
from profiler.errors import EvidenceError


def resolve_evidence(
    spec: EvidenceSpec | None, speculation: SpeculationSpec | None, candidates: Sequence[Candidate]
) -> AcceptanceEvidence | None:
    """The counts with the method and k that they are of; None without evidence."""
    if spec is None:
        return None
    if spec.profile_id is not None:
        raise EvidenceError(
            "No profile of this id is stored",
            expected="counts (drafts, accepted_tokens, ...) in the evidence itself",
            got=repr(spec.profile_id),
            field="evidence.profile_id",
        )
    if len(candidates) > 1:
        raise EvidenceError(
            "Evidence is of one drafter, and several are known for this target",
            expected="the drafter that was measured",
            got="one of " + ", ".join(c.draft_name or c.method for c in candidates),
            field="deployment.speculation.draft",
        )
    # The request has been validated: evidence comes with a method and k, and with drafts.
    assert speculation is not None
    assert speculation.method is not None
    assert speculation.num_speculative_tokens is not None
    assert spec.drafts is not None
    positions = spec.accepted_per_position
    return AcceptanceEvidence(
        method=speculation.method,
        num_speculative_tokens=speculation.num_speculative_tokens,
        drafts=float(spec.drafts),
        accepted_tokens=None if spec.accepted_tokens is None else float(spec.accepted_tokens),
        accepted_per_position=None if positions is None else tuple(float(count) for count in positions),
        drafted_tokens=None if spec.drafted_tokens is None else float(spec.drafted_tokens),
        decode_tokens=None if spec.decode_tokens is None else float(spec.decode_tokens),
        temperature=spec.temperature,
        probabilistic=speculation.draft_sample_method == "probabilistic",
    )
