"""What `specworth profile` measured: brought in, listed, read, deleted; a request names one as evidence.profile_id.

    POST   /v1/profiles:import   a profile.json, whole; the same document is kept once
    GET    /v1/profiles          newest first, pages by cursor
    GET    /v1/profiles/{id}     one, whole
    DELETE /v1/profiles/{id}     gone for good

`POST /v1/profiles` itself measures on demand (`api.routes.profile_jobs`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping
from starlette.convertors import StringConvertor, register_url_convertor

from advisor.request import EvidenceSpec
from api.access.access import Administrator, ProfileWriter, Reader
from api.history import profiles as stored
from api.history.record import ProfileRecord, profile_record
from api.problems import ProblemError
from api.routes.dependencies import BodyDep, RequiredHistoryDep, SettingsDep, WorkerDep, body_of, parse_object
from api.routes.rows import ID_PATTERN, PageQuery, json_answer, page_answer, unknown_id
from profiler.probe.profile import Profile

router = APIRouter(prefix="/v1", tags=["profiles"])


class _NotJobs(StringConvertor):
    """A part of a path that is not `jobs`, which is the list of them and no profile's id: DELETE there is a 405."""

    regex = "(?!jobs(?:/|$))[^/]+"


register_url_convertor("not_jobs", _NotJobs())
Id = Annotated[str, Path(alias="id", pattern=ID_PATTERN, description="`id` of a profile")]


class StoredProfile(BaseModel):
    """One profile in a list."""

    model_config = ConfigDict(frozen=True)

    id: str
    created_at: datetime
    asked_by: str | None
    target: str
    method: str | None
    status: str
    verdict: str | None
    sha256: str = Field(description="Of the document")


class StoredProfileWhole(StoredProfile):
    """One profile with its document."""

    document: Profile


class ProfilePage(BaseModel):
    """Some profiles, newest first."""

    model_config = ConfigDict(frozen=True)

    profiles: list[StoredProfile]
    next_cursor: str | None = Field(description="`cursor` of the next page; null at the end")


class ListQuery(PageQuery):
    """Which profiles to list."""

    target: str | None = Field(None, max_length=300)


_BODY = body_of("Profile")


def _listed(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in StoredProfile.model_fields}


def _unknown(key: str) -> ProblemError:
    return unknown_id("profile", key, see="GET /v1/profiles")


@router.post("/profiles:import", response_model=StoredProfile, status_code=201, openapi_extra=_BODY)
async def import_profile(
    caller: ProfileWriter, history: RequiredHistoryDep, settings: SettingsDep, worker: WorkerDep, body: BodyDep
) -> Response:
    """Keep a profile.json that was measured elsewhere."""

    def read() -> ProfileRecord:
        # Through the request's own field, so that both places refuse the same documents.
        profile = EvidenceSpec.model_validate({"profile": parse_object(body, settings)}).profile
        assert profile is not None
        return profile_record(profile, asked_by=caller)

    record = await worker.run(read)
    row = await history.run("keep profile", lambda database: stored.keep(database, record))
    return json_answer(_listed(row), 201, {"Location": f"/v1/profiles/{row['id']}"})


@router.get("/profiles", response_model=ProfilePage)
async def list_profiles(_: Reader, history: RequiredHistoryDep, query: Annotated[ListQuery, Query()]) -> Response:
    """Profiles, newest first."""
    after = query.after
    page = await history.run(
        "list", lambda database: stored.page(database, target=query.target, after=after, limit=query.limit)
    )
    return page_answer("profiles", page, _listed)


@router.get("/profiles/{id:not_jobs}", response_model=StoredProfileWhole)
async def get_profile(_: Reader, history: RequiredHistoryDep, key: Id) -> Response:
    """One profile, whole."""
    row = await history.run("find", lambda database: stored.find(database, key))
    if row is None:
        raise _unknown(key)
    return json_answer(_listed(row) | {"document": orjson.Fragment(row["document"])})


@router.delete("/profiles/{id:not_jobs}", status_code=204, response_class=Response)
async def delete_profile(_: Administrator, history: RequiredHistoryDep, key: Id) -> Response:
    """Delete one profile for good; recommendations that rested on it stay."""
    if not await history.run("delete", lambda database: stored.remove(database, key)):
        raise _unknown(key)
    await history.wipe_deleted()
    return Response(status_code=204)
