"""What clients do with jobs: submit one, once even where they ask twice; look at it; cancel it; delete it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, or_, select, update

from api.history.cursor import Cursor, Page, read_page
from api.history.database import Database, insert_new
from api.history.idempotency import Idempotency, idempotency_of, request_sha256
from api.history.record import column_text
from api.jobs.ending import ENDED, SHOWN, Ending, append, end_job, give_up_silent, moment, row_of, state_event
from api.jobs.errors import EndedError, NotEndedError, QueueFullError
from api.jobs.request import ProfileRequest
from api.jobs.tables import events, jobs


@dataclass(frozen=True)
class Submission:
    """A job as it is posted."""

    request: ProfileRequest
    asked_by: str | None
    key: str | None  # the Idempotency-Key
    id: str = field(default_factory=lambda: uuid.uuid4().hex)  # made here, so that a second attempt is no second job

    @property
    def idempotency(self) -> Idempotency | None:
        """The caller's key with the request; None where no key came."""
        return idempotency_of(self.request, asked_by=self.asked_by, key=self.key)


def submit(database: Database, submission: Submission, *, most_queued: int) -> tuple[RowMapping, bool]:
    """Queue a job; the job, and whether it is new. Raises KeyReusedError, QueueFullError."""
    request, key, idempotency = submission.request, submission.id, submission.idempotency
    with database.writing() as connection:
        found = _earlier(connection, key, idempotency)
        if found is None:
            waiting = connection.execute(select(func.count()).where(jobs.c.state == "queued")).scalar_one()
            if waiting >= most_queued:
                raise QueueFullError(
                    "too many profile jobs wait already", expected=f"fewer than {most_queued}", got=str(waiting),
                    remedy="try again later, or cancel one",
                )  # fmt: skip
            values = {
                "id": key,
                "created_at": moment(connection),
                "asked_by": submission.asked_by,
                "idempotency": idempotency and idempotency.key_sha256,
                "request_sha256": idempotency.request_sha256 if idempotency else request_sha256(request),
                "target": column_text(request.told_target),
                "request": request.model_dump_json(exclude={"prompts"}, exclude_none=True),
                "prompts": orjson.dumps(request.prompts).decode(),
                "prompt_count": len(request.prompts),
                "state": "queued",
                "cancelling": False,
                "phase": "waiting for a worker",
                "progress": "{}",
            }
            new = insert_new(connection, jobs).values(values).returning(jobs.c.id)  # rowcount says nothing of inserts
            if connection.execute(new).first() is not None:
                append(connection, key, [state_event("queued", "waiting for a worker")])
                return row_of(connection, key), True
            found = _earlier(connection, key, idempotency)  # another came at the same moment
        assert found is not None
        if idempotency is not None:
            idempotency.check(found["request_sha256"], what=f"job {found['id']}")
        return found, False


def _earlier(connection: Connection, key: str, idempotency: Idempotency | None) -> RowMapping | None:
    same = jobs.c.id == key
    if idempotency is not None:
        same = or_(same, jobs.c.idempotency == idempotency.key_sha256)
    return connection.execute(select(*SHOWN).where(same)).mappings().first()


def find(database: Database, key: str) -> RowMapping | None:
    """One job; gives up on it first where its worker is silent."""
    with database.reading() as connection:
        row = connection.execute(select(*SHOWN).where(jobs.c.id == key)).mappings().first()
        silent = row is not None and _is_silent(row, moment(connection))
    if not silent:
        return row
    give_up_silent(database)
    with database.reading() as connection:
        return row_of(connection, key)


def _is_silent(row: RowMapping, now: datetime) -> bool:
    return bool(row["state"] == "running" and row["lease_until"] < now)


def page(database: Database, *, state: str | None, after: Cursor | None, limit: int) -> Page[RowMapping]:
    """The newest `limit` jobs after a cursor."""
    query = select(*SHOWN)
    if state is not None:
        query = query.where(jobs.c.state == state)
    with database.reading() as connection:
        return read_page(connection, query, jobs, after=after, limit=limit)


def events_after(database: Database, key: str, number: int, *, limit: int = 200) -> list[RowMapping]:
    """Events of a job after one, in their order."""
    query = select(events).where(events.c.job_id == key, events.c.number > number).order_by(events.c.number)
    with database.reading() as connection:
        return list(connection.execute(query.limit(limit)).mappings())


def cancel(database: Database, key: str) -> RowMapping | None:
    """Cancel a queued job at once, have a running one stop; None where there is no such job. Raises EndedError."""
    with database.writing() as connection:
        if end_job(connection, key, Ending("cancelled", "cancelled before it began"), jobs.c.state == "queued"):
            return row_of(connection, key)
        asked = update(jobs).where(jobs.c.id == key, jobs.c.state == "running").values(cancelling=True)
        connection.execute(asked)
        row = connection.execute(select(*SHOWN).where(jobs.c.id == key)).mappings().first()
        if row is not None and row["state"] not in ("running", "cancelled"):
            raise EndedError(
                "the job has ended already", expected="a job that is queued or running", got=row["state"],
                remedy="nothing is left to stop",
            )  # fmt: skip
        return row


def forget(database: Database, key: str) -> bool:
    """Delete an ended job with its events, for good; its profile stays. False where there is no such job.

    Raises NotEndedError for one that waits or runs.
    """
    with database.writing() as connection:
        state = connection.execute(select(jobs.c.state).where(jobs.c.id == key).with_for_update()).scalar()
        if state is not None and state not in ENDED:
            raise NotEndedError(
                "the job has not ended", expected="a job that has ended", got=state,
                remedy="cancel it first, with DELETE /v1/profiles/jobs/{id}",
            )  # fmt: skip
        return connection.execute(delete(jobs).where(jobs.c.id == key)).rowcount > 0


@dataclass(frozen=True)
class Census:
    """How many jobs there are, how long ended ones ran, and how long the oldest has waited."""

    jobs: dict[str, int]
    run_s: dict[str, float]
    oldest_queued_s: float


def census(database: Database) -> Census:
    """Jobs by state, as the database has them."""
    ran = _seconds(database, jobs.c.started_at, jobs.c.ended_at)
    query = select(jobs.c.state, func.count(), func.coalesce(func.sum(ran), 0.0)).group_by(jobs.c.state)
    oldest = select(func.min(jobs.c.created_at)).where(jobs.c.state == "queued")
    with database.reading() as connection:
        rows = connection.execute(query).all()
        first = connection.execute(oldest).scalar()
        waited = 0.0 if first is None else max(0.0, (moment(connection) - first).total_seconds())
    return Census({state: count for state, count, _ in rows}, {state: float(total) for state, _, total in rows}, waited)


def _seconds(database: Database, begin: ColumnElement[Any], end: ColumnElement[Any]) -> ColumnElement[Any]:
    """Between two moments, in either database's words; null where one is missing."""
    if database.engine.dialect.name == "postgresql":
        return func.extract("epoch", end - begin)
    return (func.julianday(end) - func.julianday(begin)) * 86_400.0
