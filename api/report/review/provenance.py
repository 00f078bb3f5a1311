"""How does somebody else get the same report? The command, the versions, the models, the seed, hashes of what was read.

Of the prompts there are a number and a SHA-256, never a text. Nothing names this host or its user, and what looks like
a key in a command line is left out.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from inspect import signature
from typing import Any, get_type_hints

import orjson
from typer.models import ArgumentInfo

from api.report.review.document import Code, Facts
from api.version import specworth_version
from models.artefact import MANIFEST, VARIABLE, folder_in_use, read_manifest
from profiler.prompts.sample import Prompt

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
# Options that say how an answer is shown or where it goes, not what it is.
_SHOWN = frozenset({"json", "output", "report", "exit_code", "events", "quiet", "out", "log_folder", "chart"})
_WORDS = ("serve_arguments", "speculative_arguments", "python")  # each a command line within the command line
_USER = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True)
class Source:
    """Where the prompts come from, and what they were."""

    name: str | None  # as it was given
    prompts: int
    sha256: str | None
    of: str = ""  # what the SHA-256 is over, in words
    drawn: str | None = None  # how many were drawn, and by which seed


@dataclass(frozen=True)
class Provenance:
    """How a report came about."""

    asked: Code  # the command, or the request
    source: Source | None  # None where no prompts were read
    answered_at: datetime | None
    made_at: datetime
    answer_id: str | None = None
    model_version: str | None = None  # as the answer names it
    others: tuple[tuple[str, str], ...] = ()  # further files that were read: what, and its SHA-256


def now() -> datetime:
    """This moment, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def sha256_of_prompts(prompts: Sequence[Prompt]) -> str:
    """Over what was drawn, as it would be sent, in its order."""
    told = [
        {
            "messages": [[message.role, message.text] for message in prompt.messages],
            "max_tokens": prompt.max_tokens,
            "temperature": prompt.temperature,
        }
        for prompt in prompts
    ]
    return hashlib.sha256(_bytes(told)).hexdigest()


def _bytes(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # text that is no UTF-8, which orjson refuses: lone surrogates of a broken export
        return repr(value).encode("utf-8", "backslashreplace")


def command_line(name: str, command: Callable[..., Any], options: Mapping[str, Any]) -> Code:
    """The options that were given, as a command that gives the same answer."""
    folder = os.environ.get(VARIABLE)
    lines = [[*([f"{VARIABLE}={shlex.quote(folder)}"] if folder else []), "specworth", name]]
    positional = _positional(command)
    for option, parameter in signature(command).parameters.items():
        value = options[option]
        if option in _SHOWN or value == parameter.default or value is None:
            continue
        if option in positional:
            lines[0].append(shlex.quote(str(value)))
        else:
            lines.append([shlex.join(_spelled(option, value))])
    return Code("Command", " \\\n  ".join(" ".join(line) for line in lines))


def _positional(command: Callable[..., Any]) -> frozenset[str]:
    """Parameters that Typer takes by their place."""
    hints = get_type_hints(command, include_extras=True)
    return frozenset(
        name
        for name, hint in hints.items()
        if any(isinstance(told, ArgumentInfo) for told in getattr(hint, "__metadata__", ()))
    )


def _spelled(option: str, value: Any) -> list[str]:  # noqa: ANN401
    flag = f"--{option.replace('_', '-')}"
    if isinstance(value, bool):
        return [flag if value else f"--no-{option.replace('_', '-')}"]
    if isinstance(value, (list, tuple)):
        return [word for each in value for word in (flag, str(each))]
    if option in _WORDS:
        return [flag, _without_keys(str(value))]
    return [flag, _USER.sub("...@", str(value))]


def without_keys(words: Sequence[str]) -> list[str]:
    """Arguments of a command with dots in place of what looks like a key: a report is handed around."""
    from profiler.probe.environment import without_secrets  # with it come HTTP clients, which advice has no use for

    return list(without_secrets(words))


def _without_keys(words: str) -> str:
    """The same of a command line within the command line."""
    try:
        return shlex.join(without_keys(shlex.split(words)))
    except ValueError:
        return "..."


def repeat(provenance: Provenance) -> tuple[Code, Facts]:
    """The last section: what to run, and what it ran with."""
    source = provenance.source
    entries: list[tuple[str, tuple[str, ...]]] = [
        ("Prompts", ("none were read",) if source is None else _prompts(source)),
        *((what, (f"SHA-256 {digest}",)) for what, digest in provenance.others),
        ("Dates", (
            *(() if provenance.answered_at is None else (f"answered {_moment(provenance.answered_at)}",)),
            f"this report made {_moment(provenance.made_at)}",
        )),
        ("Versions", (
            f"specworth {specworth_version()}, Python {platform.python_version()}, "
            + ", ".join(f"{library} {version(library)}" for library in _LIBRARIES),
            f"{platform.system()} on {platform.machine()}",
        )),
        ("Models", _models(provenance.model_version)),
    ]  # fmt: skip
    if provenance.answer_id is not None:
        entries.append(("Answer", (f"id {provenance.answer_id}",)))
    return provenance.asked, Facts(tuple(entries))


def _prompts(source: Source) -> tuple[str, ...]:
    whence = f" from {source.name}" if source.name else ""
    return (
        f"{source.prompts:,} prompts{whence}{f', {source.drawn}' if source.drawn else ''}",
        f"SHA-256 {source.sha256}, over {source.of}" if source.sha256 else "their hash was not kept",
    )


def _models(answered_by: str | None) -> tuple[str, ...]:
    manifest = hashlib.sha256((folder_in_use() / MANIFEST).read_bytes()).hexdigest()
    lines = [f"manifest of the trained models ({MANIFEST}): SHA-256 {manifest}"]
    lines += [f"{name}: SHA-256 {entry['sha256']}" for name, entry in read_manifest().items()]
    if answered_by is not None:
        lines.append(f"the answer names {answered_by}")
    return tuple(lines)


def _moment(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%d %B %Y, %H:%M:%S UTC")
