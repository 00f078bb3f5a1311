"""What is kept of a profile job: itself, what happened in it, and the devices that it holds while it runs.

Prompts stand in a column of their own until the job ends, since it may be claimed after a restart; then they are wiped.
Changes here need a migration (`api/history/migrations/versions`).
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from api.history.tables import ID_CHARACTERS, NAME_CHARACTERS, UtcDateTime, metadata, profiles

jobs = Table(
    "profile_jobs",
    metadata,
    Column("id", String(ID_CHARACTERS), primary_key=True),  # also that of its profile
    Column("created_at", UtcDateTime, nullable=False),
    Column("asked_by", String(NAME_CHARACTERS)),
    Column("idempotency", String(64)),  # SHA-256 of the caller and its Idempotency-Key
    Column("request_sha256", String(64), nullable=False),
    Column("target", String(NAME_CHARACTERS), nullable=False),
    Column("request", Text, nullable=False),  # JSON without prompts
    Column("prompts", Text),  # JSON; null once the job has ended
    Column("prompt_count", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("cancelling", Boolean, nullable=False),
    Column("phase", Text, nullable=False),
    Column("progress", Text, nullable=False),  # JSON
    Column("worker", String(NAME_CHARACTERS)),
    Column("lease_until", UtcDateTime),  # after this moment nobody works on it any more
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("ended", Text),  # why
    Column("problem", Text),  # JSON: what, expected, got, remedy
    Column("partial", Text),  # the profile as it was after the latest wave
    Column("profile_id", String(ID_CHARACTERS), ForeignKey(profiles.c.id, ondelete="SET NULL")),
)
Index(None, jobs.c.created_at, jobs.c.id)
Index(None, jobs.c.state, jobs.c.created_at)
Index(None, jobs.c.idempotency, unique=True)
Index(None, jobs.c.profile_id)

events = Table(
    "profile_job_events",
    metadata,
    Column("job_id", String(ID_CHARACTERS), ForeignKey(jobs.c.id, ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", UtcDateTime, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("text", Text, nullable=False),
    Column("details", Text, nullable=False),  # JSON
)

devices = Table(
    "profile_job_devices",
    metadata,
    Column("device", String(NAME_CHARACTERS), primary_key=True),  # one job at a time: the key itself sees to it
    Column("job_id", String(ID_CHARACTERS), ForeignKey(jobs.c.id, ondelete="CASCADE"), nullable=False),
)
Index(None, devices.c.job_id)
