"""What a node of a Ray cluster runs for a job: `python -m api.jobs.remote`, in a folder that holds the job.

It reads the job, measures as a worker of this host would, and tells events, partial profiles and the end as lines of a
file. The prompts are deleted from the disk before anything is measured. Refused: a job of another version of ours.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson

from api.jobs.ending import Ending
from api.jobs.heartbeat import public_text
from api.jobs.remotely import JOB, TOLD
from api.jobs.running import RunningJob
from api.settings import Settings
from api.version import specworth_version
from profiler.probe.events import Event
from profiler.serving.interruption import Interrupted, interruptible


class Told:
    """Writes what happens; see `running.Reporter`."""

    def __init__(self, path: Path, log_folder: str) -> None:
        self._path, self._log_folder = path, log_folder

    def listen(self, event: Event) -> None:
        """Something happened in the measurement."""
        self._write(event={"kind": event.kind, "text": self.public(event.text), "values": event.values})

    def keep(self, partial: str) -> None:
        """The profile as it is now."""
        self._write(partial=orjson.Fragment(partial))

    def public(self, text: str) -> str:
        """Without the place of this host's logs."""
        return public_text(text, self._log_folder)

    def end(self, ending: Ending) -> None:
        """How it ended."""
        profile = None if ending.profile is None else orjson.Fragment(ending.profile.model_dump_json())
        told = {"state": ending.state, "ended": ending.ended, "problem": ending.problem, "profile": profile}
        self._write(ending=told)

    def _write(self, **told: Any) -> None:  # noqa: ANN401 - what JSON takes
        with self._path.open("ab") as file:
            file.write(orjson.dumps(told, default=str) + b"\n")


def main() -> int:
    """Measure the job of this folder."""
    path = Path(JOB)
    given = orjson.loads(path.read_bytes())
    path.unlink()
    logs = Path("logs").absolute()
    logs.mkdir()
    told = Told(Path(TOLD).absolute(), str(logs))
    if given["version"] != specworth_version():
        what = (
            f"the node has another specworth than the worker; expected {given['version']}; got {specworth_version()}; "
            "install the same for Ray's Python on every node"
        )
        told.end(Ending("failed", what, orjson.dumps({"what": what}).decode()))
        return 1
    job = RunningJob(given["id"], given["asked"], Settings(**given["settings"]), told, logs)
    try:
        with interruptible():
            told.end(job.run())
    except Interrupted as stop:
        return stop.exit_code  # its worker knows why, and has what was measured
    return 0


if __name__ == "__main__":
    sys.exit(main())
