"""A small stand-in for `vllm serve`, with knobs for latency, acceptance and faults; it runs in a thread on loopback.

It streams real server-sent events and counts what it did in a /metrics of vLLM's names, so that the client's arithmetic
can be checked against what was truly served. Where vLLM itself can run, the tests run vLLM (tests/real_vllm).
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import json
import os
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

# Upper bounds of vLLM 0.32's histograms, to the size that tests reach.
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
BUCKETS = {
    "time_to_first_token_seconds": (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5),
    "request_time_per_output_token_seconds": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
    "e2e_request_latency_seconds": (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0),
    "request_prompt_tokens": _TOKENS,
    "request_generation_tokens": _TOKENS,
}


@dataclass
class Knobs:
    """What the server does; may be changed while it runs."""

    model: str = "fake"
    ttft_s: float = 0.02
    step_s: float = 0.002
    tokens_per_step: int = 1  # with 1 + accepted per draft: what speculation would emit
    num_speculative_tokens: int = 0  # 0: no speculation, no counters
    api_key: str | None = None
    with_metrics: bool = True
    fault: str | None = (
        None  # "status 500", "broken json", "cut stream", "hang", "no usage", "restart", "exit", "beyond"
    )
    fault_after: int = 0  # requests answered rightly before the fault
    answer: str = "word "
    per_request: bool = False  # metrics.speculative_decoding in the last event, as vLLM 0.32 does
    detailed: bool = False  # with each step's accepted drafts, as its level "detailed" has it
    max_model_len: int = 2048  # words of the prompt plus max_tokens: more is refused, as vLLM does
    with_tokenize: bool = True
    owned_by: str = "vllm"
    root: str = "/models/fake"
    version: str | None = "0.32.0"
    chat: bool = True  # False: no chat template
    block_size: int = 16
    jitter_s: float = 0.0  # most that a request waits longer, at random
    put_off: int = 0  # requests that are answered `put_off_status` first, whatever they ask
    put_off_status: int = 429
    retry_after: str | None = None  # what the header says then
    metrics_delay_s: float = 0.0
    waiting: int = 0  # requests that it says wait in its queue
    put_off_in_stream: bool = False  # as vLLM does once it has answered 200
    most_at_once: int | None = None  # more are put off, as a gateway's limit does
    histograms: bool = False  # of requests, in vLLM's buckets
    kv_usage: float | None = None
    redirect_to: str | None = None  # another server, to which /v1/models sends its clients


@dataclass
class FakeVllm:
    """A running server and what it has counted."""

    url: str
    knobs: Knobs
    bodies: list[dict] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)
    most_in_flight: int = 0
    in_flight: int = 0
    scrapes: int = 0  # readings of /metrics so far
    finished: dict[str, list[float]] = field(default_factory=dict)  # of each histogram, since its start

    def add(self, name: str, value: float) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + value

    def restart(self) -> None:
        """Counters fall back to zero, as after a crash."""
        self.counts = {"process_start_time_seconds": self.counts.get("process_start_time_seconds", 1000.0) + 500.0}
        self.finished = {}

    def finish(self, *, prompt_tokens: int, output_tokens: int, ttft_s: float, tpot_s: float) -> None:
        """Count a request as if it had been served: for traffic denser than a loopback carries."""
        self.add("prompt_tokens", prompt_tokens)
        self.add("generation_tokens", output_tokens)
        self.add("request_success", 1)
        for name, value in (
            ("time_to_first_token_seconds", ttft_s),
            ("request_time_per_output_token_seconds", tpot_s),
            ("e2e_request_latency_seconds", ttft_s + tpot_s * (output_tokens - 1)),
            ("request_prompt_tokens", prompt_tokens),
            ("request_generation_tokens", output_tokens),
        ):
            self.finished.setdefault(name, []).append(value)

    def metrics(self) -> str:
        lines = [f'vllm:num_requests_running{{model_name="{self.knobs.model}"}} {self.in_flight}']
        lines.append(f'vllm:num_requests_waiting{{model_name="{self.knobs.model}"}} {self.knobs.waiting}')
        for name in ("prompt_tokens", "generation_tokens", "request_success"):
            lines.append(f'vllm:{name}_total{{model_name="{self.knobs.model}"}} {self.counts.get(name, 0.0)}')
        cache = f'block_size="{self.knobs.block_size}",num_gpu_blocks="100",user_specified_block_size="False"'
        lines.append(f"vllm:cache_config_info{{{cache}}} 1.0")
        if self.knobs.num_speculative_tokens:
            for i in range(self.knobs.num_speculative_tokens):
                labels = f'model_name="{self.knobs.model}",position="{i}"'
                value = self.counts.get(f"accepted_at_{i}", 0.0)
                lines.append(f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels}}} {value}")
            for name in ("drafts", "draft_tokens", "accepted_tokens"):
                value = self.counts.get(name, 0.0)
                lines.append(f'vllm:spec_decode_num_{name}_total{{model_name="{self.knobs.model}"}} {value}')
        if self.knobs.kv_usage is not None:
            lines.append(f'vllm:kv_cache_usage_perc{{model_name="{self.knobs.model}"}} {self.knobs.kv_usage}')
        if self.knobs.histograms:
            for name, bounds in BUCKETS.items():
                values = sorted(self.finished.get(name, ()))
                for bound in (*bounds, float("inf")):
                    labels = f'le="{"+Inf" if bound == float("inf") else bound}",model_name="{self.knobs.model}"'
                    lines.append(f"vllm:{name}_bucket{{{labels}}} {bisect.bisect_right(values, bound)}")
                lines.append(f'vllm:{name}_sum{{model_name="{self.knobs.model}"}} {sum(values)}')
                lines.append(f'vllm:{name}_count{{model_name="{self.knobs.model}"}} {len(values)}')
        lines.append(f"process_start_time_seconds {self.counts.get('process_start_time_seconds', 1000.0)}")
        return "\n".join(lines) + "\n"


def _application(fake: FakeVllm) -> web.Application:
    numbers = itertools.count()

    async def generate(request: web.Request) -> web.StreamResponse:
        knobs, number = fake.knobs, next(numbers)
        if knobs.api_key and request.headers.get("Authorization") != f"Bearer {knobs.api_key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        body = await request.json()
        fake.bodies.append(body)
        if body["model"] != knobs.model:
            return web.json_response({"error": {"message": f"The model `{body['model']}` does not exist."}}, status=404)
        fault = knobs.fault if number >= knobs.fault_after else None
        if fault == "exit":
            os._exit(3)
        if fault == "restart" and number == knobs.fault_after:
            fake.restart()
        if knobs.put_off > 0 or (knobs.most_at_once is not None and fake.in_flight >= knobs.most_at_once):
            knobs.put_off -= 1
            if knobs.put_off_in_stream:
                error = {"message": "busy", "type": "Service Unavailable", "code": knobs.put_off_status}
                text = f"data: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n"
                return web.Response(text=text, content_type="text/event-stream")
            header = {} if knobs.retry_after is None else {"Retry-After": knobs.retry_after}
            return web.json_response({"error": "too many requests"}, status=knobs.put_off_status, headers=header)
        words = len(_text(body).split())
        if words + int(body["max_tokens"]) > knobs.max_model_len:
            message = f"This model's maximum context length is {knobs.max_model_len} tokens."
            return web.json_response({"error": {"message": message}}, status=400)
        if "messages" in body and not knobs.chat:
            message = "default chat template is no longer allowed, so you must provide a chat template"
            return web.json_response({"error": {"message": message}}, status=400)
        if fault and fault.startswith("status"):
            return web.json_response({"error": "told to fail"}, status=int(fault.split()[1]))
        fake.in_flight += 1
        fake.most_in_flight = max(fake.most_in_flight, fake.in_flight)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            await reply.prepare(request)
            await _stream(fake, reply, body, fault)
        finally:
            fake.in_flight -= 1
        return reply

    async def models(request: web.Request) -> web.Response:
        if fake.knobs.redirect_to:
            raise web.HTTPTemporaryRedirect(fake.knobs.redirect_to + request.path)
        if fake.knobs.api_key and request.headers.get("Authorization") != f"Bearer {fake.knobs.api_key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        entry = {"id": fake.knobs.model, "owned_by": fake.knobs.owned_by, "root": fake.knobs.root}
        entry["max_model_len"] = fake.knobs.max_model_len
        return web.json_response({"object": "list", "data": [entry]})

    async def version(_: web.Request) -> web.Response:
        return web.json_response({"version": fake.knobs.version}) if fake.knobs.version else web.Response(status=404)

    async def tokenize(request: web.Request) -> web.Response:
        if not fake.knobs.with_tokenize:
            return web.Response(status=404)
        asked = await request.json()
        found = {"count": len(_text(asked).split())}
        if asked.get("return_token_strs"):  # a word is a token, its spaces are written as byte-level vocabularies do
            found["token_strs"] = [word.replace(" ", "Ġ") for word in re.findall(r"\S+ *| +", _text(asked))]
        return web.json_response(found)

    async def metrics(_: web.Request) -> web.Response:
        if not fake.knobs.with_metrics:
            return web.Response(status=404)
        fake.scrapes += 1
        await asyncio.sleep(fake.knobs.metrics_delay_s)
        return web.Response(text=fake.metrics())

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    application = web.Application()
    application.router.add_post("/v1/chat/completions", generate)
    application.router.add_post("/v1/completions", generate)
    application.router.add_get("/v1/models", models)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/version", version)
    application.router.add_post("/tokenize", tokenize)
    application.router.add_get("/health", health)
    return application


def _text(body: dict) -> str:
    return "".join(m["content"] for m in body["messages"]) if "messages" in body else body["prompt"]


async def _stream(fake: FakeVllm, reply: web.StreamResponse, body: dict, fault: str | None) -> None:
    knobs = fake.knobs
    wanted, prompt_tokens = int(body["max_tokens"]), max(1, len(_text(body).split()))
    wanted = 10**6 if fault == "beyond" else wanted
    histogram = [0] * (knobs.num_speculative_tokens + 1)
    counting = (body.get("stream_options") or {}).get("continuous_usage_stats")
    steps = []
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(3600 if fault == "hang" else knobs.ttft_s + random.uniform(0.0, knobs.jitter_s))

    async def event(payload: dict) -> None:
        await reply.write(b"data: " + json.dumps(payload).encode() + b"\n\n")

    sent, first_s = 0, asyncio.get_running_loop().time() - began
    while sent < wanted:
        emitted = min(1 if sent == 0 else knobs.tokens_per_step, wanted - sent)
        if sent:
            await asyncio.sleep(knobs.step_s)
            if knobs.num_speculative_tokens:
                fake.add("drafts", 1)
                fake.add("draft_tokens", knobs.num_speculative_tokens)
                fake.add("accepted_tokens", emitted - 1)
                histogram[emitted - 1] += 1
                steps.append(emitted - 1)
                for i in range(emitted - 1):
                    fake.add(f"accepted_at_{i}", 1)
        if fault == "broken json" and sent:
            await reply.write(b'data: {"choices": [{"delta": \n\n')
            return
        if fault == "cut stream" and sent:
            return
        sent += emitted
        piece = knobs.answer * emitted
        choice = {"index": 0, "finish_reason": None}
        choice |= {"delta": {"content": piece}} if "messages" in body else {"text": piece}
        usage = {"usage": {"prompt_tokens": prompt_tokens, "completion_tokens": sent}} if counting else {}
        await event({"choices": [choice]} | usage)
    await event({"choices": [{"index": 0, "finish_reason": "length", "delta": {}, "text": ""}]})
    seconds = asyncio.get_running_loop().time() - began
    tpot_s = (seconds - first_s) / (sent - 1) if sent > 1 else 0.0
    fake.finish(prompt_tokens=prompt_tokens, output_tokens=sent, ttft_s=first_s, tpot_s=tpot_s)
    if fault != "no usage":
        last = {"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": sent}}
        if knobs.per_request and knobs.num_speculative_tokens:
            told = {"num_spec_steps": sum(histogram), "acceptance_histogram": histogram}
            told["num_draft_tokens"] = sum(histogram) * knobs.num_speculative_tokens
            told["num_accepted_draft_tokens"] = sum(i * n for i, n in enumerate(histogram))
            if knobs.detailed:
                told["per_step_accepted"] = steps
            last["metrics"] = {"speculative_decoding": told}
        await event(last)
    await reply.write(b"data: [DONE]\n\n")


@contextmanager
def fake_vllm(knobs: Knobs | None = None, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[FakeVllm]:
    """A server on a free loopback port for the length of a `with` block."""
    fake = FakeVllm(url="", knobs=knobs or Knobs())
    loop = asyncio.new_event_loop()
    started = threading.Event()
    # As vLLM does, it ends what nobody waits for any more.
    runner = web.AppRunner(_application(fake), shutdown_timeout=0.1, handler_cancellation=True)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        await site.start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield fake
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
