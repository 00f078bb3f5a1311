"""How an error is told over HTTP: RFC 9457 problem details, always, with what was expected and what came.

`detail` is the whole message as one line; `errors` has one entry for each thing wrong, with `field` (a dotted path into
the request body, empty for the body as a whole), `expected` and `got`. Values from the request are shortened, and stand
there as Python writes them; nothing of the machine (paths, tracebacks) is ever told: an unexpected failure gets a
number under which the log has the rest.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from api.findings import FieldError, field_errors, shown, told
from api.history.errors import RefusedError, UnavailableError
from profiler.errors import InputError, PromptsError, SpecworthError, UnknownNameError

MEDIA_TYPE = "application/problem+json"
_RETRY_S = 5  # after a database that was away; as long as a request waits for it by default
_MOST_ERRORS = 20  # entries in one answer; more are counted, not listed

logger = logging.getLogger("specworth")


class Problem(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(frozen=True)

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError]


class ProblemError(Exception):
    """A request that is answered with a problem; raised by the readers of bodies and by routes."""

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """The HTTP answer."""
        problem = {
            "type": f"urn:problem-type:specworth:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "errors": [error.model_dump(exclude_none=True) for error in self.errors[:_MOST_ERRORS]],
        }
        return Response(orjson.dumps(problem), self.status, self.headers, MEDIA_TYPE)


def invalid_request(error: ValidationError | RequestValidationError) -> ProblemError:
    """A body that is JSON but no valid request."""
    errors = field_errors(error.errors())
    lines = [told(one) for one in errors[:3]]
    more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
    return ProblemError(422, "invalid-request", "The request cannot be used", " | ".join(lines) + more, errors)


def from_error(error: SpecworthError) -> ProblemError:
    """One of our own errors: 422 where the user can mend it, 500 where it is our fault."""
    if isinstance(error, UnavailableError):
        logger.warning("database unavailable: %s", error.line())
        detail = f"{error.what}; nothing was answered that could be lost; try again in {_RETRY_S} s"
        headers = {"Retry-After": str(_RETRY_S)}
        return ProblemError(503, "storage-unavailable", "The database is not available", detail, headers=headers)
    if not isinstance(error, InputError):
        return ProblemError(500, "internal", "The service is damaged", error.line())
    kind, title = "unusable", "The request cannot be answered as asked"
    if isinstance(error, UnknownNameError):
        kind, title = "unknown-name", "A name is not known"
    elif isinstance(error, PromptsError):
        kind, title = "no-prompts", "No prompts can be read"
    one = FieldError(
        field=error.field or ("prompts" if isinstance(error, PromptsError) else ""),
        expected=error.expected or error.what,
        got=error.got or error.what,
        remedy=error.remedy,
    )
    if isinstance(error, RefusedError):
        wait_s = error.retry_after_s
        headers = {} if wait_s is None else {"Retry-After": str(wait_s)}
        return ProblemError(error.status, error.kind, error.title, error.line(), [one], headers)
    return ProblemError(422, kind, title, error.line(), [one])


def unexpected(error: Exception) -> ProblemError:
    """A failure that nobody foresaw: logged under a number, told without its inside."""
    number = uuid.uuid4().hex[:12]
    logger.error("unexpected failure %s", number, exc_info=error)
    return ProblemError(
        500, "internal", "The service failed", f"an unexpected failure; the service's log has it under {number}"
    )


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def _allowed(request: Request) -> list[str]:
    """All methods of a path: Starlette names those of the first route that has it, and here each method is one."""
    routes = request.app.routes
    asked = [{**request.scope, "method": method} for method in _METHODS]
    return [scope["method"] for scope in asked if any(route.matches(scope)[0] is Match.FULL for route in routes)]


_TITLES = {404: "No such resource", 405: "Method not allowed here"}


def install(app: FastAPI) -> None:
    """Have `app` answer every error with problem details."""

    async def _problem(_: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)
        return error.response()

    async def _http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = _TITLES.get(error.status_code, HTTPStatus(error.status_code).phrase)
        detail = f"{request.method} {shown(request.url.path)[1:-1]}: {str(error.detail).lower()}; see /docs"
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_allowed(request))
        return ProblemError(error.status_code, "http", title, detail, headers=headers).response()

    async def _validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, (ValidationError, RequestValidationError))
        return invalid_request(error).response()

    async def _ours(_: Request, error: Exception) -> Response:
        assert isinstance(error, SpecworthError)
        return from_error(error).response()

    async def _unexpected(_: Request, error: Exception) -> Response:
        return unexpected(error).response()

    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(ValidationError, _validation)
    app.add_exception_handler(SpecworthError, _ours)
    app.add_exception_handler(Exception, _unexpected)
