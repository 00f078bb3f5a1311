"""What can be wrong with a profile job besides its form; each has a status of its own over HTTP."""

from __future__ import annotations

from typing import ClassVar

from profiler.errors import InputError


class JobError(InputError):
    """One of these."""

    status: ClassVar[int] = 422
    kind: ClassVar[str] = "unusable"
    title: ClassVar[str] = "The job cannot be taken"
    retry_after_s: ClassVar[int | None] = None


class NotAllowedError(JobError):
    """The operator of this service has not allowed it: a server to attach to, a model or a flag to start."""

    status, kind, title = 403, "not-allowed", "Not allowed by this service's operator"


class KeyReusedError(JobError):
    """An Idempotency-Key that came before, with another request."""

    status, kind, title = 422, "idempotency-key-reused", "The Idempotency-Key is taken"


class QueueFullError(JobError):
    """As many jobs wait as may."""

    status, kind, title, retry_after_s = 429, "queue-full", "Too many jobs wait", 60


class EndedError(JobError):
    """A job that cannot be cancelled since it has ended."""

    status, kind, title = 409, "job-ended", "The job has ended"
