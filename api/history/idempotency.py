"""Is this the same request once more? An Idempotency-Key says so; the answer is then the one that was given before.

A client that never got its answer (a connection that broke, a 503 after a commit whose confirmation got lost) sends the
same body with the same key again. A key belongs to its caller: two teams that number their requests do not meet. Kept
are hashes alone, with the record itself, so that a key lives as long as what it led to. Bodies are compared by what
they say: the order of members, spaces and members that have their default do not count.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson
from pydantic import BaseModel

from api.history.errors import KeyReusedError


@dataclass(frozen=True)
class Idempotency:
    """One caller's key, and the request that came with it."""

    key_sha256: str
    request_sha256: str

    def check(self, kept_sha256: str | None, *, what: str) -> None:
        """Raise KeyReusedError where the key was kept with another request; `what` names what that one led to."""
        if kept_sha256 != self.request_sha256:
            raise KeyReusedError(
                "this Idempotency-Key came before with another request", expected="the same request, or a new key",
                got=f"a request that differs from that of the {what}", field="Idempotency-Key",
            )  # fmt: skip


def request_sha256(request: BaseModel) -> str:
    """Of what a request says."""
    return hashlib.sha256(orjson.dumps(request.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)).hexdigest()


def idempotency_of(request: BaseModel, *, asked_by: str | None, key: str | None) -> Idempotency | None:
    """A caller's key with its request; None where no key came."""
    if key is None:
        return None
    hashed = hashlib.sha256(f"{asked_by or ''}\0{key}".encode()).hexdigest()
    return Idempotency(hashed, request_sha256(request))
