"""One streamed request: when its tokens came, how many the server counted, and what went wrong if anything did.

TTFT is from sending to the first chunk that carries text; TPOT = (end to end - TTFT) / (output tokens - 1), with output
tokens from the server's usage, so that chunks of several tokens (speculation) count right. A request that was put off
(HTTP 429, 503) is sent again (`profiler.load.patience`) and timed from its last sending. A failed request is a record
with its error, never an exception: a wave keeps what was measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import orjson
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from profiler.errors import EndpointError
from profiler.load.connection import PinnedResolver, refusing_redirects
from profiler.load.patience import Patience, retry_after_s
from profiler.load.request import RequestPlan
from profiler.load.stream import AnswerStream, Listener
from profiler.load.whole import (
    LISTING_BYTES,
    METRICS_BYTES,
    STREAM_BYTES,
    TOKEN_BYTES,
    TooLongError,
    beginning,
    whole,
)
from profiler.prompts.sample import Prompt

_DATA = b"data:"
_REQUESTS_FAULT = ("HTTP 400", "HTTP 413", "HTTP 422")
# vLLM's words, 0.6 to 0.32, for a request that its context does not hold.
_TOO_LONG = ("maximum context length", "max_model_len", "longer than the maximum model length", "maximum model length")


@dataclass(frozen=True, slots=True)
class Served:
    """One request as the client saw it; times in ms, None where the request failed before."""

    index: int  # which prompt of the sample
    started_s: float  # monotonic clock
    ttft_ms: float | None = None
    end_to_end_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    chunks: int = 0
    text: str = ""
    finish_reason: str | None = None
    speculation: Mapping[str, Any] | None = None  # the server's own per-request counts, where it gives them
    error: str | None = None
    retry_after_s: float | None = None  # where the server put this request off; 0 if it does not say for how long
    retries: int = 0  # how often it was put off and sent again; `waited_s` in between
    waited_s: float = 0.0

    @property
    def ok(self) -> bool:
        """True for a whole answer."""
        return self.error is None

    @property
    def refused(self) -> bool:
        """True where the server found fault with this request alone: it is no sign of the server's health."""
        return self.error is not None and self.error.startswith(_REQUESTS_FAULT)

    @property
    def too_long(self) -> bool:
        """True where the request was refused because prompt and answer exceed the server's context."""
        return self.refused and self.error is not None and any(words in self.error for words in _TOO_LONG)

    @property
    def tpot_ms(self) -> float | None:
        """Mean time of an output token after the first; None for answers of one token."""
        if self.ttft_ms is None or self.end_to_end_ms is None or not self.output_tokens or self.output_tokens < 2:
            return None
        return (self.end_to_end_ms - self.ttft_ms) / (self.output_tokens - 1)

    @property
    def finished_s(self) -> float | None:
        """When the last byte came, by the same clock as `started_s`."""
        return None if self.end_to_end_ms is None else self.started_s + self.end_to_end_ms / 1000.0


@dataclass(frozen=True)
class Endpoint:
    """A server's root address and the key that it asks for."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    request_timeout_s: float = 600.0
    stall_timeout_s: float = 120.0  # without a byte: the server hangs
    address: str | None = None  # IP address to connect to, whatever the name in the URL says by then

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def session(self) -> aiohttp.ClientSession:
        """A client without a limit of connections; `trust_env` stays off so that loopback never meets a proxy.

        Redirects are not followed: whatever is behind one is not the server that was named.
        """
        limits = aiohttp.ClientTimeout(total=self.request_timeout_s, sock_connect=10.0, sock_read=self.stall_timeout_s)
        return aiohttp.ClientSession(
            base_url=self.url.rstrip("/") + "/",
            headers=self.headers,
            connector=aiohttp.TCPConnector(limit=0, resolver=PinnedResolver(self.address) if self.address else None),
            timeout=limits,
            trace_configs=[refusing_redirects()],
        )


async def serve_one(
    session: aiohttp.ClientSession, plan: RequestPlan, prompt: Prompt, *, index: int, max_tokens: int | None = None,
    patience: Patience | None = None, until_s: float | None = None, listen: Listener | None = None,
) -> Served:  # fmt: skip
    """Send one request and read its stream to the end.

    Args:
        session: from `Endpoint.session()`.
        plan: how prompts become requests.
        prompt: what is sent.
        index: of the prompt in its sample.
        max_tokens: what the context leaves for the answer.
        patience: with a server that puts requests off.
        until_s: monotonic time from which no request that was put off is sent again.
        listen: is told each piece of the answer as it comes.
    """
    body = orjson.dumps(plan.body(prompt, max_tokens=max_tokens), option=orjson.OPT_NON_STR_KEYS)
    most = STREAM_BYTES + TOKEN_BYTES * (max_tokens or plan.asked_tokens(prompt))

    async def attempt() -> Served:
        return await _send(session, plan.path.lstrip("/"), body, index=index, most_bytes=most, listen=listen)

    served, retries, waited_s = await (patience or Patience()).keep_trying(attempt, until_s=until_s)
    return replace(served, retries=retries, waited_s=waited_s) if retries else served


async def _send(
    session: aiohttp.ClientSession, path: str, body: bytes, *, index: int, most_bytes: int, listen: Listener | None
) -> Served:
    stream = AnswerStream(listen)
    size = 0
    put_off: float | None = None
    started = time.monotonic()
    error: str | None = None
    try:
        headers = {"Content-Type": "application/json"}
        async with session.post(path, data=body, headers=headers) as reply:
            if reply.status != 200:
                put_off = retry_after_s(reply.status, reply.headers.get("Retry-After"))
                error = f"HTTP {reply.status}: {(await beginning(reply))[:300]}"
            else:
                async for line in reply.content:
                    size += len(line)
                    if size > most_bytes:
                        error = f"the stream went on beyond {most_bytes:,} bytes, more than the tokens asked for have"
                        break
                    if line.startswith(_DATA):
                        stream.take(line[len(_DATA) :].strip(), time.monotonic())
                        if stream.error is not None:
                            break
    except asyncio.CancelledError:
        raise
    except TimeoutError:
        error = "no answer in time"
    except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as broken:
        error = _told(broken)
    ended = time.monotonic()
    if stream.error_code is not None and stream.first_s is None:
        put_off = retry_after_s(stream.error_code, None)
    error = error or stream.error
    if error is None and not stream.done:
        error = "the stream ended before [DONE]"
    if error is None and stream.tokens("completion_tokens") is None:
        error = "the server counts no usage in its stream"
    return Served(
        index=index,
        started_s=started,
        ttft_ms=None if stream.first_s is None else (stream.first_s - started) * 1000.0,
        end_to_end_ms=(ended - started) * 1000.0,
        input_tokens=stream.tokens("prompt_tokens"),
        output_tokens=stream.tokens("completion_tokens"),
        chunks=stream.chunks,
        text="".join(stream.pieces),
        finish_reason=stream.finish_reason,
        speculation=stream.speculation,
        error=error,
        retry_after_s=put_off,
    )


def _told(broken: Exception) -> str:
    """A broken connection in a few words; aiohttp's own name its TLS settings, too."""
    if isinstance(broken, aiohttp.ClientConnectorError):
        return f"cannot connect: {(broken.os_error.strerror or str(broken.os_error)).lower()}"
    if isinstance(broken, LineTooLong):  # no ClientError, unlike all else that aiohttp raises while it reads
        return "a line without end in the stream"
    if isinstance(broken, TooLongError):
        return str(broken)
    return f"{type(broken).__name__}: {broken}" if str(broken) else type(broken).__name__


async def served_models(session: aiohttp.ClientSession, *, url: str) -> list[dict[str, Any]]:
    """The entries of /v1/models.

    Raises:
        EndpointError: nothing answers, the key is refused, or this is no OpenAI-style server.
    """
    try:
        async with session.get("v1/models", timeout=aiohttp.ClientTimeout(total=15.0)) as reply:
            if reply.status in (401, 403):
                raise EndpointError(
                    f"{url} refuses the API key",
                    expected="the key of the server",
                    got=f"HTTP {reply.status}",
                    remedy="set it in the environment variable that --api-key-env names",
                )
            text = await whole(reply, most=LISTING_BYTES)
            entries = orjson.loads(text).get("data") if reply.status == 200 else None
    except (aiohttp.ClientError, OSError, TimeoutError) as broken:
        raise EndpointError(
            f"{url} does not answer",
            got=_told(broken),
            remedy="check the address and that the server is up",
        ) from broken
    except (orjson.JSONDecodeError, AttributeError) as broken:
        raise EndpointError(f"{url} is no OpenAI-style server", expected="/v1/models to list models") from broken
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise EndpointError(
            f"{url} is no OpenAI-style server", expected="/v1/models to list models", got=f"HTTP {reply.status}"
        )
    return entries


async def fetch_metrics(session: aiohttp.ClientSession) -> str | None:
    """The text of /metrics; None where the server has none."""
    try:
        async with session.get("metrics", timeout=aiohttp.ClientTimeout(total=15.0)) as reply:
            text = await whole(reply, most=METRICS_BYTES) if reply.status == 200 else None
            return None if text is None else text.decode(errors="replace")
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
