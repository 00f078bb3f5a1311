"""What was answered, as a report for a capacity review: one HTML file, or Markdown.

    GET /v1/recommendations/{id}/report.html     and report.md
    GET /v1/profiles/{id}/report.html            and report.md

A report tells the stored answer as it was given; nothing is predicted anew. Charts are drawn in one thread of their
own: matplotlib is not made for several, and answers need not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import orjson
from fastapi import APIRouter, Request, Response
from sqlalchemy import RowMapping

from advisor import Recommendation, RecommendationRequest
from api.access.access import Reader
from api.history import profiles, recommendations
from api.history.recommendations import Row
from api.report.review.advice import review_advice
from api.report.review.document import Code, Review
from api.report.review.html import CONTENT_SECURITY_POLICY, html
from api.report.review.markdown import markdown
from api.report.review.measured import created, review_profile, told_command
from api.report.review.provenance import Provenance, Source, now
from api.routes.dependencies import RequiredHistoryDep
from api.routes.history import Id
from api.routes.profiles import Id as ProfileId
from api.routes.rows import unknown_id
from api.worker import Worker
from profiler.probe.profile import Profile

router = APIRouter(prefix="/v1")
Kind = Literal["html", "md"]
_TYPES: dict[Kind, str] = {"html": "text/html", "md": "text/markdown"}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The report", "content": {kind: {"schema": {"type": "string"}} for kind in _TYPES.values()}}
}
# A page of our own origin that nobody may frame, whose type nobody may guess, and which no shared cache keeps.
_HEADERS = {
    "Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
}


@router.get("/recommendations/{id}/report.{kind}", tags=["history"], responses=_RESPONSES, response_class=Response)
async def report_recommendation(
    _: Reader, request: Request, history: RequiredHistoryDep, key: Id, kind: Kind
) -> Response:
    """An earlier recommendation for a capacity review."""
    row = await history.run("find", lambda database: recommendations.find(database, key))
    if row is None:
        raise unknown_id("recommendation", key, see="GET /v1/recommendations")
    profile_id = row.values["profile_id"]
    evidence = None
    if profile_id is not None:
        evidence = await history.run("find", lambda database: profiles.find(database, profile_id))
    return await _drawn(request, kind, lambda: _of_recommendation(row, evidence))


@router.get("/profiles/{id:not_jobs}/report.{kind}", tags=["profiles"], responses=_RESPONSES, response_class=Response)
async def report_profile(
    _: Reader, request: Request, history: RequiredHistoryDep, key: ProfileId, kind: Kind
) -> Response:
    """A profile for a capacity review."""
    row = await history.run("find", lambda database: profiles.find(database, key))
    if row is None:
        raise unknown_id("profile", key, see="GET /v1/profiles")
    return await _drawn(request, kind, lambda: _of_profile(row))


async def _drawn(request: Request, kind: Kind, build: Callable[[], Review]) -> Response:
    drawing: Worker = request.app.state.drawing
    render = html if kind == "html" else markdown
    text = await drawing.run(lambda: render(build()))
    return Response(text, media_type=_TYPES[kind], headers=_HEADERS)


def _of_recommendation(row: Row, evidence: RowMapping | None) -> Review:
    asked = orjson.loads(row.values["request"])
    answer = Recommendation.model_validate_json(row.values["answer"])
    stored = dict(asked)
    if not stored.get("evidence"):  # it was a profile, which the history keeps apart
        stored.pop("evidence", None)
    request = RecommendationRequest.model_validate(stored)
    others: tuple[tuple[str, str], ...] = ()
    if evidence is not None:
        profile = Profile.model_validate_json(evidence["document"])
        spec = {"profile": profile}
        request = RecommendationRequest.model_validate(stored | {"evidence": spec})
        others = ((f"Profile {evidence['id']}", evidence["sha256"]),)
        asked["evidence"] = {"profile_id": evidence["id"]}
    features = asked.pop("workload", None)
    what = "features of the prompts" if features is not None else "prompts"
    provenance = Provenance(
        asked=Code(
            f"POST /v1/recommendations, with the {what} whose hash is below, and",
            orjson.dumps(asked, option=orjson.OPT_INDENT_2).decode(),
            "json",
        ),
        source=Source(
            name=None, prompts=answer.workload.prompts, sha256=row.values["prompts_sha256"],
            of=f"the {what} as JSON with sorted keys",
        ),
        answered_at=row.values["created_at"],
        made_at=now(),
        answer_id=answer.id,
        model_version=answer.model_version,
        others=others,
    )  # fmt: skip
    return review_advice(answer, request, provenance)


def _of_profile(row: RowMapping) -> Review:
    profile = Profile.model_validate_json(row["document"])
    provenance = Provenance(
        asked=told_command(profile),
        source=Source(name=profile.prompts.source, prompts=profile.prompts.sent, sha256=None),
        answered_at=created(profile),
        made_at=now(),
        others=((f"Profile {row['id']}", row["sha256"]),),
    )
    return review_profile(profile, provenance)
