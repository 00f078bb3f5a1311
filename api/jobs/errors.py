"""What can be wrong with a profile job besides its form; each has a status of its own over HTTP."""

from __future__ import annotations

from api.history.errors import RefusedError


class JobError(RefusedError):
    """One of these."""

    title = "The job cannot be taken"


class NotAllowedError(JobError):
    """The operator of this service has not allowed it: a server to attach to, a model or a flag to start."""

    status, kind, title = 403, "not-allowed", "Not allowed by this service's operator"


class QueueFullError(JobError):
    """As many jobs wait as may."""

    status, kind, title, retry_after_s = 429, "queue-full", "Too many jobs wait", 60


class EndedError(JobError):
    """A job that cannot be cancelled since it has ended."""

    status, kind, title = 409, "job-ended", "The job has ended"


class NotEndedError(JobError):
    """A job that cannot be deleted since it waits or runs."""

    status, kind, title = 409, "job-not-ended", "The job has not ended"
