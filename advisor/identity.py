"""Ids of answers that tell when they were made: UUIDs of version 7 (RFC 9562, section 5.7) as 32 hexadecimal digits."""

from __future__ import annotations

import os
import time
import uuid
from datetime import UTC, datetime


def new_id() -> str:
    """A new id: 48 bits of Unix time in milliseconds, then randomness around version and variant."""
    milliseconds, chance = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10))
    value = (milliseconds << 80) | chance
    value = value & ~(0xF << 76) & ~(0b11 << 62) | (0x7 << 76) | (0b10 << 62)
    return uuid.UUID(int=value).hex


def made_at(key: str) -> datetime | None:
    """When an id was made; None for one that does not tell (version 4)."""
    try:
        found = uuid.UUID(hex=key)
    except ValueError:
        return None
    return datetime.fromtimestamp((found.int >> 80) / 1000.0, UTC) if found.version == 7 else None
