"""A policy's TOML file as a policy; what is wrong in it is told with its place and line."""

from __future__ import annotations

from pathlib import Path

from advisor.gate import GatePolicy
from api.commands.request import validated
from api.commands.toml_file import line_of, read_toml
from profiler.errors import InputError

_MAX_BYTES = 2**16


def read_policy(path: Path) -> GatePolicy:
    """The policy in a file.

    Raises:
        InputError: no such file, no TOML, or no policy.
    """
    fields, text = read_toml(path, name="--policy", expected="a TOML file with [rules]", max_bytes=_MAX_BYTES)
    try:
        return validated(GatePolicy, fields)
    except InputError as error:
        place = error.field or "the whole"
        raise InputError(
            f"--policy: {path}{line_of(text, place)}: {place}", expected=error.expected, got=error.got,
            remedy=error.remedy,
        ) from None  # fmt: skip
