"""The process that runs profile jobs, one after the other: `specworth worker`.

It holds the GPUs that it sees: CUDA_VISIBLE_DEVICES where that is set, else all of this host. One job runs on them at a
time, whichever of several workers takes it. A job that attaches to servers of other hosts holds those hosts instead,
one that attaches to servers of this host holds the GPUs here, too. SIGTERM and Ctrl-C stop the running job and its
servers, keep what it measured, and end the worker; SIGKILL leaves that to the watchdog of each server and to whoever
next looks at the job.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping

import orjson
from sqlalchemy import RowMapping

from api.history import schema
from api.history.database import Database
from api.history.errors import UnavailableError
from api.history.history import patiently
from api.jobs.claim import claim, end, release
from api.jobs.destinations import read_address
from api.jobs.ending import Ending, give_up_silent
from api.jobs.gpus import own_devices
from api.jobs.measuring import measure, on_cluster
from api.settings import Settings
from profiler.errors import InputError
from profiler.serving.interruption import Interrupted, held, interruptible

_LOOK_EVERY_S = 1.0
_END_WAIT_S = 600.0  # for the database, with a result that cost GPU time
_WIPE_WAIT_S = 5.0  # for whoever reads the database's log just now

logger = logging.getLogger("specworth.jobs")


def devices_of(row: RowMapping | Mapping[str, str], own: frozenset[str]) -> frozenset[str]:
    """What a job would hold while this worker runs it."""
    attach = orjson.loads(row["request"]).get("attach")
    if attach is None:
        return own
    held_devices: set[str] = set()
    for name in ("speculative_url", "baseline_url"):
        if attach.get(name) is None:
            continue
        try:
            address = read_address(attach[name], field=name)
        except InputError:
            return own  # refused once it runs
        held_devices |= own if address.is_loopback else {f"{address.host} as a whole"}
    return frozenset(held_devices)


class JobWorker:
    """Claims and runs jobs until it is told to stop."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.name = f"{socket.gethostname()[:200]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._database, self._settings = database, settings
        self._own = own_devices()
        self._pause = threading.Event()
        self._away = False

    def run(self) -> int:
        """Work; returns the exit code once a signal has come."""
        try:
            with interruptible():
                where = ", ".join(sorted(self._own))
                if self._settings.job_executor == "ray":
                    where = f"the Ray cluster at {self._settings.ray_address or 'its own'}"
                logger.info("worker %s takes profile jobs for %s", self.name, where)
                while self._step():
                    pass
        except Interrupted as stop:
            logger.info("worker %s stopped by %s", self.name, stop.name)
        return 0

    def _step(self) -> bool:
        """One job, or a pause; False once this process is to end."""
        row: RowMapping | None = None
        try:
            with held():
                row = self._claim()
        except Interrupted:
            if row is not None:
                key = row["id"]
                patiently(lambda: release(self._database, key, worker=self.name), until=time.monotonic() + _END_WAIT_S)
            raise
        if row is None:
            self._pause.wait(_LOOK_EVERY_S)
            return True
        logger.info("job %s begins: %s", row["id"], row["target"])
        ending, stopped = measure(self._database, row, worker=self.name, settings=self._settings)
        with held():
            self._end(row["id"], ending)
        return not stopped

    def _claim(self) -> RowMapping | None:
        try:
            schema.prepare(self._database)
            for key in give_up_silent(self._database):
                logger.warning("job %s: its worker is silent; it is marked as interrupted", key)
            row = claim(
                self._database, worker=self.name, lease_s=self._settings.job_lease_s,
                wanted=self._wanted,
            )  # fmt: skip
        except UnavailableError as error:
            if not self._away:
                logger.warning("waiting: %s", error)
            self._away = True
            return None
        self._away = False
        return row

    def _wanted(self, row: RowMapping) -> frozenset[str]:
        """What it holds of this host; on a cluster nothing: Ray hands out the GPUs there."""
        if on_cluster(orjson.loads(row["request"]), self._settings):
            return frozenset({f"the cluster, by {self.name}"[:300]})
        return devices_of(row, self._own)

    def _end(self, key: str, ending: Ending) -> None:
        until = time.monotonic() + _END_WAIT_S
        ours = patiently(lambda: end(self._database, key, worker=self.name, ending=ending), until=until)
        if ours:
            logger.info("job %s %s: %s", key, ending.state, ending.ended)
            self._wipe()
        else:
            logger.warning("job %s was given up on meanwhile (%s)", key, ending.ended)

    def _wipe(self) -> None:
        """Leave nothing of its prompts in the database's log; where that is busy, the next one does."""
        try:
            patiently(self._database.wipe_deleted, until=time.monotonic() + _WIPE_WAIT_S)
        except UnavailableError as error:
            logger.info("its prompts are deleted, but %s", error)
