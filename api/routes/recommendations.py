"""POST /v1/recommendations: is speculative decoding worth it here? And the same body checked without an answer.

An answer goes out after it was stored, or not at all (`api.history.history` has the rule).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from advisor import Recommendation, advise
from api.access.access import Asker
from api.examples import REQUEST_EXAMPLES
from api.history import profiles
from api.history import recommendations as stored
from api.history.record import RecommendationPost, Record, record_of
from api.operation.metrics import Metrics
from api.routes.dependencies import BodyDep, HistoryDep, SettingsDep, WorkerDep, body_of, parse_object
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
class _Answered:
    """An answer, its JSON, and what is kept of it; None where nothing is kept."""

    answer: Recommendation
    text: str
    record: Record | None


@router.post("/recommendations", openapi_extra=_BODY, response_model=Recommendation)
async def recommend(
    caller: Asker, request: Request, body: BodyDep, settings: SettingsDep, worker: WorkerDep, history: HistoryDep
) -> Response:
    """A verdict, what it rests on, and the vLLM configuration that realises it."""
    keeps = history is not None
    found = await worker.run(partial(_answer, body, settings, keeps=keeps, caller=caller))
    if isinstance(found, RecommendationPost):  # it names a stored profile, which is fetched first
        assert history is not None
        assert found.evidence is not None
        key = str(found.evidence.profile_id)
        row = await history.run("find", lambda database: profiles.find(database, key))
        document = None if row is None else str(row["document"])
        found = await worker.run(partial(_answer_with, found, document, caller=caller))
    answered = found
    if history is not None and answered.record is not None:
        record = answered.record
        await history.run("keep", lambda database: stored.keep(database, record))
    metrics: Metrics = request.app.state.metrics
    metrics.recommended(answered.answer)
    request.state.about = {"verdict": answered.answer.verdict, "prompts": answered.answer.workload.prompts}
    return Response(answered.text, media_type="application/json")


def _read(body: bytes, settings: Settings, *, keeps: bool) -> RecommendationPost:
    post = RecommendationPost.model_validate(parse_object(body, settings))
    if not keeps and post.says_how_to_keep:
        raise InputError(
            "this service keeps nothing (SPECWORTH_STORE is false)",
            expected="no store_prompts, labels or note", got="at least one of them", field="store_prompts",
        )  # fmt: skip
    return post


def _answer(body: bytes, settings: Settings, *, keeps: bool, caller: str | None) -> _Answered | RecommendationPost:
    """The answer, or the request as it was read where it rests on a stored profile."""
    post = _read(body, settings, keeps=keeps)
    if keeps and post.evidence is not None and post.evidence.profile_id is not None:
        return post
    return _advised(post, keeps=keeps, caller=caller)


def _answer_with(post: RecommendationPost, document: str | None, *, caller: str | None) -> _Answered:
    """The answer with a stored profile in the place of its id; without one the advisor says that there is none."""
    if document is None or post.evidence is None:
        return _advised(post, keeps=True, caller=caller)
    profile = Profile.model_validate_json(document)
    evidence = type(post.evidence).model_validate({"profile": profile})
    adopted = post.model_copy(update={"evidence": evidence})
    return _advised(adopted, keeps=True, caller=caller, profile_id=post.evidence.profile_id)


def _advised(post: RecommendationPost, *, keeps: bool, caller: str | None, profile_id: str | None = None) -> _Answered:
    answer = advise(post)
    text = answer.model_dump_json()
    record = record_of(post, answer, text=text, asked_by=caller, profile_id=profile_id) if keeps else None
    return _Answered(answer, text, record)


@router.post("/recommendations:validate", openapi_extra=_BODY, response_model=Checked)
async def check(_: Asker, body: BodyDep, settings: SettingsDep, worker: WorkerDep, history: HistoryDep) -> Response:
    """Is this body a valid request? Checks shape, numbers and contradictions; resolves no names, predicts nothing."""

    def answer() -> bytes:
        post = _read(body, settings, keeps=history is not None)
        return Checked(prompts=len(post.prompts)).model_dump_json().encode()

    return Response(await worker.run(answer), media_type="application/json")
