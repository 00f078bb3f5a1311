"""What can go wrong between the service and its database.

    SpecworthError
    └── StorageError          the database cannot be used as it is; an operator must mend it
        └── UnavailableError  locked, away, full or changing its leader: the same may work in some seconds

Over HTTP an UnavailableError is a 503 with Retry-After.
"""

from __future__ import annotations

from profiler.errors import SpecworthError


class StorageError(SpecworthError):
    """The database cannot be used as it is; an operator must mend it."""


class UnavailableError(StorageError):
    """The database does not answer now; the same may work in some seconds."""
