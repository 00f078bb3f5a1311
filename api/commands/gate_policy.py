"""A policy's TOML file as a policy; what is wrong in it is told with its place and line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from advisor.gate import GatePolicy
from api.commands.request import validated
from profiler.errors import InputError

_MAX_BYTES = 2**16


def read_policy(path: Path) -> GatePolicy:
    """The policy in a file.

    Raises:
        InputError: no such file, no TOML, or no policy.
    """
    expected = "a TOML file with [rules]"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        got = (error.strerror or "an error").lower()
        raise InputError(f"--policy: {path} cannot be read", expected=expected, got=got) from None
    if len(content) > _MAX_BYTES:
        raise InputError(f"--policy: {path} is too large", expected=f"at most {_MAX_BYTES:,} bytes", got="more")
    try:
        text = content.decode("utf-8-sig")
        fields = tomllib.loads(text)
    except UnicodeDecodeError as error:
        got = f"other bytes at {error.start}"
        raise InputError(f"--policy: {path} is no text", expected="UTF-8", got=got) from None
    except tomllib.TOMLDecodeError as error:
        told = str(error)[:200]
        raise InputError(f"--policy: {path} is not valid TOML", expected=expected, got=told) from None
    try:
        return validated(GatePolicy, fields)
    except InputError as error:
        place = error.field or "the whole"
        raise InputError(
            f"--policy: {path}{_line(text, place)}: {place}", expected=error.expected, got=error.got,
            remedy=error.remedy,
        ) from None  # fmt: skip


def _line(text: str, place: str) -> str:
    """The line at which a place's last key is set, where one is found."""
    key = re.escape(re.sub(r"\[\d+\]", "", place).rpartition(".")[2])
    pattern = re.compile(rf"\s*(?:[\w-]+\.)*[\"']?{key}[\"']?\s*=|\s*\[\s*{key}\s*\]")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.match(line):
            return f", line {number}"
    return ""
