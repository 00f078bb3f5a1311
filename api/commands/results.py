"""Where does a measurement's file go? Refused before it begins where none can be made; written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from profiler.errors import InputError


def check_place(out: Path, *, option: str = "--out") -> None:
    """Raise InputError where no file can be made: a measurement takes minutes, its place can be looked at now."""
    folder = out.parent
    got = "a folder" if out.is_dir() else None if folder.is_dir() else f"no folder {folder}"
    if got is None and not _is_special(out):
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            got = (error.strerror or "an error").lower()
    if got is not None:
        raise InputError(
            f"{option}: cannot write {out}", expected="a file in a folder that exists and can be written to", got=got
        )


def write_whole(out: Path, text: str) -> None:
    """All of it or nothing: a disk that fills up must not cost what was there. Raises OSError."""
    if _is_special(out):
        out.write_text(text, encoding="utf-8")
        return
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)


def _is_special(out: Path) -> bool:
    """A device or a pipe, which is written to as it is."""
    return out.exists() and not out.is_file()
