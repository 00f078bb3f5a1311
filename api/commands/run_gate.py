"""`specworth gate`: reads the policy, asks `advisor.gate`, tells people and CI systems, exits as it found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.gate import GatePolicy, GateVerdict, judge_profile, judge_recommendation
from advisor.recommendation import Recommendation
from api.body import read_object
from api.commands.duration import seconds
from api.commands.gate_policy import read_policy
from api.commands.results import check_place, write_whole
from api.commands.running_servers import api_key, check_method
from api.findings import field_errors
from api.report.gate import gate_report, junit_xml, summary
from api.report.terminal import print_report
from profiler.errors import EvidenceError, InputError

EXIT_CODES = {"pass": 0, "fail": 20, "not yet": 21}
_LIVE = ("window", "every", "model", "method", "api_key_env")
_MAX_BYTES = 2**24
_MAX_DEPTH = 64


def run_gate(options: Mapping[str, Any]) -> int:
    """Judge, tell, and return the exit code of what was found."""
    _check_options(options)
    policy = read_policy(options["policy"])
    for option in ("junit", "summary"):
        if options[option] is not None:
            check_place(options[option], option=f"--{option}")
    verdict = _judge(policy, options)
    for path, text in _files(options, verdict):
        try:
            write_whole(path, text)
        except OSError as error:
            raise InputError(f"{path} cannot be written", got=(error.strerror or "an error").lower()) from None
    _tell_github(verdict)
    if options["json"]:
        print(verdict.model_dump_json(indent=2))
    else:
        print_report(gate_report(verdict))
    return EXIT_CODES[verdict.outcome]


def _check_options(options: Mapping[str, Any]) -> None:
    given = [name for name in ("recommendation", "profile") if options[name] is not None]
    live = [name for name in ("control", "canary") if options[name] is not None]
    expected = "--recommendation, --profile, or --control and --canary"
    if len(live) == 1:
        missing = "--canary" if live == ["control"] else "--control"
        raise InputError(f"--{live[0]} without {missing}", expected="both: one server with speculation, one without")
    sources = [f"--{name}" for name in (*given, *live[:1])]
    if len(sources) != 1:
        raise InputError("what is to be judged", expected=f"one of {expected}", got=" and ".join(sources) or "none")
    if not live:
        odd = [f"--{name.replace('_', '-')}" for name in _LIVE if options[name] is not None]
        if odd:
            raise InputError(f"{odd[0]} is for live servers", expected="--control and --canary with it")
    check_method(options["method"])


def _judge(policy: GatePolicy, options: Mapping[str, Any]) -> GateVerdict:
    if options["recommendation"] is not None:
        return judge_recommendation(policy, _recommendation(options["recommendation"]))
    if options["profile"] is not None:
        from api.commands.profiled import read_profile

        return judge_profile(policy, read_profile(options["profile"])[1])
    return _watched(policy, options)


def _recommendation(name: str) -> Recommendation:
    expected = "what specworth advise --json printed"
    try:
        if name == "-":
            text = sys.stdin.buffer.read(_MAX_BYTES)
        else:
            with Path(name).open("rb") as file:
                text = file.read(_MAX_BYTES)
    except OSError as error:
        got = (error.strerror or "an error").lower()
        raise EvidenceError(f"--recommendation: {name} cannot be read", expected=expected, got=got) from None
    content = read_object(text, max_depth=_MAX_DEPTH, what=f"--recommendation: {name}")
    from pydantic import ValidationError

    try:
        return Recommendation.model_validate(content)
    except ValidationError as error:
        first = field_errors(error.errors())[0]
        raise EvidenceError(
            f"--recommendation: {name} is no recommendation", expected=expected, got=f"at {first.field}: {first.got}"
        ) from None


def _watched(policy: GatePolicy, options: Mapping[str, Any]) -> GateVerdict:
    import asyncio

    from advisor.gate.live import Servers, watch
    from profiler.load import Endpoint
    from profiler.observe.watch import server_root
    from profiler.serving.interruption import interruptible

    window_s = seconds(options["window"] or "10m", option="--window")
    every_s = min(seconds(options["every"] or "5s", option="--every"), window_s)
    key = api_key(options["api_key_env"])
    servers = Servers(
        control=Endpoint(server_root(options["control"]), api_key=key),
        canary=Endpoint(server_root(options["canary"]), api_key=key),
        model=options["model"],
        method=options["method"],
    )
    with interruptible():
        return asyncio.run(watch(policy, servers, window_s=window_s, every_s=every_s, on_look=_progress(window_s)))


def _progress(window_s: float) -> Callable[[float, GateVerdict], None] | None:
    """One line on a terminal; nothing where nobody looks."""
    if not sys.stderr.isatty():
        return None

    def tell(passed_s: float, verdict: GateVerdict) -> None:
        decided = sum(rule.outcome != "not yet" for rule in verdict.rules)
        line = f"{passed_s:.0f} of {window_s:.0f} s, {decided} of {len(verdict.rules)} rules decided"
        print(f"\r{line:<60}", end="\n" if passed_s >= window_s else "", file=sys.stderr, flush=True)

    return tell


def _files(options: Mapping[str, Any], verdict: GateVerdict) -> list[tuple[Path, str]]:
    found = []
    if options["junit"] is not None:
        found.append((options["junit"], junit_xml(verdict)))
    if options["summary"] is not None:
        found.append((options["summary"], summary(verdict)))
    return found


def _tell_github(verdict: GateVerdict) -> None:
    """Append to the job's summary where a GitHub Actions runner names its file: other steps write there, too."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(summary(verdict) + "\n")
    except OSError as error:
        told = (error.strerror or "an error").lower()
        print(f"specworth: GITHUB_STEP_SUMMARY: {path} cannot be written: {told}", file=sys.stderr)
