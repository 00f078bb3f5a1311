"""A file of prompts as it is uploaded: read as on the command line, unless a few bytes of it could be any number.

Compressed files are refused by their first bytes, and so is Parquet, which is compressed inside: 752 bytes of it, one
text of 8 MiB said to stand in 512 rows, took 4.2 GB to read. Everything else is no larger than it came.
"""

from __future__ import annotations

import io

from profiler.errors import PromptsError
from profiler.prompts import PromptSample, read_prompts
from profiler.prompts.reading import SAMPLE_SIZE
from profiler.prompts.source import COMPRESSIONS, PARQUET


def read_upload(body: bytes, name: str, *, sample_size: int = SAMPLE_SIZE) -> PromptSample:
    """A sample of an uploaded file's prompts; `name` is told in messages, and its extension helps to recognise it.

    Raises PromptsError, also for what unpacks.
    """
    kind = next((kind for magic, kind in COMPRESSIONS.items() if body.startswith(magic)), None)
    if kind is not None:
        raise PromptsError(f"{name} is compressed", expected="the file as it is", got=kind, remedy="unpack it first")
    if body.startswith(PARQUET):
        raise PromptsError(
            f"{name} is compressed inside", expected="JSON lines, JSON, CSV or plain text", got="Parquet",
            remedy="convert it, or ask on the command line, which reads it",
        )  # fmt: skip
    stream = io.BytesIO(body)
    stream.name = name  # as files have it
    return read_prompts(stream, sample_size=sample_size)
