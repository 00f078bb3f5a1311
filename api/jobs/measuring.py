"""One job from its claim to its end, on this host or on a node of a cluster; what was measured is always kept."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson
from sqlalchemy import RowMapping

from api.history.database import Database
from api.jobs.ending import Ending, State
from api.jobs.heartbeat import Heartbeat
from api.jobs.remotely import RemoteJob
from api.jobs.running import RunningJob
from api.settings import Settings
from profiler.serving.interruption import Interrupted, interruptible

logger = logging.getLogger("specworth.jobs")


class _Job(Protocol):
    def run(self) -> Ending:
        """Measure; Interrupted comes through."""

    def stopped(self, state: State, ended: str) -> Ending:
        """Somebody had it stopped."""


def measure(database: Database, row: RowMapping, *, worker: str, settings: Settings) -> tuple[Ending, bool]:
    """Run a claimed job in the main thread: how it ended, and whether this process was told to stop, too."""
    folder = Path(tempfile.mkdtemp(prefix="specworth-job-"))
    beat = Heartbeat(database, row["id"], worker=worker, lease_s=settings.job_lease_s, log_folder=str(folder))
    asked = orjson.loads(row["request"]) | {"prompts": orjson.loads(row["prompts"])}
    running: _Job = (RemoteJob if on_cluster(asked, settings) else RunningJob)(row["id"], asked, settings, beat, folder)
    ending: Ending | None = None
    stopped = timely = False
    try:
        with interruptible(), beat:
            ending, timely = running.run(), beat.timely
    except Interrupted as stop:
        # The servers were stopped while the stack unwound; a signal that came after the end changes nothing about it.
        stopped = beat.reason is None
        if ending is None:
            ending, timely = _interrupted(running, beat, stop), beat.timely
    if ending.state != "failed":
        shutil.rmtree(folder, ignore_errors=True)
    else:
        logger.warning("job %s failed: %s; logs of its servers are in %s", row["id"], ending.ended, folder)
    return Ending(ending.state, ending.ended, ending.problem, ending.profile, beat.unsent(), timely), stopped


def on_cluster(asked: Mapping[str, Any], settings: Settings) -> bool:
    """Servers that are started need a GPU, which a cluster has; those that run already are asked from this host."""
    return settings.job_executor == "ray" and asked.get("attach") is None


def _interrupted(running: _Job, beat: Heartbeat, stop: Interrupted) -> Ending:
    if beat.reason == "cancelled":
        return running.stopped("cancelled", "cancelled while it ran")
    if beat.reason == "lost":
        return running.stopped("interrupted", "its worker lost the database")
    return running.stopped("interrupted", f"its worker was stopped by {stop.name}")
