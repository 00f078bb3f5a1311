"""A job that runs on a node of a Ray cluster, seen from its worker, which tells the database of it.

The worker starts `python -m profiler.cluster.relay`, which holds on to the cluster (Ray ends a process whose cluster is
gone, and that must not be the worker); a node runs `python -m api.jobs.remote`, whose lines come back through it. A job
whose node is lost begins anew on another: pairs of two halves are no measurement. What was measured last is kept.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from api.jobs.ending import Ending, State
from api.jobs.request import ProfileRequest, check_allowed
from api.jobs.running import Reporter
from api.settings import Settings
from api.version import specworth_version
from profiler.cluster.nodes import Needs, gpus_of
from profiler.cluster.relay import work_text
from profiler.cluster.task import INTERPRETER, OUTPUT, Work
from profiler.cluster.words import ENDED, JOINED, RAY_LOG
from profiler.errors import InputError
from profiler.probe.environment import argument
from profiler.probe.events import Event
from profiler.probe.profile import Profile
from profiler.serving.interruption import held
from profiler.serving.watchdog import Watchdog

JOB, TOLD = "job.json", "told.jsonl"  # what the node is given, and what it tells
_GRACE_S = 60.0  # for the node to stop its servers
_SENT = {
    "launch_models", "launch_flags", "launch_arguments", "launch_python", "launch_timeout_s", "max_job_budget_s",
}  # fmt: skip

logger = logging.getLogger("specworth.jobs")


class RemoteJob:
    """One job; the counterpart of `RunningJob`."""

    def __init__(
        self, key: str, asked: Mapping[str, Any], settings: Settings, reporter: Reporter, folder: Path
    ) -> None:  # fmt: skip
        self._key, self._asked, self._settings, self._reporter, self._folder = key, asked, settings, reporter, folder
        self._partial: Profile | None = None
        self._ending: Ending | None = None
        self._output: list[str] = []

    def run(self) -> Ending:
        """Have it measured; Interrupted comes through once the node was told."""
        try:
            text = self._work()
        except InputError as error:
            return self._failed(error.line())
        command = [sys.executable, "-m", "profiler.cluster.relay", "--scratch", str(self._folder)]
        if self._settings.ray_address is not None:
            command += ["--ray-address", self._settings.ray_address]
        self._reporter.listen(Event("phase", "waiting for a node of the cluster"))
        with (self._folder / "errors").open("wb") as errors:
            code = self._relay(command, text, errors)
        if self._ending is not None:
            return self._ending
        return self._failed(self._why(code))

    def stopped(self, state: State, ended: str) -> Ending:
        """Somebody had it stopped."""
        return Ending(state, ended, profile=self._partial)

    def _work(self) -> str:
        request = ProfileRequest.model_validate(self._asked)
        check_allowed(request, self._settings)
        settings = self._settings.model_dump(mode="json", include=_SENT)
        given = {"id": self._key, "asked": self._asked, "settings": settings, "version": specworth_version()}
        work = Work(
            name=f"profile {self._key}", command=(INTERPRETER, "-m", "api.jobs.remote"),
            files={JOB: orjson.dumps(given).decode()}, told=(TOLD,), grace_s=_GRACE_S / 2,
        )  # fmt: skip
        return work_text(work, needs(request, self._settings))

    def _relay(self, command: list[str], text: str, errors: Any) -> int:  # noqa: ANN401 - a file
        process: subprocess.Popen[bytes] | None = None
        watchdog: Watchdog | None = None
        try:
            with held():
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
                )
                watchdog = Watchdog(process.pid, grace_s=round(_GRACE_S))
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(text.encode())
            process.stdin.close()
            process.stdin = None  # or `communicate` would flush it
            for line in process.stdout:
                self._take(orjson.loads(line))
            return process.wait()
        finally:
            with held():
                if process is not None:
                    _end(process)
                if watchdog is not None:
                    watchdog.dismiss()

    def _take(self, news: Mapping[str, Any]) -> None:
        if news["kind"] == "began":
            self._reporter.listen(Event("phase", f"on node {news['node']}"))
        elif news["kind"] == "again":
            self._reporter.listen(Event("phase", news["text"]))
        elif news["kind"] == "lines" and news["name"] == OUTPUT:
            self._output = [*self._output, *news["lines"]][-20:]
        elif news["kind"] == "lines":
            for line in news["lines"]:
                self._hear(orjson.loads(line))

    def _hear(self, told: Mapping[str, Any]) -> None:
        """What the node's own process says."""
        if "event" in told:
            self._reporter.listen(Event(**told["event"]))
        elif "partial" in told:
            self._partial = Profile.model_validate(told["partial"])
            self._reporter.keep(self._partial.model_dump_json())
        else:
            ending = told["ending"]
            profile = None if ending["profile"] is None else Profile.model_validate(ending["profile"])
            self._ending = Ending(ending["state"], ending["ended"], ending["problem"], profile or self._partial)

    def _why(self, code: int) -> str:
        """Why the node told no end."""
        said = (self._folder / "errors").read_text(errors="replace").strip().splitlines()
        if (self._folder / ENDED).exists():
            last = said or self._output or [f"no word, exit code {code}"]
            return f"the job did not end on its node: {last[-1][:600]}" if code < 2 else last[-1][:600]
        if (self._folder / JOINED).exists():
            return f"the Ray cluster went away; the worker's {self._folder / RAY_LOG} has what Ray said"
        return "the Ray cluster cannot be joined; the worker must run on a machine of the cluster"

    def _failed(self, what: str) -> Ending:
        told = self._reporter.public(what)
        return Ending("failed", told, orjson.dumps({"what": told}).decode(), self._partial)


def needs(request: ProfileRequest, settings: Settings) -> Needs:
    """What the servers of a job ask of a node; they run one after the other, or share its GPUs."""
    flags = shlex.split(settings.launch_arguments)
    given = request.launch.arguments if request.launch is not None else {}
    sizes = {}
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        flag = "--" + name.replace("_", "-")
        sizes[name] = argument(tuple(flags), flag) or given.get(flag)
    gpus = gpus_of(sizes) if settings.ray_gpus is None else settings.ray_gpus
    return Needs(gpus, settings.ray_cpus, settings.ray_accelerator)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.communicate(timeout=_GRACE_S)  # reads on, so that it does not wait for us
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
