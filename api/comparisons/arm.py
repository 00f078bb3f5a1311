"""One server of a comparison: may it be reached, what is it, and its answer as it comes.

The connection goes to the address that was checked (api.jobs.destinations); nothing is sent again that was put off, and
an answer that takes too long or grows too large is ended. What is wrong with a server ends this arm alone, in one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from api.comparisons.acceptance import Acceptance, scrape
from api.comparisons.machines import Place
from api.comparisons.marks import Spans, accepted_flags, spans
from api.comparisons.pace import Pace
from api.comparisons.request import ArmName, ServerSpec
from api.jobs.destinations import AllowList, read_address
from api.settings import Settings
from profiler.errors import EndpointError
from profiler.load import Endpoint, Patience, Piece, RequestPlan, Served, serve_one
from profiler.load.whole import TOKENS_BYTES, whole
from profiler.metrics import Scrape
from profiler.prompts.sample import Prompt
from profiler.serving.inspection import ServerFacts, inspect_server

Tell = Callable[[str, Mapping[str, Any]], None]  # kind of event, its values
_STATUS = re.compile(r"HTTP (\d{3}): (.*)", re.DOTALL)
_KEY_REMEDY = (
    "give the key of this server (api_key), or have the operator list the server and set SPECWORTH_ATTACH_API_KEY"
)
# A piece has a token or several; parsers of thoughts and tools may hold some text back and send it apart.
_PIECES_OF_A_TOKEN, _PIECES = 2, 64


@dataclass(frozen=True)
class Limits:
    """Of one answer."""

    seconds: float = 300.0
    stall_s: float = 120.0  # without a byte
    characters: int = 2**20


@dataclass
class Arm:
    """A server that answers, for as long as its session is open."""

    name: ArmName
    url: str
    session: aiohttp.ClientSession
    facts: ServerFacts
    place: Place
    before: Scrape | None
    limits: Limits
    tell: Tell
    pace: Pace | None = None  # once it was sent the prompt
    text: str = ""
    _most_tokens: int = 0  # that were asked for
    _heard_of: int = 0  # pieces of this answer
    _pieces: list[int] = field(default_factory=list)  # tokens of each piece that brought some
    _ends: list[tuple[int, int]] = field(default_factory=list)  # tokens and characters after each

    async def answer(self, prompt: Prompt, plan: RequestPlan) -> Served:
        """Send the prompt and tell what comes.

        Raises:
            EndpointError: the server refused, broke off, or went on beyond the limits.
        """
        counting = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        extra = {**(plan.extra or {}), **counting}
        self._most_tokens = plan.max_tokens or 0
        served = await self._sent(prompt, RequestPlan(**{**_fields(plan), "model": self.facts.model, "extra": extra}))
        if not served.ok and "chat template" in (served.error or ""):
            plain = {**_fields(plan), "model": self.facts.model, "extra": extra, "api": "completions"}
            served = await self._sent(prompt, RequestPlan(**plain))
        if not served.ok:
            raise self._failure(served)
        return served

    async def _sent(self, prompt: Prompt, plan: RequestPlan) -> Served:
        self.text, self._heard_of, self._pieces, self._ends = "", 0, [], []
        self.pace = Pace(time.monotonic())
        return await serve_one(
            self.session, plan, prompt, index=0, patience=Patience(attempts=1), listen=self._heard
        )  # fmt: skip

    def _heard(self, piece: Piece) -> str | None:
        assert self.pace is not None
        new = self.pace.take(piece)
        self._heard_of += 1
        self.text += piece.text
        if new:
            self._pieces.append(new)
            self._ends.append((self.pace.tokens, len(self.text)))
        if piece.text:
            at_ms = round((piece.at_s - self.pace.started_s) * 1e3, 3)
            self.tell("text", {"arm": self.name, "text": piece.text, "new_tokens": new, "at_ms": at_ms})
        if len(self.text) > self.limits.characters:
            return f"the answer grew beyond {self.limits.characters:,} characters and was ended"
        if self.pace.tokens > self._most_tokens or self._heard_of > _PIECES_OF_A_TOKEN * self._most_tokens + _PIECES:
            return f"the answer went on beyond the {self._most_tokens:,} tokens that were asked for and was ended"
        return None

    async def marks(self, acceptance: Acceptance | None) -> tuple[Spans, str | None]:
        """The answer's text in runs of accepted drafts and the target's own tokens; or empty, and why."""
        steps = None if acceptance is None else acceptance.per_step
        if steps is None or self.pace is None:
            return [], "not told"
        flags = accepted_flags(self._pieces, steps, self.pace.tokens)
        strings = None if flags is None else await self._token_strings()
        found = [] if flags is None or strings is None else spans(self.text, strings, flags, self._ends)
        return (found, None) if found else ([], "no boundaries")

    async def _token_strings(self) -> list[str] | None:
        asked = {"model": self.facts.model, "prompt": self.text, "add_special_tokens": False, "return_token_strs": True}
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError, AttributeError):
            async with self.session.post(
                "tokenize", data=orjson.dumps(asked), headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=10.0),
            ) as reply:  # fmt: skip
                told = await whole(reply, most=TOKENS_BYTES) if reply.status == 200 else b"{}"
                found = orjson.loads(told).get("token_strs")
                if isinstance(found, list) and all(isinstance(token, str) for token in found):
                    return found
        return None

    def _failure(self, served: Served) -> EndpointError:
        """What went wrong, in a line for whoever watches."""
        error = served.error or "no answer"
        tokens = self.pace.tokens if self.pace is not None else 0
        so_far = " in the middle" if self.text else " before its first token"
        if tokens:
            so_far = f" after {tokens:,} tokens" if tokens > 1 else " after its first token"
        status = _STATUS.fullmatch(error)
        if status is not None:
            return self._refusal(int(status[1]), status[2], served)
        if error.startswith("the stream ended") or "Disconnected" in error or "PayloadError" in error:
            return EndpointError(
                f"the server broke off{so_far}", expected="a whole answer",
                got="a stream that ended" if error.startswith("the stream") else "a connection that was closed",
                remedy="look into its log",
            )  # fmt: skip
        if error == "no answer in time":
            late = served.end_to_end_ms is not None and served.end_to_end_ms >= 999.0 * self.limits.seconds
            waited = f"{self.limits.seconds:g} s" if late else f"{self.limits.stall_s:g} s without a byte"
            return EndpointError(f"the server was given up{so_far}", expected="an answer sooner", got=waited)
        return EndpointError(f"the server failed{so_far}", got=error[:300])

    def _refusal(self, status: int, body: str, served: Served) -> EndpointError:
        said = _message(body)
        if status in (401, 403):
            return refused_key(self.url, status)
        if status in (429, 503):
            return EndpointError(f"the server puts requests off: HTTP {status}", got=said, remedy="try again later")
        remedy = "choose a shorter prompt, or fewer tokens" if served.too_long else None
        return EndpointError(f"the server refused the prompt: HTTP {status}", got=said, remedy=remedy)


def _fields(plan: RequestPlan) -> dict[str, Any]:
    return {"model": plan.model, "temperature": plan.temperature, "max_tokens": plan.max_tokens}


def _message(body: str) -> str:
    """What an error's body says, without its wrapping."""
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(body)
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and name in found:
                found = found[name]
        if isinstance(found, str):
            return found[:300]
    return body[:300] or "nothing"


def refused_key(url: str, status: int) -> EndpointError:
    """The server wants another key, or one at all."""
    return EndpointError(
        f"{url} refuses the key", expected="the key of that server", got=f"HTTP {status}", remedy=_KEY_REMEDY
    )  # fmt: skip


@asynccontextmanager
async def opened(
    name: ArmName, spec: ServerSpec, *, model: str | None, settings: Settings, limits: Limits, tell: Tell
) -> AsyncIterator[Arm]:
    """Reach one server and ask what it is.

    Raises:
        NotAllowedError, InputError, EndpointError: in one line why not.
    """
    allowed = AllowList.parse(settings.attach_hosts)
    address = read_address(spec.url, field=f"{name}.url")
    ip = await asyncio.to_thread(allowed.resolve, address, field=f"{name}.url")
    key = spec.api_key or (settings.attach_api_key if allowed.lists(address) else None)
    endpoint = Endpoint(
        address.url, api_key=None if key is None else key.get_secret_value(), request_timeout_s=limits.seconds,
        stall_timeout_s=limits.stall_s, address=ip,
    )  # fmt: skip
    async with endpoint.session() as session:
        try:
            facts = await inspect_server(session, url=address.url, model=model)
        except EndpointError as error:
            if error.got in ("HTTP 401", "HTTP 403"):
                raise refused_key(address.url, int(error.got[-3:])) from None
            raise
        before = await scrape(session) if facts.has_metrics else None
        yield Arm(
            name=name, url=address.url, session=session, facts=facts, before=before, limits=limits, tell=tell,
            place=Place.of(address.host, ip, facts, before),
        )  # fmt: skip
