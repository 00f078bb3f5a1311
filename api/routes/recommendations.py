"""POST /v1/recommendations: is speculative decoding worth it here? And the same body checked without an answer.

An answer goes out after it was stored, or not at all (`api.history.history` has the rule). The same request with the
same Idempotency-Key gets the answer that is stored, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from advisor import Recommendation, advise
from advisor.request import EvidenceSpec
from api.access.access import Asker
from api.examples import REQUEST_EXAMPLES
from api.history import profiles
from api.history import recommendations as stored
from api.history.history import History
from api.history.idempotency import Idempotency, idempotency_of
from api.history.record import RecommendationPost, Record, record_of
from api.operation.metrics import Metrics
from api.routes.dependencies import (
    BodyDep,
    HistoryDep,
    IdempotencyKey,
    SettingsDep,
    WorkerDep,
    body_of,
    parse_object,
)
from api.settings import Settings
from profiler.errors import InputError
from profiler.probe.profile import Profile

router = APIRouter(prefix="/v1", tags=["recommendations"])

# The body is read by hand (limits, repeated keys), so its schema is told by hand too.
_BODY = body_of("RecommendationRequest", REQUEST_EXAMPLES)


class Checked(BaseModel):
    """A body that is a valid request."""

    model_config = ConfigDict(frozen=True)

    valid: Literal[True] = True
    prompts: int = Field(description="Prompts in the body, readable or not")


@dataclass(frozen=True)
class _Caller:
    """Who asks, and what the service keeps of it."""

    name: str | None
    key: str | None  # the Idempotency-Key
    keeps: bool


@dataclass(frozen=True)
class _Asked:
    """A request that needs the history first: it names a stored profile, or may have been answered before."""

    post: RecommendationPost
    idempotency: Idempotency | None


@dataclass(frozen=True)
class _Answered:
    """An answer, its JSON, and what is kept of it; None where nothing is kept."""

    answer: Recommendation
    text: str
    record: Record | None


@router.post("/recommendations", openapi_extra=_BODY, response_model=Recommendation)
async def recommend(
    caller: Asker, request: Request, body: BodyDep, settings: SettingsDep, worker: WorkerDep, history: HistoryDep,
    key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """A verdict, what it rests on, and the vLLM configuration that realises it."""
    who = _Caller(caller, key, history is not None)
    found = await worker.run(partial(_answer, body, settings, who))
    if isinstance(found, _Asked):
        assert history is not None
        if (earlier := await _earlier(history, found.idempotency)) is not None:
            return Response(earlier, media_type="application/json")
        document = await _document(history, found.post)
        found = await worker.run(partial(_answer_with, found, document, who))
    answered = found
    if history is not None and answered.record is not None:
        record = answered.record
        earlier = await history.run("keep", lambda database: stored.keep(database, record))
        if earlier is not None:  # the same request came twice at one moment: both get the answer that was kept
            return Response(earlier, media_type="application/json")
    metrics: Metrics = request.app.state.metrics
    metrics.recommended(answered.answer)
    request.state.about = {"verdict": answered.answer.verdict, "prompts": answered.answer.workload.prompts}
    return Response(answered.text, media_type="application/json")


async def _earlier(history: History, idempotency: Idempotency | None) -> str | None:
    if idempotency is None:
        return None
    return await history.run("find", lambda database: stored.answered(database, idempotency))


async def _document(history: History, post: RecommendationPost) -> str | None:
    """The stored profile that a request names; None where it names none, or none has that id."""
    if post.evidence is None or post.evidence.profile_id is None:
        return None
    key = str(post.evidence.profile_id)
    return await history.run("find", lambda database: profiles.document(database, key))


def _read(body: bytes, settings: Settings, *, keeps: bool) -> RecommendationPost:
    post = RecommendationPost.model_validate(parse_object(body, settings))
    if not keeps and post.says_how_to_keep:
        raise InputError(
            "this service keeps nothing (SPECWORTH_STORE is false)",
            expected="no store_prompts, labels or note", got="at least one of them", field="store_prompts",
        )  # fmt: skip
    return post


def _answer(body: bytes, settings: Settings, who: _Caller) -> _Answered | _Asked:
    """The answer, or the request as it was read where the history comes first."""
    if who.key is not None and not who.keeps:
        raise InputError(
            "this service keeps nothing (SPECWORTH_STORE is false), so it cannot know a request again",
            expected="no Idempotency-Key", got="one", field="Idempotency-Key",
        )  # fmt: skip
    post = _read(body, settings, keeps=who.keeps)
    idempotency = idempotency_of(post, asked_by=who.name, key=who.key)
    names_profile = post.evidence is not None and post.evidence.profile_id is not None
    if idempotency is not None or (who.keeps and names_profile):
        return _Asked(post, idempotency)
    return _advised(post, who)


def _answer_with(asked: _Asked, document: str | None, who: _Caller) -> _Answered:
    """The answer with a stored profile in the place of its id; without one the advisor says that there is none."""
    post = asked.post
    if document is None or post.evidence is None:
        return _advised(post, who, idempotency=asked.idempotency)
    adopted = post.model_copy(update={"evidence": EvidenceSpec.of(Profile.model_validate_json(document))})
    return _advised(adopted, who, profile_id=post.evidence.profile_id, idempotency=asked.idempotency)


def _advised(
    post: RecommendationPost, who: _Caller, *, profile_id: str | None = None, idempotency: Idempotency | None = None
) -> _Answered:
    answer = advise(post)
    text = answer.model_dump_json()
    record = None
    if who.keeps:
        record = record_of(
            post, answer, text=text, asked_by=who.name, profile_id=profile_id, idempotency=idempotency
        )  # fmt: skip
    return _Answered(answer, text, record)


@router.post("/recommendations:validate", openapi_extra=_BODY, response_model=Checked)
async def check(_: Asker, body: BodyDep, settings: SettingsDep, worker: WorkerDep, history: HistoryDep) -> Response:
    """Is this body a valid request? Checks shape, numbers and contradictions; resolves no names, predicts nothing."""

    def answer() -> bytes:
        post = _read(body, settings, keeps=history is not None)
        return Checked(prompts=len(post.prompts)).model_dump_json().encode()

    return Response(await worker.run(answer), media_type="application/json")
