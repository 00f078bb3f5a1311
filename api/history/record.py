"""What of a request and its answer is kept? Everything but the prompts, unless the client asked to keep them.

Of the prompts stay their number, a SHA-256 over all of them (so that two requests about the same prompts are known as
such; over their features, where those came instead and are kept), and what the answer says of the workload: shares,
lengths, languages. An embedded profile is kept once, in a table of its own, and the request then names it.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Self

import orjson
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from advisor import Recommendation, RecommendationRequest
from advisor.fields import Flag, refuse
from api.history.idempotency import Idempotency
from api.history.tables import NAME_CHARACTERS
from profiler.probe.profile import Profile

Label = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f,]+$")
]
Note = Annotated[str, StringConstraints(max_length=4000, pattern=r"^[^\x00]*$")]


def _each_once(labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(labels)))


Labels = Annotated[tuple[Label, ...], Field(max_length=20), AfterValidator(_each_once)]


class RecommendationPost(RecommendationRequest):
    """A request as it is posted: the question, and how its answer is to be kept."""

    store_prompts: Flag = Field(
        default=False, description="Keep the prompts with the answer; left out, only their number, features and a hash"
    )
    labels: Labels = Field(default=(), description="To find the answer again")
    note: Note = Field(default="", description="For whoever reads the answer later")

    @model_validator(mode="after")
    def _prompts_to_keep(self) -> Self:
        if self.store_prompts and self.workload is not None:
            raise refuse("expected prompts to keep, got their features alone", "store_prompts", got=True)
        return self

    @property
    def says_how_to_keep(self) -> bool:
        """Does anything here make sense only where answers are kept?"""
        return bool(self.store_prompts or self.labels or self.note)


@dataclass(frozen=True)
class ProfileRecord:
    """One profile as a row."""

    sha256: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Record:
    """One recommendation as rows: its own, its labels, and the profile that came with it."""

    id: str
    values: dict[str, Any]
    labels: tuple[str, ...]
    profile: ProfileRecord | None
    idempotency: Idempotency | None = None


def record_of(
    post: RecommendationPost, answer: Recommendation, *, text: str, asked_by: str | None,
    profile_id: str | None = None, idempotency: Idempotency | None = None,
) -> Record:  # fmt: skip
    """What is kept of one answer; `text` is the JSON that the client gets, `profile_id` that of a stored profile."""
    profile = None
    if profile_id is None and post.evidence is not None and post.evidence.profile is not None:
        profile = profile_record(post.evidence.profile, asked_by=asked_by)
    asked = post.prompts if post.workload is None else post.workload.model_dump()
    prompts = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    values = {
        "id": answer.id,
        "created_at": datetime.now(UTC),
        "asked_by": asked_by,
        "target": column_text(post.deployment.target.name),
        "gpu": column_text(post.deployment.gpu.name),
        "method": answer.candidate.method,
        "draft": column_text(answer.candidate.draft),
        "num_speculative_tokens": answer.candidate.num_speculative_tokens,
        "concurrency": answer.workload.concurrency,
        "verdict": answer.verdict,
        "decisive": answer.decisive,
        "probability": answer.probability,
        "end_to_end": answer.speedup.end_to_end.value,
        "tpot": answer.speedup.tpot.value,
        "basis": answer.basis,
        "prompt_count": len(post.prompts) if post.workload is None else post.workload.prompts,
        "prompts_sha256": hashlib.sha256(prompts).hexdigest(),
        "prompts": prompts.decode() if post.store_prompts else None,
        "request": _request_text(post),
        "answer": text,
        "note": post.note,
        "profile_id": profile_id,
        "idempotency": idempotency and idempotency.key_sha256,
        "request_sha256": idempotency and idempotency.request_sha256,
    }
    return Record(answer.id, values, post.labels, profile, idempotency)


def profile_record(profile: Profile, *, asked_by: str | None, key: str | None = None) -> ProfileRecord:
    """A profile as a row; the same document gives the same SHA-256. key: its id, where it has one."""
    text = profile.model_dump_json()
    digest = hashlib.sha256(text.encode()).hexdigest()
    values = {
        "id": key or uuid.uuid4().hex,
        "created_at": datetime.now(UTC),
        "asked_by": asked_by,
        "target": column_text(profile.target),
        "method": column_text(profile.speculation.method),
        "status": profile.status,
        "verdict": profile.decision.verdict,
        "sha256": digest,
        "document": text,
    }
    return ProfileRecord(digest, values)


def _request_text(post: RecommendationPost) -> str:
    left_out: dict[str, Any] = dict.fromkeys(("prompts", "store_prompts", "labels", "note"), True)
    return post.model_dump_json(exclude=left_out | {"evidence": {"profile", "profile_id"}}, exclude_none=True)


def column_text(text: str | None) -> Any:  # noqa: ANN401  # a column takes either
    """A name as a column takes it: PostgreSQL knows no NUL, and a column has an end."""
    return None if text is None else text.replace("\0", "\ufffd")[:NAME_CHARACTERS]
