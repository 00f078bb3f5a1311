"""Measuring on demand: a profile is asked for, watched, cancelled; once it is there it is a profile as any other.

    POST   /v1/profiles                    202, and where its job is
    GET    /v1/profiles/jobs               newest first, pages by cursor
    GET    /v1/profiles/jobs/{id}          its state, phase and progress
    GET    /v1/profiles/jobs/{id}/events   what happens in it, as server-sent events
    DELETE /v1/profiles/jobs/{id}          cancels it, and stops what it started
    DELETE /v1/profiles/jobs/{id}/record   deletes one that has ended; its profile stays

A job and its profile have the same id. Jobs are run by `specworth worker`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping

from api.access.access import Administrator, ProfileWriter, Reader
from api.history.errors import UnavailableError
from api.history.history import History
from api.jobs import queue
from api.jobs.ending import ENDED, State
from api.jobs.examples import PROFILE_EXAMPLES
from api.jobs.queue import Submission
from api.jobs.request import ProfileRequest, check_allowed
from api.problems import ProblemError
from api.routes.dependencies import (
    BodyDep,
    IdempotencyKey,
    RequiredHistoryDep,
    SettingsDep,
    WorkerDep,
    body_of,
    parse_object,
)
from api.routes.rows import ID_PATTERN, PageQuery, json_answer, page_answer, unknown_id
from profiler.prompts.reading import prompts_from_objects

router = APIRouter(prefix="/v1", tags=["profiles"])
Id = Annotated[str, Path(alias="id", pattern=ID_PATTERN, description="`id` of a job")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", pattern="^[0-9]{1,9}$", description="Events after this one are told")
]
_LOOK_EVERY_S = 0.5


class JobProblem(BaseModel):
    """Why a job failed."""

    model_config = ConfigDict(frozen=True)

    what: str
    expected: str | None = None
    got: str | None = None
    remedy: str | None = None
    field: str | None = None


class ProfileJob(BaseModel):
    """One job."""

    model_config = ConfigDict(frozen=True)

    id: str
    state: State
    cancelling: bool = Field(description="It was told to stop, and is stopping its servers")
    phase: str = Field(description="What it is doing now, in words")
    progress: dict[str, Any] = Field(description="arm, answered, output_tokens_per_s, acceptance_length, left_s, ...")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    ended: str | None = Field(description="Why it ended")
    problem: JobProblem | None = Field(description="What was wrong, where it failed")
    profile_id: str | None = Field(description="Of what was measured, as a whole or in part; evidence by this id")
    asked_by: str | None
    target: str
    prompt_count: int
    request: dict[str, Any] = Field(description="As it was asked for, without the prompts")


class JobPage(BaseModel):
    """Some jobs, newest first."""

    model_config = ConfigDict(frozen=True)

    jobs: list[ProfileJob]
    next_cursor: str | None = Field(description="`cursor` of the next page; null at the end")


class ListQuery(PageQuery):
    """Which jobs to list."""

    state: State | None = None


_BODY = body_of("ProfileRequest", PROFILE_EXAMPLES)


def _told(row: RowMapping) -> dict[str, Any]:
    plain = {name: row[name] for name in ProfileJob.model_fields if name not in ("progress", "problem", "request")}
    problem = None if row["problem"] is None else orjson.Fragment(row["problem"])
    return plain | {
        "progress": orjson.Fragment(row["progress"]), "problem": problem, "request": orjson.Fragment(row["request"])
    }  # fmt: skip


def _unknown(key: str) -> ProblemError:
    see = "GET /v1/profiles/jobs, and GET /v1/profiles for what was measured elsewhere"
    return unknown_id("job", key, see=see)


@router.post("/profiles", response_model=ProfileJob, status_code=202, openapi_extra=_BODY)
async def submit_profile(
    caller: ProfileWriter, history: RequiredHistoryDep, settings: SettingsDep, worker: WorkerDep, body: BodyDep,
    key: IdempotencyKey = None,
) -> Response:  # fmt: skip
    """Measure speculation with these prompts on real servers; Location says where to look for it."""

    def read() -> Submission:
        request = ProfileRequest.model_validate(parse_object(body, settings))
        check_allowed(request, settings)
        prompts_from_objects(request.prompts)  # so that what cannot be read is told now
        return Submission(request, asked_by=caller, key=key)

    submission = await worker.run(read)
    row, _ = await history.run(
        "queue job", lambda database: queue.submit(database, submission, most_queued=settings.max_queued_jobs)
    )
    return json_answer(_told(row), 202, {"Location": f"/v1/profiles/jobs/{row['id']}"})


@router.get("/profiles/jobs", response_model=JobPage)
async def list_jobs(_: Reader, history: RequiredHistoryDep, query: Annotated[ListQuery, Query()]) -> Response:
    """Jobs, newest first."""
    after = query.after
    page = await history.run(
        "list", lambda database: queue.page(database, state=query.state, after=after, limit=query.limit)
    )
    return page_answer("jobs", page, _told)


async def _find(history: History, key: str) -> RowMapping:
    row = await history.run("find", lambda database: queue.find(database, key))
    if row is None:
        raise _unknown(key)
    return row


@router.get("/profiles/jobs/{id}", response_model=ProfileJob)
async def get_job(_: Reader, history: RequiredHistoryDep, key: Id) -> Response:
    """One job; a job whose worker is silent is marked as interrupted first."""
    return json_answer(_told(await _find(history, key)))


@router.delete(
    "/profiles/jobs/{id}", response_model=ProfileJob, status_code=202,
    responses={200: {"model": ProfileJob, "description": "It is cancelled"}},
)  # fmt: skip
async def cancel_job(_: ProfileWriter, history: RequiredHistoryDep, key: Id) -> Response:
    """Cancel a job: 200 once it is cancelled, 202 while its servers are being stopped, 409 where it has ended."""
    await _find(history, key)
    row = await history.run("cancel", lambda database: queue.cancel(database, key))
    if row is None:
        raise _unknown(key)
    if row["state"] == "cancelled":
        await history.wipe_deleted()
    return json_answer(_told(row), 200 if row["state"] == "cancelled" else 202)


@router.delete("/profiles/jobs/{id}/record", status_code=204, response_class=Response)
async def delete_job(_: Administrator, history: RequiredHistoryDep, key: Id) -> Response:
    """Delete a job that has ended, and its events, for good; its profile stays. 409 where it has not ended."""
    await _find(history, key)
    if not await history.run("delete", lambda database: queue.forget(database, key)):
        raise _unknown(key)
    await history.wipe_deleted()
    return Response(status_code=204)


async def _place(request: Request, settings: SettingsDep) -> AsyncIterator[None]:
    """One of the streams of events that may be open at a time, until the last of it is sent or its reader leaves."""
    streams: set[object] = request.app.state.streams
    if len(streams) >= settings.max_event_streams:
        detail = f"{len(streams)} streams of events are open; expected fewer than {settings.max_event_streams}"
        remedy = "try again in 10 s, or read GET /v1/profiles/jobs/{id}"
        raise ProblemError(
            429, "too-many-streams", "Too many streams are open", f"{detail}; {remedy}", headers={"Retry-After": "10"}
        )
    place = object()
    streams.add(place)
    try:
        yield
    finally:
        streams.discard(place)


async def _existing(_: Reader, history: RequiredHistoryDep, key: Id) -> RowMapping:
    return await _find(history, key)


@router.get("/profiles/jobs/{id}/events", response_class=EventSourceResponse, dependencies=[Depends(_place)])
async def watch_job(
    job: Annotated[RowMapping, Depends(_existing)], request: Request, history: RequiredHistoryDep,
    last: LastEventId = None,
) -> AsyncIterator[ServerSentEvent]:  # fmt: skip
    """Phases, progress and acceptance so far, from the first event or after Last-Event-ID; ends with the job.

    The kinds are state, phase, wave_started, progress, wave_finished, look, note. The data has text, at, and the rest.
    """
    key, number, ended = str(job["id"]), int(last or 0), False
    stopping: asyncio.Event = request.app.state.stopping
    while not stopping.is_set():
        rows: list[RowMapping] = []
        try:
            rows = await history.run("events", partial(queue.events_after, key=key, number=number))
            for row in rows:
                number = row["number"]
                yield ServerSentEvent(id=str(number), event=row["kind"], raw_data=_event(row))
            if ended and not rows:
                return
            if not rows:
                ended = (await _find(history, key))["state"] in ENDED
        except UnavailableError as error:
            yield ServerSentEvent(comment=error.what)
        if not rows and not ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await stopping.wait()


def _event(row: RowMapping) -> str:
    told: dict[str, Any] = {"at": row["at"], "text": row["text"]}
    return orjson.dumps(told | {"values": orjson.Fragment(row["details"])}).decode()
