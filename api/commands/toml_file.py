"""A TOML file that states a request: its content, and where in it a place stands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from profiler.errors import InputError


def read_toml(path: Path, *, name: str, expected: str, max_bytes: int) -> tuple[dict[str, Any], str]:
    """The content of a file and its text; `name` is what messages call it.

    Raises:
        InputError: no such file, too large a one, or no TOML.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        got = (error.strerror or "an error").lower()
        raise InputError(f"{name}: {path} cannot be read", expected=expected, got=got) from None
    if len(content) > max_bytes:
        raise InputError(f"{name}: {path} is too large", expected=f"at most {max_bytes:,} bytes", got="more")
    try:
        text = content.decode("utf-8-sig")
        return tomllib.loads(text), text
    except UnicodeDecodeError as error:
        got = f"other bytes at {error.start}"
        raise InputError(f"{name}: {path} is no text", expected="UTF-8", got=got) from None
    except tomllib.TOMLDecodeError as error:
        told = str(error)[:200]
        raise InputError(f"{name}: {path} is not valid TOML", expected=expected, got=told) from None


def line_of(text: str, place: str) -> str:
    """The line at which a place's last key is set, where one is found."""
    key = re.escape(re.sub(r"\[\d+\]", "", place).rpartition(".")[2])
    pattern = re.compile(rf"\s*(?:[\w-]+\.)*[\"']?{key}[\"']?\s*=|\s*\[\s*{key}\s*\]")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.match(line):
            return f", line {number}"
    return ""
