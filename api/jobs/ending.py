"""How does a job end, whoever ends it: its worker, a client that cancels, or whoever finds its worker silent?

    queued -> running -> finished | failed | cancelled | interrupted
    queued -> cancelled

In one transaction: its state, its profile if there is any, no prompts, no devices, a last event. A running job carries
a lease, renewed by its worker. A job whose lease ran out is `interrupted` for good by whoever looks next: its partial
profile is kept, and it is not run again, since the servers that it measured may not be as they were.

Moments are the database's own where it has a clock (PostgreSQL), so that hosts need not agree.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import orjson
from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, func, insert, select, update

from api.history import profiles as stored
from api.history.database import Database
from api.history.record import profile_record
from api.jobs.tables import devices, events, jobs
from profiler.probe.profile import Profile

State = Literal["queued", "running", "finished", "failed", "cancelled", "interrupted"]
STATES: tuple[State, ...] = get_args(State)
ENDED = ("finished", "failed", "cancelled", "interrupted")
SHOWN = [column for column in jobs.c if column.name not in ("prompts", "partial", "idempotency")]


@dataclass(frozen=True)
class NewEvent:
    """Something that happened; `details` is JSON."""

    kind: str
    text: str = ""
    details: str = "{}"


@dataclass(frozen=True)
class Ending:
    """How a job ended."""

    state: State
    ended: str
    problem: str | None = None  # JSON
    profile: Profile | None = None
    events: tuple[NewEvent, ...] = ()
    timely: bool = False  # measured while the lease still ran, so that nothing else was on the GPU


def moment(connection: Connection) -> datetime:
    """Now, by the database's clock."""
    if connection.dialect.name == "postgresql":
        now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return now.astimezone(UTC)
    return datetime.now(UTC)


def end_job(connection: Connection, key: str, ending: Ending, condition: ColumnElement[bool]) -> bool:
    """The last step of every job: its state, its profile, no prompts, no devices."""
    state, ended = ending.state, ending.ended
    values: dict[str, Any] = {
        "state": state, "ended": ended, "ended_at": moment(connection), "prompts": None, "partial": None,
        "lease_until": None, "cancelling": False, "phase": state, "problem": ending.problem,
    }  # fmt: skip
    if not connection.execute(update(jobs).where(jobs.c.id == key, condition).values(values)).rowcount:
        return False
    if ending.profile is not None:
        caller = connection.execute(select(jobs.c.asked_by).where(jobs.c.id == key)).scalar_one()
        text = ended if state == "finished" else f"{state}: {ended}"
        told = ending.profile if state == "finished" else ending.profile.model_copy(update={"ended": text})
        kept = stored.keep_in(connection, profile_record(told, asked_by=caller, key=key))
        connection.execute(update(jobs).where(jobs.c.id == key).values(profile_id=kept))
    connection.execute(delete(devices).where(devices.c.job_id == key))
    append(connection, key, [state_event(state, ended)])
    return True


def give_up_silent(database: Database) -> list[str]:
    """Mark jobs whose workers are silent as interrupted, and keep what they had measured; their ids."""
    running = jobs.c.state == "running"
    with database.reading() as connection:
        now = moment(connection)
        found = connection.execute(select(jobs.c.id).where(running, jobs.c.lease_until < now)).scalars().all()
    given_up = []
    for key in found:
        with database.writing() as connection:
            still = and_(running, jobs.c.lease_until < moment(connection))
            text = connection.execute(select(jobs.c.partial).where(jobs.c.id == key, still)).scalar_one_or_none()
            profile = None if text is None else Profile.model_validate_json(text)
            ending = Ending("interrupted", "its worker died or lost the database", profile=profile)
            if end_job(connection, key, ending, still):
                given_up.append(key)
    return given_up


def state_event(state: State, text: str) -> NewEvent:
    """That a job has another state now."""
    return NewEvent("state", text, orjson.dumps({"state": state}).decode())


def append(connection: Connection, key: str, new: Collection[NewEvent]) -> None:
    """Number events on; the job's row is locked by this transaction, so that numbers never meet."""
    if not new:
        return
    last = connection.execute(select(func.max(events.c.number)).where(events.c.job_id == key)).scalar_one() or 0
    now = moment(connection)
    rows = [
        {"job_id": key, "number": last + i, "at": now, "kind": event.kind, "text": event.text, "details": event.details}
        for i, event in enumerate(new, start=1)
    ]
    connection.execute(insert(events), rows)


def row_of(connection: Connection, key: str) -> RowMapping:
    """A job that is there, without its prompts."""
    return connection.execute(select(*SHOWN).where(jobs.c.id == key)).mappings().one()
