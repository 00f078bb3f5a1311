"""The engine of a cell behind HTTP: what the closed loop asks of an engine, asked of a running `vllm serve`.

Requests are streamed completions of token ids, so that neither side needs a tokenizer; every chunk with token ids is an
output. An output of the loop is all that has arrived by the time the client reads, since the chunks of one engine step
come one after the other. Times are the client's: TTFT from sending to the first chunk, decoding to the last one.
Counters are those of /metrics, summed over the engines behind the address.

Needs aiohttp, httpx and prometheus_client, which vLLM itself depends on. A server that goes away ends the cell with
EndpointError.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx

from profiler.errors import EndpointError
from profiler.metrics import Scrape, read_scrape, speculation_counters
from profiler.sweep.closed_loop import Counters, Finished

_DATA, _DONE = b"data:", b"[DONE]"
_SILENCE_S = 120.0  # without a chunk of any request: compiling a shape takes less


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[None]
    since: float
    first: float | None = None
    last: float = 0.0
    tokens: int = 0


class ServedEngine:
    """A server that is stepped by its caller; see `closed_loop.LoadedEngine`. Close it when done."""

    def __init__(self, url: str, *, model: str) -> None:
        self._url, self._model = url, model
        self._loop = asyncio.new_event_loop()
        self._news: asyncio.Queue[Finished | Exception | None] = asyncio.Queue()
        self._running: dict[str, _Running] = {}
        self._session = self._loop.run_until_complete(self._open())
        self._scraper = httpx.Client(base_url=url, timeout=30.0, trust_env=False)

    async def _open(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_SILENCE_S)
        return aiohttp.ClientSession(base_url=self._url, connector=aiohttp.TCPConnector(limit=0), timeout=timeout)

    def submit(self, request_id: str, prompt: list[int], *, output_tokens: int, temperature: float) -> None:
        """Queue one request that writes exactly `output_tokens`; it is sent as the loop next waits."""
        body = {
            "model": self._model, "prompt": prompt, "max_tokens": output_tokens, "temperature": temperature,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True,
        }  # fmt: skip
        task = self._loop.create_task(self._stream(request_id, json.dumps(body).encode()))
        self._running[request_id] = _Running(task, time.monotonic())

    async def _stream(self, request_id: str, body: bytes) -> None:
        record = self._running[request_id]
        try:
            headers = {"Content-Type": "application/json"}
            async with self._session.post("/v1/completions", data=body, headers=headers) as reply:
                if reply.status != 200:
                    raise EndpointError(f"the server refused a request: HTTP {reply.status}", got=await reply.text())
                async for line in reply.content:
                    if line.startswith(_DATA):
                        self._take(record, line[len(_DATA) :].strip())
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            self._news.put_nowait(
                EndpointError("the server broke off an answer", got=f"{type(error).__name__}: {error}")
            )
            return
        except EndpointError as error:
            self._news.put_nowait(error)
            return
        if record.first is None:
            self._news.put_nowait(EndpointError("the server sent an answer without tokens"))
            return
        del self._running[request_id]
        self._news.put_nowait(
            Finished(request_id, record.tokens, ttft_s=record.first - record.since, decode_s=record.last - record.first)
        )

    def _take(self, record: _Running, payload: bytes) -> None:
        if payload == _DONE:
            return
        event = json.loads(payload)
        if not isinstance(event, dict) or "error" in event:
            raise EndpointError("the server reported an error in an answer", got=str(event)[:300])
        for choice in event.get("choices") or ():
            if choice.get("token_ids"):
                record.last = time.monotonic()
                if record.first is None:
                    record.first = record.last
                    record.tokens = 0
                record.tokens += len(choice["token_ids"])
                self._news.put_nowait(None)

    def step(self) -> list[Finished]:
        """Wait for the server's next output; the requests that it ended.

        Raises:
            EndpointError: a request failed, or nothing came for two minutes.
        """
        return self._loop.run_until_complete(self._step())

    async def _step(self) -> list[Finished]:
        try:
            news = [await asyncio.wait_for(self._news.get(), _SILENCE_S)]
        except TimeoutError as error:
            raise EndpointError(f"the server sent nothing for {_SILENCE_S:.0f} s") from error
        await asyncio.sleep(0)  # lets other streams read what lies in their sockets already
        while not self._news.empty():
            news.append(self._news.get_nowait())
        for item in news:
            if isinstance(item, Exception):
                raise item
        return [item for item in news if isinstance(item, Finished)]

    def running_ttft_s(self) -> dict[str, float]:
        """TTFT of the requests that have a first token and still run."""
        return {name: r.first - r.since for name, r in self._running.items() if r.first is not None}

    def abort_all(self) -> None:
        """Drop everything in flight; the server ends a request whose client is gone."""
        self._loop.run_until_complete(self._abort())

    async def _abort(self) -> None:
        tasks = [record.task for record in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()
        self._news = asyncio.Queue()

    def scrape(self) -> Scrape:
        """One reading of /metrics."""
        try:
            reply = self._scraper.get("/metrics")
        except httpx.HTTPError as error:
            raise EndpointError(f"{self._url} does not answer", got=f"{type(error).__name__}: {error}") from error
        return read_scrape(reply.text, at_s=time.monotonic(), url=f"{self._url}/metrics")

    def counters(self) -> Counters:
        """Totals since the server started."""
        scrape = self.scrape()
        counted = speculation_counters(scrape)

        def total(name: str) -> int:
            return round(scrape.total(name) or 0.0)

        return Counters(
            generation_tokens=total("generation_tokens"),
            prompt_tokens=total("prompt_tokens"),
            first_tokens=total("time_to_first_token_seconds_count"),
            steps=total("iteration_tokens_total_count"),
            drafts=round(counted.drafts or 0.0) if counted else 0,
            drafted_tokens=round(counted.drafted_tokens) if counted else 0,
            accepted_tokens=round(counted.accepted_tokens) if counted else 0,
            accepted_per_position=tuple(round(n) for n in counted.accepted_per_position) if counted else (),
            preemptions=total("num_preemptions"),
            cached_prompt_tokens=total("prefix_cache_hits"),
        )

    def version(self) -> str | None:
        """What the server says of itself."""
        try:
            answer: Any = self._scraper.get("/version").json()
        except (httpx.HTTPError, ValueError):
            return None
        return str(answer["version"]) if isinstance(answer, dict) and "version" in answer else None

    def close(self) -> None:
        """Drop what is in flight and the connections."""
        self._loop.run_until_complete(self._abort())
        self._loop.run_until_complete(self._session.close())
        self._scraper.close()
        self._loop.close()
