"""A running job's word to the database: its lease, its events and its partial profile; and the word that comes back.

A thread beside the measurement, so that neither waits for the other: what happens is gathered, and put down about once
a second in one transaction, which renews the lease. Of progress only the latest counts. The measurement is stopped as
Ctrl-C would stop it, by a signal to the main thread, where somebody cancelled, where the job is not ours any more, and
where the database was away so long that the lease is about to run out: then another worker may take the GPU.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from typing import Literal

import orjson

from api.history.database import Database
from api.history.errors import StorageError
from api.jobs.claim import Report, report
from api.jobs.ending import NewEvent
from profiler.probe.events import Event

Reason = Literal["cancelled", "lost"]
_EVERY_S = 1.0
_BEATS = 4  # at least, in one lease
_LATE = 0.7  # of the lease without a word from the database: time is left to stop the servers

logger = logging.getLogger("specworth.jobs")


def public_text(text: str, log_folder: str) -> str:
    """See `Heartbeat.public`."""
    told = text.replace(f" (log: {log_folder}/", " (its log: ").replace(f"{log_folder}/", "")
    return told.replace("\0", "\ufffd").encode(errors="replace").decode()  # what any database takes


class Heartbeat:
    """For the length of a `with` block, in the main thread; `reason` says why the measurement was told to stop."""

    def __init__(self, database: Database, key: str, *, worker: str, lease_s: float, log_folder: str) -> None:
        self._database, self._key, self._worker, self._lease_s = database, key, worker, lease_s
        self._log_folder = log_folder
        self._lock = threading.Lock()
        self._events: list[NewEvent] = []
        self._progress: NewEvent | None = None
        self._phase: str | None = None
        self._partial: str | None = None
        self._over = threading.Event()
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._heard = time.monotonic()
        self.reason: Reason | None = None

    @property
    def timely(self) -> bool:
        """Whether the lease, as it was renewed last, still runs."""
        return time.monotonic() < self._heard + self._lease_s

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No word any more, and no signal: what comes next is the job's end."""
        with self._lock:
            self._over.set()
        self._thread.join()

    def listen(self, event: Event) -> None:
        """Something happened in the measurement."""
        text = self.public(event.text)
        with self._lock:
            new = NewEvent(event.kind, text, orjson.dumps(event.values, default=str).decode())
            if event.kind == "progress":
                self._progress = new
                return
            if event.kind in ("phase", "wave_started"):
                self._phase = text
            self._take_progress()
            self._events.append(new)

    def keep(self, partial: str) -> None:
        """The profile as it is now."""
        with self._lock:
            self._partial = partial

    def public(self, text: str) -> str:
        """A text without the place of this host's logs, which is nobody's business but the operator's."""
        return public_text(text, self._log_folder)

    def unsent(self) -> tuple[NewEvent, ...]:
        """Events that were not put down; called after `stop`."""
        self._take_progress()
        return tuple(self._events)

    def _take_progress(self) -> None:
        if self._progress is not None:
            self._events.append(self._progress)
            self._progress = None

    def _run(self) -> None:
        while not self._over.wait(min(_EVERY_S, self._lease_s / _BEATS)):
            told, asked = self._gather(), time.monotonic()
            try:
                stop = report(self._database, self._key, worker=self._worker, lease_s=self._lease_s, told=told)
            except StorageError as error:
                self._put_back(told)
                if time.monotonic() - self._heard > _LATE * self._lease_s:
                    logger.error("job %s: the database is away (%s); the job is stopped", self._key, error)
                    return self._tell_main("lost")
                continue
            except Exception:
                logger.exception("job %s: its state cannot be put down; the job is stopped", self._key)
                return self._tell_main("lost")
            if stop is None:
                self._heard = -self._lease_s
                return self._tell_main("lost")
            self._heard = asked
            if stop and self.reason is None:
                self._tell_main("cancelled")  # stopping the servers takes a while, in which the lease is kept

    def _gather(self) -> Report:
        with self._lock:
            progress = self._progress.details if self._progress is not None else None
            self._take_progress()
            told = Report(tuple(self._events), self._phase, progress, self._partial)
            self._events, self._phase, self._partial = [], None, None
            return told

    def _put_back(self, told: Report) -> None:
        with self._lock:
            self._events[:0] = told.events
            self._phase = self._phase or told.phase
            self._partial = self._partial or told.partial

    def _tell_main(self, reason: Reason) -> None:
        with self._lock:
            if self._over.is_set():
                return
            self.reason = reason
            signal.pthread_kill(self._main, signal.SIGTERM)
