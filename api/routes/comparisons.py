"""POST /v1/comparisons: one prompt to two running servers, both answers as server-sent events while they come.

Servers are reached only where the operator allows to connect (SPECWORTH_ATTACH_HOSTS and loopback), for callers who may
measure; a few comparisons at a time, each bounded in time and size. Whoever disconnects stops both requests. Nothing is
kept, neither prompts nor answers nor keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from api.access.access import ProfileWriter
from api.comparisons.comparison import Comparison, Event
from api.comparisons.request import MOST_PROMPT_BYTES, ComparisonRequest
from api.findings import shown
from api.problems import ProblemError
from api.routes.dependencies import BodyDep, FileDep, SettingsDep, WorkerDep, body_of, parse_object
from api.settings import Settings
from api.uploads import read_upload
from profiler.prompts.sample import Prompt, PromptSample

router = APIRouter(prefix="/v1", tags=["comparisons"])
MOST_OPEN = 4  # comparisons at one time: eight streams, of which this process reads some thousand pieces a second
MOST_PROMPTS = 200  # of a sample, to go through one by one
_MOST_SAMPLE_BYTES = 4 * 2**20
_LOOK_EVERY_S = 0.5
_QUIET_LOOKS = 30  # then a comment keeps the connection, or finds that nobody is there any more
_BODY = body_of("ComparisonRequest")
_FILE = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "What happens, as server-sent events", "content": {"text/event-stream": {}}}
}
Name = Annotated[str, Query(max_length=200, description="The file's name: its extension helps to recognise it")]


class SamplePrompt(BaseModel):
    """One prompt of a file."""

    model_config = ConfigDict(frozen=True)

    messages: list[dict[str, str]] = Field(description="role and content of each turn")
    max_tokens: int | None
    temperature: float | None


class ReadSample(BaseModel):
    """Prompts of a file, to be compared one by one."""

    model_config = ConfigDict(frozen=True)

    format: str = Field(description="What the file was recognised as")
    records: int = Field(description="How many it has, readable or not")
    usable: int
    prompts: list[SamplePrompt]


async def _place(request: Request) -> AsyncIterator[None]:
    """One of the places, given back when the answer has gone out or nobody listens any more."""
    taken: set[object] = request.app.state.comparisons
    if len(taken) >= MOST_OPEN:
        detail = f"{MOST_OPEN} comparisons are under way; try again when one is done"
        raise ProblemError(429, "too-many-comparisons", "Too many comparisons", detail, headers={"Retry-After": "10"})
    mine = object()
    taken.add(mine)
    try:
        yield
    finally:
        taken.discard(mine)


@router.post("/comparisons", openapi_extra=_BODY, response_class=StreamingResponse, responses=_EVENTS)
async def compare(
    _: ProfileWriter, request: Request, body: BodyDep, settings: SettingsDep, worker: WorkerDep,
    __: Annotated[None, Depends(_place)],
) -> Response:  # fmt: skip
    """Send one prompt to both servers; what is wrong with one is an event, and the other goes on."""
    asked, prompt = await worker.run(partial(_read, body, settings))
    stopping: asyncio.Event = request.app.state.stopping
    events = Comparison(asked, prompt, settings).events()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_encoded(events, stopping), media_type="text/event-stream", headers=headers)


def _read(body: bytes, settings: Settings) -> tuple[ComparisonRequest, Prompt]:
    asked = ComparisonRequest.model_validate(parse_object(body, settings))
    return asked, asked.read_prompt()


async def _encoded(events: AsyncIterator[Event], stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Events as they are sent; the end of the service is one of them."""
    upcoming: asyncio.Task[Event | None] | None = None
    quiet = 0
    try:
        while not stopping.is_set():
            upcoming = upcoming or asyncio.create_task(_next(events))
            if not (await asyncio.wait({upcoming}, timeout=_LOOK_EVERY_S))[0]:
                quiet += 1
                if quiet % _QUIET_LOOKS == 0:
                    yield b": still waiting\n\n"
                continue
            event, upcoming, quiet = upcoming.result(), None, 0
            if event is None:
                return
            yield b"event: %s\ndata: %s\n\n" % (event.kind.encode(), orjson.dumps(event.values))
        stopped = {"same_text": None, "problem": "the service is stopping; both requests were ended"}
        yield b"event: end\ndata: %s\n\n" % orjson.dumps(stopped)
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        await events.aclose()  # type: ignore[attr-defined]  # it is a generator: this ends both requests


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)


@router.post("/comparisons/prompts", openapi_extra=_FILE, response_model=ReadSample)
async def read_sample(_: ProfileWriter, body: FileDep, worker: WorkerDep, name: Name = "the file") -> Response:
    """The prompts of a file, in any of the shapes that `specworth advise` reads; it is not kept."""
    told = await worker.run(partial(_sample, body, shown(name)[1:-1]))
    return Response(told.model_dump_json(), media_type="application/json")


def _sample(body: bytes, name: str) -> ReadSample:
    found = read_upload(body, name, sample_size=MOST_PROMPTS)
    return ReadSample(
        format=found.format, records=found.records, usable=found.usable, prompts=[*_told(found)]
    )  # fmt: skip


def _told(found: PromptSample) -> list[SamplePrompt]:
    """As many as a page can hold, each as long as one that can be compared."""
    told: list[SamplePrompt] = []
    size = 0
    for prompt in found.prompts:
        length = len(prompt.text.encode(errors="replace"))
        size += length
        if length > MOST_PROMPT_BYTES:
            continue
        if told and size > _MOST_SAMPLE_BYTES:
            break
        messages = [{"role": m.role, "content": m.text} for m in prompt.messages]
        told.append(SamplePrompt(messages=messages, max_tokens=prompt.max_tokens, temperature=prompt.temperature))
    return told
