"""What can go wrong between the service and its database, and what it refuses because of what it holds.

    SpecworthError
    ├── StorageError          the database cannot be used as it is; an operator must mend it
    │   └── UnavailableError  locked, away, full or changing its leader: the same may work in some seconds
    └── InputError
        └── RefusedError      well formed, and refused nevertheless; each has a status of its own over HTTP
            └── KeyReusedError  an Idempotency-Key that came before, with another request

Over HTTP an UnavailableError is a 503 with Retry-After.
"""

from __future__ import annotations

from typing import ClassVar

from profiler.errors import InputError, SpecworthError


class StorageError(SpecworthError):
    """The database cannot be used as it is; an operator must mend it."""


class UnavailableError(StorageError):
    """The database does not answer now; the same may work in some seconds."""


class RefusedError(InputError):
    """A request that is well formed, and refused for what the service holds or allows."""

    status: ClassVar[int] = 422
    kind: ClassVar[str] = "unusable"
    title: ClassVar[str] = "The request is refused"
    retry_after_s: ClassVar[int | None] = None


class KeyReusedError(RefusedError):
    """An Idempotency-Key that came before, with another request."""

    status, kind, title = 422, "idempotency-key-reused", "The Idempotency-Key is taken"
