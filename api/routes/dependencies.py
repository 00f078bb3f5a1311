"""What routes ask the application for: its settings, its worker thread, and the request's body as one JSON object."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from starlette.requests import ClientDisconnect

from api.body import BodyTooLargeError, NotJsonError, collect, read_object
from api.findings import FieldError, shown
from api.history.history import History
from api.problems import ProblemError, from_error
from api.settings import Settings
from api.worker import Worker
from profiler.errors import InputError


# All are coroutines because FastAPI runs a plain function in a thread, which here costs more than all that it does.
async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _worker(request: Request) -> Worker:
    worker: Worker = request.app.state.worker
    return worker


async def _history(request: Request) -> History | None:
    history: History | None = request.app.state.history
    return history


async def _required_history(request: Request) -> History:
    history: History | None = request.app.state.history
    if history is None:
        detail = "this service keeps nothing; expected SPECWORTH_STORE to be true in its environment; got false"
        raise ProblemError(404, "no-history", "Nothing is kept here", detail)
    return history


HistoryDep = Annotated[History | None, Depends(_history)]
RequiredHistoryDep = Annotated[History, Depends(_required_history)]
SettingsDep = Annotated[Settings, Depends(_settings)]
WorkerDep = Annotated[Worker, Depends(_worker)]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", pattern="^[ -~]{1,255}$",
        description="Any text; the same request with the same key is answered as it was before, however often it is "
        "sent. With another request it is refused",
    ),
]  # fmt: skip
_BYTES = "application/octet-stream"
_JSON = re.compile(r"application/([\w.+-]+\+)?json", re.ASCII | re.IGNORECASE)


def _one(status: int, kind: str, title: str, what: str, expected: str, got: str) -> ProblemError:
    detail = f"{what}; expected {expected}; got {got}"
    return ProblemError(status, kind, title, detail, [FieldError(field="", expected=expected, got=got)])


def _check_json(request: Request) -> None:
    """Refuse what is not JSON in UTF-8 by its own account, before any of it is read."""
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    if not _JSON.fullmatch(media_type.strip()):
        got = shown(media_type.strip())[1:-1] or "no Content-Type"
        raise _one(415, "media-type", "Unsupported media type", "the body is not JSON", "application/json", got)
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
    if charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        got = shown(charset[1])[1:-1]
        raise _one(415, "media-type", "Unsupported charset", "JSON is exchanged in UTF-8", "charset=utf-8", got)


def _check_file(request: Request) -> None:
    """Refuse what does not say that it is a file: a page of another site cannot say so unasked."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if media_type.lower() != _BYTES:
        got = shown(media_type)[1:-1] or "no Content-Type"
        raise _one(415, "media-type", "Unsupported media type", "the body is no file", _BYTES, got)


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        got = shown(encoding)[1:-1]
        raise _one(
            415, "media-type", "Unsupported encoding", "bodies are taken as they are", "no Content-Encoding", got
        )


def _too_large(limit: int, declared: str | None) -> ProblemError:
    got = f"{int(declared):,} bytes" if declared and declared.isdigit() and len(declared) < 20 else "more than that"
    expected = f"at most {limit:,} bytes ({limit / 2**20:g} MiB)"
    what = "the body is too large (send a sample of the prompts: a few hundred say as much)"
    return _one(413, "body-too-large", "The body is too large", what, expected, got)


def body_of(schema: str, examples: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """For OpenAPI: a body that is read by hand, whose schema stands in `api.openapi` under this name."""
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{schema}"}}
    if examples is not None:
        content["examples"] = examples
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


async def read_body(request: Request, settings: SettingsDep) -> bytes:
    """The request's body within the limits of size and time, or a 408, 413 or 415 problem."""
    _check_json(request)
    return await _collected(request, settings)


async def read_file(request: Request, settings: SettingsDep) -> bytes:
    """The same of a file's bytes."""
    _check_file(request)
    return await _collected(request, settings)


async def _collected(request: Request, settings: Settings) -> bytes:
    _check_encoding(request)
    limit = int(settings.max_body_bytes)
    declared = request.headers.get("content-length")
    asks_first = request.headers.get("expect", "").lower() == "100-continue"
    if asks_first and declared and declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(limit, declared)  # such a client waits for our word, so nothing is under way
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            return await collect(request.stream(), limit=limit)
    except ClientDisconnect:
        raise _one(400, "disconnected", "The client left", "the body did not arrive", "all of it", "a part") from None
    except BodyTooLargeError:
        raise _too_large(limit, declared) from None
    except TimeoutError:
        expected = f"all of it within {settings.body_timeout_s:g} seconds"
        raise _one(408, "timeout", "The body came too slowly", "the body did not arrive", expected, "less") from None


def parse_object(body: bytes, settings: Settings) -> dict[str, Any]:
    """The JSON object in a body (to be called in the worker thread); 400 for what is no JSON, else 422."""
    try:
        value = read_object(body, max_depth=settings.max_json_depth)
    except InputError as error:
        told = from_error(error)
        if isinstance(error, NotJsonError):
            raise ProblemError(400, "not-json", "The body is not JSON", told.detail, told.errors) from None
        raise ProblemError(422, "invalid-request", "The request cannot be used", told.detail, told.errors) from None
    classes = value.get("classes")  # of a capacity plan: each may have prompts
    holders = {f"classes.{name}.": one for name, one in classes.items()} if isinstance(classes, dict) else {}
    for place, holder in {"": value, **holders}.items():
        prompts = holder.get("prompts") if isinstance(holder, dict) else None
        if not isinstance(prompts, list) or len(prompts) <= settings.max_prompts:
            continue
        one = FieldError(
            field=f"{place}prompts"[:120],
            expected=f"at most {settings.max_prompts:,} prompts",
            got=f"{len(prompts):,}",
            remedy="send a random sample: a few hundred prompts say as much",
        )
        detail = f"too many prompts; expected {one.expected}; got {one.got}; {one.remedy}"
        raise ProblemError(422, "too-many-prompts", "Too many prompts", detail, [one])
    return value


BodyDep = Annotated[bytes, Depends(read_body)]
FileDep = Annotated[bytes, Depends(read_file)]
