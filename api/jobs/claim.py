"""What workers do with jobs: claim one, report on it, end it; and how is it that nothing runs twice?

A worker claims a job by one transaction that turns `queued` into `running` and puts a row for each device that the job
needs; the devices' primary key is what keeps a second job off the same GPU, also where two workers claim at the same
moment. What a worker writes later is accepted only while the job is still its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, select, update

from api.history.database import Database, insert_new
from api.history.profiles import keep_in
from api.history.record import profile_record
from api.jobs.ending import Ending, NewEvent, append, end_job, moment, state_event
from api.jobs.tables import devices, jobs

_LOOKED_AT = 50  # queued jobs that one claim considers; those before wait for a device

Wanted = Callable[[RowMapping], Collection[str]]


class _TakenError(Exception):
    """Another job holds a device."""


def claim(database: Database, *, worker: str, lease_s: float, wanted: Wanted) -> RowMapping | None:
    """The oldest job whose devices are free, now this worker's; None where there is none.

    wanted: the devices that a job would hold, if this worker ran it.
    """
    queued = select(jobs.c.id, jobs.c.request).where(jobs.c.state == "queued")
    with database.writing() as connection:
        waiting = connection.execute(queued.order_by(jobs.c.created_at, jobs.c.id).limit(_LOOKED_AT)).mappings().all()
        for row in waiting:
            if _claim(connection, row, worker=worker, lease_s=lease_s, needed=sorted(wanted(row))):
                return connection.execute(select(jobs).where(jobs.c.id == row["id"])).mappings().one()
    return None


def _claim(connection: Connection, row: RowMapping, *, worker: str, lease_s: float, needed: list[str]) -> bool:
    if connection.execute(select(devices.c.device).where(devices.c.device.in_(needed)).limit(1)).first():
        return False
    now = moment(connection)
    values = {
        "state": "running", "worker": worker, "started_at": now, "lease_until": now + timedelta(seconds=lease_s),
        "phase": "starting",
    }  # fmt: skip
    try:
        with connection.begin_nested():
            mine = update(jobs).where(jobs.c.id == row["id"], jobs.c.state == "queued").values(values)
            if not connection.execute(mine).rowcount:
                return False
            for device in needed:
                held = insert_new(connection, devices).values(device=device, job_id=row["id"])
                if connection.execute(held.returning(devices.c.device)).first() is None:
                    raise _TakenError
            append(connection, row["id"], [state_event("running", "starting")])
    except _TakenError:
        return False
    return True


@dataclass(frozen=True)
class Report:
    """What a worker has to tell of its job since the last time."""

    events: tuple[NewEvent, ...] = ()
    phase: str | None = None
    progress: str | None = None
    partial: str | None = None


def report(database: Database, key: str, *, worker: str, lease_s: float, told: Report) -> bool | None:
    """Renew the lease and put down what happened; whether the job is to stop, None where it is not ours any more."""
    with database.writing() as connection:
        values: dict[str, Any] = {"lease_until": moment(connection) + timedelta(seconds=lease_s)}
        values |= {
            name: value for name in ("phase", "progress", "partial") if (value := getattr(told, name)) is not None
        }
        if not connection.execute(update(jobs).where(_owned(key, worker)).values(values)).rowcount:
            return None
        append(connection, key, told.events)
        return bool(connection.execute(select(jobs.c.cancelling).where(jobs.c.id == key)).scalar_one())


def end(database: Database, key: str, *, worker: str, ending: Ending) -> bool:
    """Put down how it ended and keep its profile; False where the job was given up on meanwhile.

    What was measured in time is kept even then, beside what was kept when the job was given up on.
    """
    with database.writing() as connection:
        if connection.execute(update(jobs).where(_owned(key, worker)).values(cancelling=False)).rowcount:
            append(connection, key, ending.events)
            return end_job(connection, key, ending, _owned(key, worker))
        ours = and_(jobs.c.id == key, jobs.c.worker == worker)
        done = and_(ours, jobs.c.state == ending.state, jobs.c.ended == ending.ended)
        if connection.execute(select(jobs.c.id).where(done)).first() is not None:
            return True  # by an attempt whose confirmation got lost
        if ending.timely and ending.profile is not None:
            was_ours = and_(ours, jobs.c.state == "interrupted")
            row = connection.execute(select(jobs.c.profile_id, jobs.c.asked_by).where(was_ours)).first()
            if row is not None:
                record = profile_record(ending.profile, asked_by=row.asked_by, key=None if row.profile_id else key)
                kept = keep_in(connection, record)
                connection.execute(update(jobs).where(was_ours).values(profile_id=kept))
        return False


def release(database: Database, key: str, *, worker: str) -> None:
    """Put a job back that was claimed and not begun."""
    values = {"state": "queued", "worker": None, "started_at": None, "lease_until": None, "phase": "waiting"}
    with database.writing() as connection:
        if connection.execute(update(jobs).where(_owned(key, worker)).values(values)).rowcount:
            connection.execute(delete(devices).where(devices.c.job_id == key))
            append(connection, key, [state_event("queued", "its worker was stopped before it began")])


def _owned(key: str, worker: str) -> ColumnElement[bool]:
    return and_(jobs.c.id == key, jobs.c.state == "running", jobs.c.worker == worker)
