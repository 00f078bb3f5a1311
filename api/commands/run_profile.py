"""`specworth profile`: reads prompts, starts or finds the servers, probes them, saves and shows what was measured."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from api.commands.probe_servers import attached_servers, servers_to_start, speculative_config
from api.commands.probe_session import open_session
from api.commands.report_file import asked_by, check_report, write_report
from api.commands.results import check_place, write_whole
from api.report.profile import print_profile
from api.report.progress import listener
from profiler.errors import InputError, SpecworthError
from profiler.probe.profile import Profile
from profiler.probe.settings import Attached, Launched, ProbeSettings, refuse_sampling_on_cpu
from profiler.prompts import read_prompts
from profiler.prompts.sample import PromptSample
from profiler.serving.interpreter import Engine
from profiler.serving.interruption import Interrupted, held, interruptible

ASSUMED_CONCURRENCY = 16  # advisor.load: the middle of the range in which verdicts turn
DISABLED, UNDECIDED = 10, 11


def run_profile(options: Mapping[str, Any]) -> int:
    """One session; 0 where it was not cut short, whatever the verdict."""
    if options["objective"] not in ("end_to_end", "tpot"):
        raise InputError("--objective: unknown", expected="end_to_end or tpot", got=repr(options["objective"]))
    settings = _settings(options)
    attached = attached_servers(options)
    config = speculative_config(options["speculative_config"])
    out: Path = options["out"]
    check_place(out)
    check_report(options["report"])
    sample = _read(options)
    with interruptible(), contextlib.ExitStack() as stack:
        log_folder = _log_folder(options["log_folder"])
        stack.callback(_remove_if_empty, log_folder)
        if attached is not None:
            return _run(options, sample, settings, attached, config, Engine(None, False), log_folder)
        engine, servers = servers_to_start(options, config, log_folder)
        if engine.is_cpu:
            refuse_sampling_on_cpu(settings, sample.prompts, where="a CPU build of vLLM")
        return _run(options, sample, settings, servers, config, engine, log_folder)


def _run(
    options: Mapping[str, Any], sample: PromptSample, settings: ProbeSettings, servers: Launched | Attached,
    config: dict[str, Any] | None, engine: Engine, log_folder: Path,
) -> int:  # fmt: skip
    out: Path = options["out"]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    told = listener(quiet=options["quiet"], events=options["events"])

    def build(status: Literal["complete", "partial"], ended: str) -> Profile:
        return session.profile(status=status, ended=ended, created=created)

    def save() -> None:
        # What is measured so far outlives even a kill; that the disk is full is told in the end.
        if out.exists() and not out.is_file():
            return
        with contextlib.suppress(OSError):
            write_whole(out, _text(build("partial", "still running")))

    def keep_part(ended: str) -> str:
        """Where what was measured is now."""
        if not session.record.waves:
            return "nothing was measured"
        part = build("partial", ended)
        kept = _keep(part, out, told_anyway=options["events"])
        _review(part, options, sample)
        told.finish(part)
        return f"what was measured before is {f'in {out}' if kept else 'on standard output'} (partial)"

    session = open_session(
        options, sample, settings, servers, engine, target=options["target"] or options["model"] or "(as served)",
        source=sample.source, config=config, listen=told.listen, save=save,
    )  # fmt: skip
    if options["concurrency"] is None:
        session.record.note(f"no --concurrency was given: {ASSUMED_CONCURRENCY} requests at once are assumed")
    try:
        with told:
            ended = session.run()
    except Interrupted as stop:
        with held():  # whoever presses Ctrl-C twice wants it gone, not lost
            where = keep_part(f"stopped by {stop.name}")
            print(f"specworth: stopped by {stop.name}; {where}", file=sys.stderr)
        return stop.exit_code
    except SpecworthError as error:
        if not session.record.waves:
            raise
        with held():
            where = keep_part(error.line())
            print(f"specworth: {error.line()}; {where}", file=sys.stderr)
        return 1
    except Exception as error:  # whatever else it is, a closed pipe or a fault of ours: it cost GPU time until here
        with held(), contextlib.suppress(BrokenPipeError):
            keep_part(f"{type(error).__name__}: {error}")
        raise
    finished = build("complete", ended)
    kept = _keep(finished, out, told_anyway=options["events"])
    if options["log_folder"] is None:
        shutil.rmtree(log_folder, ignore_errors=True)
    told.finish(finished)
    if kept and options["json"]:
        print(finished.model_dump_json(indent=2))
    elif not options["events"] and not options["json"]:
        print_profile(finished)
    if kept:
        print(f"specworth: profile written to {out}", file=sys.stderr)
    if not (_review(finished, options, sample) and kept):
        return 1
    if options["exit_code"]:
        decision = finished.decision
        return UNDECIDED if not decision.decisive else DISABLED if decision.verdict == "disable" else 0
    return 0


def _keep(profile: Profile, out: Path, *, told_anyway: bool) -> bool:
    """Write the profile; where that fails print it, since it cost GPU time. Whether the file is there.

    told_anyway: the last event has it.
    """
    try:
        write_whole(out, _text(profile))
    except OSError as error:
        if not told_anyway:
            print(profile.model_dump_json())
        why = (error.strerror or "an error").lower()
        print(f"specworth: --out: {out} cannot be written: {why}; the profile is on standard output", file=sys.stderr)
        return False
    return True


def _review(profile: Profile, options: Mapping[str, Any], sample: PromptSample) -> bool:
    """Write the review where one is asked for; False where that failed."""
    if options["report"] is None:
        return True
    from api.commands.profile import profile as command
    from api.report.review.measured import created, review_profile

    came = replace(asked_by("profile", command, options, sample), answered_at=created(profile))
    return write_report(options["report"], review_profile(profile, came))


def _text(profile: Profile) -> str:
    return profile.model_dump_json(indent=2) + "\n"


def _read(options: Mapping[str, Any]) -> PromptSample:
    return read_prompts(
        options["file"], format=options["format"], column=options["column"], sample_size=options["sample_size"],
        seed=options["seed"],
    )  # fmt: skip


def _settings(options: Mapping[str, Any]) -> ProbeSettings:
    return ProbeSettings(
        concurrency=options["concurrency"] or ASSUMED_CONCURRENCY,
        temperature=options["temperature"],
        also_temperatures=tuple(options["also_temperature"] or ()),
        max_tokens=options["max_tokens"],
        budget_s=options["budget"],
        objective=options["objective"],
        min_speedup=options["min_speedup"],
        confidence=options["confidence"],
        look_around=options["look_around"],
        request_timeout_s=options["request_timeout"],
        stall_timeout_s=options["stall_timeout"],
        seed=options["seed"],
    )


def _remove_if_empty(folder: Path) -> None:
    """A folder for logs that nothing was written to says nothing."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _log_folder(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="specworth-profile-"))
    try:
        given.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = (error.strerror or "an error").lower()
        raise InputError(f"--log-folder: {given} cannot be made", got=got) from None
    return given
