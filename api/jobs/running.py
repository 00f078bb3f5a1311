"""A job that runs on this host: the session of `specworth profile`, on servers that the operator allows.

What was measured is kept however the job ends. Errors of the session are the job's: they are told to whoever asked.
"""

from __future__ import annotations

import logging
import shlex
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson

from api.commands.probe_servers import servers_to_start
from api.commands.probe_session import open_session
from api.jobs.destinations import AllowList, read_address
from api.jobs.ending import Ending, State
from api.jobs.request import AttachSpec, ProfileRequest, attachable, check_allowed, launchable
from api.settings import Settings
from profiler.errors import SpecworthError
from profiler.probe.events import Event
from profiler.probe.profile import Profile
from profiler.probe.session import Session
from profiler.probe.settings import Attached, Launched, ProbeSettings, refuse_sampling_on_cpu
from profiler.prompts.reading import prompts_from_objects
from profiler.prompts.sample import PromptSample
from profiler.serving.interpreter import Engine

logger = logging.getLogger("specworth.jobs")


class Reporter(Protocol):
    """Who is told of a job that runs."""

    def listen(self, event: Event) -> None:
        """Something happened in the measurement."""

    def keep(self, partial: str) -> None:
        """The profile as it is now."""

    def public(self, text: str) -> str:
        """A text without what concerns this host alone."""


class RunningJob:
    """One job; `asked` is the request with its prompts, `folder` is where logs go."""

    def __init__(
        self, key: str, asked: Mapping[str, Any], settings: Settings, reporter: Reporter, folder: Path
    ) -> None:  # fmt: skip
        self._key, self._asked, self._settings, self._reporter, self._folder = key, asked, settings, reporter, folder
        self._session: Session | None = None
        self._created = datetime.now(UTC).isoformat(timespec="seconds")

    def run(self) -> Ending:
        """Measure; errors become the job's end, Interrupted comes through."""
        try:
            ended = self._measure()
        except SpecworthError as error:
            what = self._reporter.public(error.line())
            return self._ending("failed", what, problem=self._problem(error))
        except Exception as error:
            number = uuid.uuid4().hex[:12]
            logger.error("unexpected failure %s in job %s", number, self._key, exc_info=error)
            what = f"an unexpected failure; the worker's log has it under {number}"
            return self._ending("failed", what, problem={"what": what})
        assert self._session is not None
        return Ending("finished", ended, profile=self._profile("complete", ended))

    def stopped(self, state: State, ended: str) -> Ending:
        """Somebody had it stopped."""
        return self._ending(state, ended)

    def _ending(self, state: State, ended: str, *, problem: Mapping[str, Any] | None = None) -> Ending:
        measured = self._session is not None and bool(self._session.record.waves)
        profile = self._profile("partial", ended) if measured else None
        return Ending(state, ended, None if problem is None else orjson.dumps(problem).decode(), profile)

    def _problem(self, error: SpecworthError) -> dict[str, str]:
        parts = {name: getattr(error, name) for name in ("what", "expected", "got", "remedy", "field")}
        return {name: self._reporter.public(text) for name, text in parts.items() if text}

    def _profile(self, status: Literal["complete", "partial"], ended: str) -> Profile:
        session = self._session
        assert session is not None
        return session.profile(status=status, ended=ended[:3900], created=self._created)

    def _measure(self) -> str:
        request = ProfileRequest.model_validate(self._asked)
        check_allowed(request, self._settings)
        sample = prompts_from_objects(request.prompts, seed=request.seed)
        probe = _probe_settings(request)
        servers, engine, options = self._servers(request, sample, probe)
        self._session = open_session(
            options, sample, probe, servers, engine, target=request.told_target, source="POST /v1/profiles",
            config=request.speculative_config, listen=self._reporter.listen, save=self._save,
        )  # fmt: skip
        return self._session.run()

    def _save(self) -> None:
        """What is measured so far outlives even a kill of this process."""
        self._reporter.keep(self._profile("partial", "still running").model_dump_json())

    def _servers(
        self, request: ProfileRequest, sample: PromptSample, probe: ProbeSettings
    ) -> tuple[Launched | Attached, Engine, dict[str, Any]]:
        options: dict[str, Any] = {"target": request.target, "gpu": request.gpu, "serve_arguments": ""}
        if request.attach is not None:
            return _attached(request.attach, attachable(self._settings), self._settings), Engine(None, False), options
        assert request.launch is not None
        policy, own = launchable(self._settings), shlex.split(self._settings.launch_arguments)
        both = (*policy.words(request.launch.arguments, field="launch.arguments"), *own)
        more = policy.words(request.launch.speculative_arguments, field="launch.speculative_arguments")
        options |= {
            "serve_arguments": shlex.join(both), "speculative_arguments": shlex.join(more),
            "python": self._settings.launch_python, "co_resident": request.launch.co_resident,
            "start_timeout": self._settings.launch_timeout_s,
        }  # fmt: skip
        engine, servers = servers_to_start(options, request.speculative_config, self._folder)
        if engine.is_cpu:
            refuse_sampling_on_cpu(probe, sample.prompts, where="a CPU build of vLLM")
        return servers, engine, options


def _attached(spec: AttachSpec, allowed: AllowList, settings: Settings) -> Attached:
    """The servers at the addresses that were checked; a key goes to listed ones alone."""
    urls: dict[str, str] = {}
    addresses: dict[str, str] = {}
    listed = []
    for name, text in (("speculative_url", spec.speculative_url), ("baseline_url", spec.baseline_url)):
        if text is None:
            continue
        field = f"attach.{name}"
        address = read_address(text, field=field)
        urls[name], addresses[address.url] = address.url, allowed.resolve(address, field=field)
        listed.append(allowed.lists(address))
    key = settings.attach_api_key
    return Attached(
        speculative_url=urls["speculative_url"], baseline_url=urls.get("baseline_url"), model=spec.model,
        api_key=key.get_secret_value() if key is not None and all(listed) else None, addresses=addresses,
    )  # fmt: skip


def _probe_settings(request: ProfileRequest) -> ProbeSettings:
    load, policy = request.traffic, request.policy
    return ProbeSettings(
        concurrency=load.concurrency, temperature=load.temperature, also_temperatures=tuple(load.also_temperatures),
        max_tokens=load.max_tokens, budget_s=request.budget_s, objective=policy.objective,
        min_speedup=policy.min_speedup, confidence=policy.confidence, look_around=request.look_around,
        seed=request.seed,
    )  # fmt: skip
