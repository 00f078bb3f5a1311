"""What is reviewed of a profile? What two real servers did with the prompts, how sure that is, what was not measured.

Everything here was measured; nothing is predicted. A session that ended early is told as such, first of all.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import datetime

from api.report.content import Points, command_lines
from api.report.review import measured_figures as figures
from api.report.review.document import Block, Code, Facts, Prose, Review, Section
from api.report.review.provenance import Provenance, repeat, without_keys
from api.report.wording import as_sentence, method_with
from api.version import specworth_version
from profiler.probe.profile import Profile

_SPOKEN_MODE = {
    "launched": "started one after the other by specworth", "co-resident": "started together by specworth",
    "attached": "running already, attached to by specworth",
}  # fmt: skip


def review_profile(profile: Profile, provenance: Provenance) -> Review:
    """The review of one session."""
    there = profile.environment
    place = there.gpus[0] if there.gpus else "a CPU" if there.platform == "cpu" else "servers of unknown hardware"
    place = place if len(there.gpus) < 2 else f"{len(there.gpus)} x {place}"
    sections = [
        Section("decision", "Decision", tuple(_decision(profile))),
        Section("evidence", "Evidence", (_evidence(profile),)),
        *_figures(profile),
        Section("alternatives", "Alternatives", (_alternatives(),)),
        Section("configuration", "Configuration", tuple(_configuration(profile))),
        Section("limits", "Limits, and what to know before acting", (_limits(profile),)),
        Section("method", "Method", (_method(profile),)),
        Section("waves", "Everything that was run", (figures.spent(profile), figures.waves(profile))),
        Section("repeat", "How to repeat it", repeat(provenance)),
    ]
    return Review(
        kind="Measurement of speculative decoding",
        subject=f"{profile.target} on {place}",
        mark=_mark(profile),
        decision=_sentence(profile),
        made_at=provenance.made_at,
        version=specworth_version(),
        sections=tuple(sections),
    )


def _mark(profile: Profile) -> str:
    decision = profile.decision
    if decision.verdict is None:
        return "No verdict"
    action = "Enable" if decision.verdict == "enable" else "Leave off"
    return action if decision.decisive else f"Not decisive, leaning to {action.lower()}"


def _sentence(profile: Profile) -> str:
    probed = profile.speculation
    what = method_with(probed.method, probed.num_speculative_tokens, probed.draft) if probed.method else "speculation"
    measured = as_sentence(f"{what} was measured")
    return f"{measured[:-1]}: {as_sentence(profile.decision.text)}" if profile.decision.text else measured


def _decision(profile: Profile) -> Iterator[Block]:
    if profile.status == "partial":
        yield Prose(f"The session ended early ({profile.ended}): this is what was measured until then.")
    if profile.points:
        yield figures.numbers(profile)
    policy = profile.policy
    spoken = "end to end" if policy.objective == "end_to_end" else "per output token"
    yield Prose(
        f"Worth it is a speedup of at least {policy.min_speedup:g}x {spoken}; the verdict is decisive where the "
        f"interval at {policy.confidence:.0%} excludes that, whichever way."
    )


def _evidence(profile: Profile) -> Facts:
    there, prompts = profile.environment, profile.prompts
    loads = ", ".join(f"{concurrency:,}" for concurrency in sorted({p.concurrency for p in profile.points}))
    gaps = [f"{one.count:,} x {one.what}: {one.why}" for one in profile.refused]
    gaps += [
        f"At {point.concurrency:,} at once no speedup is known: {point.pairs:,} prompts were answered by both servers."
        for point in profile.points
        if point.end_to_end is None
    ]
    if profile.status == "partial":
        gaps.append(as_sentence(f"the session ended early: {profile.ended}"))
    cut = "" if prompts.cut_share is None else f" {prompts.cut_share:.0%} of the answers ended at max_tokens."
    return Facts(
        (
            ("Measured", (
                f"{len(profile.waves):,} waves with {prompts.sent:,} of {prompts.usable:,} usable prompts.{cut}",
                f"Servers {_SPOKEN_MODE[there.mode]}: vLLM {there.engine_version or 'of unknown version'}, "
                f"{_hardware(profile)}.",
                f"Asked for: {_kinds(profile)}.",
            )),
            ("Predicted", ("Nothing; the models chose at which further concurrencies to look, where they could.",)),
            ("Assumed", tuple(as_sentence(note) for note in profile.notes if "assumed" in note) or ("Nothing.",)),
            ("Coverage", (f"Requests at once: {loads or 'none'}.",)),
            ("Gaps", tuple(gaps) or ("None: all that was planned was measured.",)),
        )
    )  # fmt: skip


def _hardware(profile: Profile) -> str:
    there = profile.environment
    gpus = ", ".join(there.gpus) or {"cpu": "a CPU", "gpu": "GPUs"}.get(
        there.platform or "", "hardware that is not told"
    )
    memory = f" of {there.gpu_memory_bytes / 2**30:,.1f} GiB" if there.gpu_memory_bytes else ""
    driver = f", driver {there.driver}" if there.driver else ""
    host = f", host {there.host_cpu}" if there.host_cpu else ""
    return f"{gpus}{memory}{driver}{host}"


def _kinds(profile: Profile) -> str:
    sent = max(sum(profile.prompts.structure.values()), 1)
    return ", ".join(f"{name.replace('_', ' ')} {n / sent:.0%}" for name, n in profile.prompts.structure.items()) or "-"


def _figures(profile: Profile) -> Iterator[Section]:
    speedup = figures.speedup(profile)
    if speedup is not None:
        yield Section("speedup", "Speedup over concurrency", (speedup, figures.latencies(profile)))
    elif profile.points:
        yield Section("speedup", "Speedup over concurrency", (Prose("None is known."), figures.latencies(profile)))
    acceptance = tuple(figures.acceptance(profile))
    yield Section("acceptance", "Acceptance", acceptance or (Prose("The server counted no drafts."),))
    yield Section("memory", "Memory", (figures.memory(profile),))
    notes = [as_sentence(note) for note in profile.notes]
    yield Section("reasons", "Why: what was noticed", (Points(tuple(notes) or ("Nothing out of the ordinary.",)),))


def _alternatives() -> Prose:
    return Prose(
        "None was measured: a session compares one configuration with none. The command specworth advise, given this "
        "profile, predicts the other methods beside it."
    )


def _configuration(profile: Profile) -> Iterator[Block]:
    there, probed = profile.environment, profile.speculation
    if there.mode == "attached":
        yield Prose("The servers ran already; with which arguments they were started is not known here.")
    if probed.config is not None:
        yield Code("vLLM's speculative config", json.dumps(probed.config, ensure_ascii=False), "json")
    if there.mode != "attached":
        config = () if probed.config is None else ("--speculative-config", json.dumps(probed.config))
        for label, arguments in (("without speculation", ()), ("with speculation", config)):
            lines = command_lines([profile.target, *without_keys(there.serve_arguments), *arguments])
            yield Code(f"vLLM's command {label}", " \\\n".join(lines))


def _limits(profile: Profile) -> Points:
    told = [
        "The intervals say how far the same servers with other prompts of this kind would be off; not what other "
        "prompts, lengths or loads would give.",
        "A steady load was applied: as many requests at once as named, each followed by the next.",
    ]
    if profile.environment.mode == "co-resident":
        told.append("Both servers shared the hardware: each had half the memory, and took bandwidth from the other.")
    if profile.environment.platform == "cpu":
        told.append("It was measured on a CPU: speedups there say nothing of a GPU; acceptance does.")
    return Points(tuple(told))


def _method(profile: Profile) -> Points:
    looks = max((p.end_to_end.looks for p in profile.points if p.end_to_end is not None), default=1)
    return Points(
        (
            "Each prompt was sent once to a server without and once to one with speculation, at the same number of "
            "requests at once; the speedup is the ratio of output tokens per second, from requests paired by prompt.",
            "The interval is that of the ratio's logarithm over the pairs, so that it carries the spread between "
            f"prompts; it is widened for {looks:,} look{'s' if looks != 1 else ''} at the growing data, since whoever "
            "looks often finds a false difference sooner.",
            "The acceptance length is 1 + accepted / drafts, by vLLM's own counters.",
        )
    )


def told_command(profile: Profile) -> Code:
    """What stands for the command where only the profile is left of it."""
    lines = [shlex.join(["specworth", "profile", profile.prompts.source or "PROMPTS"])]
    if profile.environment.mode == "attached":
        lines += ["--baseline-url URL", "--speculative-url URL"]
    else:
        lines.append(shlex.join(["--target", profile.target]))
        lines.append(shlex.join(["--speculative-config", json.dumps(profile.speculation.config)]))
        if profile.environment.serve_arguments:
            lines.append(
                shlex.join(["--serve-arguments", shlex.join(without_keys(profile.environment.serve_arguments))])
            )
    if profile.points:
        lines.append(f"--concurrency {profile.points[0].concurrency}")
    policy = profile.policy
    lines += [f"--min-speedup {policy.min_speedup:g}", f"--confidence {policy.confidence:g}"]
    lines += ["--objective tpot"] if policy.objective == "tpot" else []
    return Code("A command that measures the same, by what the profile tells", " \\\n  ".join(lines))


def created(profile: Profile) -> datetime | None:
    """When it was measured; None where the file says something else."""
    try:
        return datetime.fromisoformat(profile.created).astimezone()
    except ValueError:
        return None
