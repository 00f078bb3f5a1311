"""What was answered before: listed, read, labelled, deleted, and compared.

GET    /v1/recommendations                     newest first, by target, verdict, label, time; pages by cursor
GET    /v1/recommendations/{id}                one, with its request (without prompts, unless they were kept)
PATCH  /v1/recommendations/{id}                labels and note
DELETE /v1/recommendations/{id}                gone for good
GET    /v1/recommendations/{id}/diff/{other}   what changed in the request, and in the answer
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Path, Query, Response
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from advisor import Recommendation
from advisor.fields import Closed
from api.access.access import Administrator, Asker, Reader
from api.history import recommendations as stored
from api.history.difference import Change, differences
from api.history.history import History
from api.history.recommendations import Filter, Row
from api.history.record import Label, Labels, Note
from api.problems import ProblemError
from api.routes.dependencies import BodyDep, RequiredHistoryDep, SettingsDep, WorkerDep, body_of, parse_object
from api.routes.rows import ID_PATTERN, PageQuery, json_answer, page_answer, unknown_id

router = APIRouter(prefix="/v1/recommendations", tags=["history"])
Id = Annotated[str, Path(alias="id", pattern=ID_PATTERN, description="`id` of an answer")]
Other = Annotated[str, Path(pattern=ID_PATTERN, description="`id` of a later answer")]


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True)


class Stored(_Told):
    """One recommendation in a list."""

    id: str
    created_at: datetime
    asked_by: str | None = Field(description="Name of the API key; null where the service asks for none")
    target: str
    gpu: str
    method: str
    draft: str | None
    num_speculative_tokens: int
    concurrency: int
    verdict: Literal["enable", "disable"]
    decisive: bool
    probability: float
    end_to_end: float = Field(description="Predicted speedup of the chosen candidate, end to end")
    tpot: float = Field(description="The same of the time per output token")
    basis: str
    prompt_count: int
    prompts_sha256: str = Field(description="Of the prompts as JSON with sorted keys; equal for equal prompts")
    profile_id: str | None = Field(description="The profile that was its evidence")
    labels: list[str]
    note: str


class StoredWhole(Stored):
    """One recommendation with its documents."""

    request: dict[str, Any] = Field(description="As it was asked, without prompts")
    prompts: list[Any] | None = Field(description="Null unless `store_prompts` asked for them to be kept")
    recommendation: Recommendation = Field(description="As it was answered")


class StoredPage(_Told):
    """Some recommendations, newest first."""

    recommendations: list[Stored]
    next_cursor: str | None = Field(description="`cursor` of the next page; null at the end")


class Changes(Closed):
    """What PATCH replaces; what is left out stays."""

    labels: Labels | None = None
    note: Note | None = None


class Changed(_Told):
    """One member that differs; null where one side lacks it."""

    field: str
    before: Any
    after: Any


class Diff(_Told):
    """Two recommendations side by side."""

    before: Stored
    after: Stored
    same_prompts: bool
    same_models: bool = Field(description="Were both predicted by the same artefacts?")
    asked: list[Changed] = Field(description="What differs in the requests")
    answered: list[Changed] = Field(description="What differs in the answers")


def _written_out(value: object) -> object:
    """Pydantic reads a bare number as seconds since 1970, which nobody who writes a year means."""
    if isinstance(value, str) and not _DATE.match(value):
        raise ValueError("expected a moment such as 2026-11-01T00:00:00Z, got " + repr(value[:40]))
    return value


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]


class ListQuery(PageQuery):
    """Which recommendations to list."""

    target: str | None = Field(None, max_length=300, description="Name of the target, as it was asked for")
    verdict: Literal["enable", "disable"] | None = None
    label: list[Label] = Field(default=[], max_length=20, description="Given more than once: all of them")
    created_from: Moment | None = Field(None, description="RFC 3339 with a zone; from this moment on")
    created_before: Moment | None = Field(None, description="RFC 3339 with a zone; before this moment")


def _listed(row: Row) -> dict[str, Any]:
    return {name: row.values[name] for name in Stored.model_fields if name != "labels"} | {"labels": row.labels}


def _unknown(key: str) -> ProblemError:
    return unknown_id("recommendation", key, see="GET /v1/recommendations")


async def _find(history: History, key: str) -> Row:
    row = await history.run("find", lambda database: stored.find(database, key))
    if row is None:
        raise _unknown(key)
    return row


@router.get("", response_model=StoredPage)
async def list_recommendations(
    _: Reader, history: RequiredHistoryDep, query: Annotated[ListQuery, Query()]
) -> Response:
    """Earlier recommendations, newest first."""
    where = Filter(
        target=query.target, verdict=query.verdict, labels=tuple(query.label),
        created_from=query.created_from, created_before=query.created_before,
    )  # fmt: skip
    after = query.after
    page = await history.run("list", lambda database: stored.page(database, where, after=after, limit=query.limit))
    return page_answer("recommendations", page, _listed)


@router.get("/{id}", response_model=StoredWhole)
async def get_recommendation(_: Reader, history: RequiredHistoryDep, key: Id) -> Response:
    """One earlier recommendation, whole."""
    row = await _find(history, key)
    prompts = row.values["prompts"]
    documents = {
        "request": orjson.Fragment(row.values["request"]),
        "prompts": None if prompts is None else orjson.Fragment(prompts),
        "recommendation": orjson.Fragment(row.values["answer"]),
    }
    return json_answer(_listed(row) | documents)


_BODY = body_of("Changes", {"both": {"value": {"labels": ["production"], "note": "rolled out on Monday"}}})


@router.patch("/{id}", response_model=Stored, openapi_extra=_BODY)
async def change_recommendation(
    _: Asker, history: RequiredHistoryDep, settings: SettingsDep, worker: WorkerDep, key: Id, body: BodyDep
) -> Response:
    """Replace labels, note or both."""
    changes = await worker.run(lambda: Changes.model_validate(parse_object(body, settings)))
    row = await history.run(
        "change", lambda database: stored.change(database, key, named=changes.labels, note=changes.note)
    )
    if row is None:
        raise _unknown(key)
    return json_answer(_listed(row))


@router.delete("/{id}", status_code=204, response_class=Response)
async def delete_recommendation(_: Administrator, history: RequiredHistoryDep, key: Id) -> Response:
    """Delete one recommendation, its labels and its prompts, for good."""
    if not await history.run("delete", lambda database: stored.remove(database, key)):
        raise _unknown(key)
    await history.wipe_deleted()
    return Response(status_code=204)


@router.get("/{id}/diff/{other}", response_model=Diff)
async def compare(_: Reader, history: RequiredHistoryDep, key: Id, other: Other) -> Response:
    """What changed from one recommendation to another."""
    before, after = rows = [await _find(history, each) for each in (key, other)]
    requests, answers = ([orjson.loads(row.values[name]) for row in rows] for name in ("request", "answer"))
    for answer in answers:
        del answer["id"]
    hashes = [row.values["prompts_sha256"] for row in rows]
    return json_answer(
        {
            "before": _listed(before),
            "after": _listed(after),
            "same_prompts": hashes[0] == hashes[1],
            "same_models": answers[0]["model_version"] == answers[1]["model_version"],
            "asked": [_changed(change) for change in differences(*requests)],
            "answered": [_changed(change) for change in differences(*answers)],
        }
    )


def _changed(change: Change) -> dict[str, Any]:
    return {"field": change.path, "before": change.before, "after": change.after}
