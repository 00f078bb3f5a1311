"""Do our load client and vLLM's own see the same latencies and throughput of one server?

    python benchmarks/bench_load.py [--prompts 30] [--max-tokens 32]

Serves SmolLM2-135M on this CPU without prefix caching and lets both clients load it at the same time, each with one
request in flight: they share every engine step and whatever else the host does, which from one minute to the next
changes a small CPU server's step by half. (One after the other they differed by up to 50 % either way on a busy
machine, and so did two runs of the same client.) `vllm bench serve` sends the prompts once; ours sends the same ones
over and over, and those of its requests count that lie inside the other's window. One line of JSON: for TTFT, TPOT and
end-to-end latency (means over requests, ms) and output tokens per second ours, vLLM's, and ours/vLLM's, with the 95 %
interval that the requests' own scatter leaves. Target: 5 %, or 1 inside the interval.

What differs by construction: vLLM's client stops a request's clock at the last chunk with a choice, ours at the end of
the stream, when the usage event and [DONE] have followed; its TTFT ends with the first chunk, which carries the role
and no text, ours with the first text. vLLM sends both when the first token is there.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from profiler.load import Endpoint, Served
from profiler.load.client import serve_one
from profiler.prompts.sample import Prompt
from profiler.serving.launch import ServeCommand, launched, serve_prefix
from tests.real_vllm.bench_serve import bench_serve
from tests.real_vllm.conftest import ARGUMENTS
from tests.real_vllm.install import Environment, environment_folder
from tests.real_vllm.load import PLAN, prompts, send

TOPICS = (
    "bread",
    "rivers",
    "clocks",
    "bridges",
    "lanterns",
    "maps",
    "whales",
    "glass",
    "tea",
    "trains",
    "snow",
    "bees",
)


def sample(*, count: int, max_tokens: int) -> list[tuple[int, Prompt]]:
    """Prompts of one length, so that both clients' requests are alike wherever the window cuts."""
    texts = [f"Part {10 + i}: write ten sentences about {TOPICS[i % len(TOPICS)]}." for i in range(count)]
    return prompts(*texts, max_tokens=max_tokens)


def side_by_side(options: argparse.Namespace, folder: Path) -> tuple[list[Served], dict[str, Any]]:
    """Our requests, all of them, and vLLM's result, from one server."""
    environment = Environment(environment_folder())
    environment.install()
    variables, model = environment.serving_variables(), environment.models / "smollm"
    arguments = (*ARGUMENTS, "--no-enable-prefix-caching")
    command = ServeCommand(serve_prefix(str(environment.python)), str(model), arguments, variables)
    asked = sample(count=options.prompts, max_tokens=options.max_tokens)
    served: list[Served] = []
    over = threading.Event()
    with launched(command, log=folder / "serve.log", timeout_s=300) as server:
        send(server.url, asked[:4])  # the first requests compile kernels

        async def load() -> None:
            async with Endpoint(server.url).session() as session:
                for index, prompt in itertools.cycle(asked):
                    if over.is_set():
                        return
                    served.append(await serve_one(session, PLAN, prompt, index=index))

        thread = threading.Thread(target=lambda: asyncio.run(load()))
        thread.start()
        try:
            result = bench_serve(
                environment.python, model, server.url, asked, concurrency=1, folder=folder, environment=variables
            )
        finally:
            over.set()
            thread.join()
    return served, result


def compare(served: list[Served], result: dict[str, Any]) -> dict[str, Any]:
    """Both clients' means over vLLM's window; perf_counter and monotonic are one clock on Linux."""
    decode_s = [sum(gaps) for gaps in result["itls"]]
    ends = [s + t + d for s, t, d in zip(result["start_times"], result["ttfts"], decode_s, strict=True)]
    begin, end = min(result["start_times"]), max(ends)
    inside = [s for s in served if s.ok and begin <= s.started_s and (s.finished_s or end) <= end]
    tokens = result["output_lens"]
    pairs = {
        "ttft_ms": ([s.ttft_ms or 0.0 for s in inside], [1e3 * t for t in result["ttfts"]]),
        "tpot_ms": (
            [s.tpot_ms for s in inside if s.tpot_ms is not None],
            [1e3 * d / (n - 1) for d, n in zip(decode_s, tokens, strict=True) if n > 1],
        ),
        "end_to_end_ms": (
            [s.end_to_end_ms or 0.0 for s in inside],
            [1e3 * (t + d) for t, d in zip(result["ttfts"], decode_s, strict=True)],
        ),
    }
    told: dict[str, Any] = {"seconds": round(end - begin, 1), "requests": {"ours": len(inside), "vllm": len(tokens)}}
    for name, (ours, theirs) in pairs.items():
        low, high = _interval(ours, theirs)
        told[name] = _ratio(statistics.fmean(ours), statistics.fmean(theirs)) | {"low": low, "high": high}
    # Of one stream from its first request's start to its last one's end, the client's own pauses included.
    first, last = min(s.started_s for s in inside), max(s.finished_s or 0.0 for s in inside)
    ours_per_s = sum(s.output_tokens or 0 for s in inside) / (last - first)
    told["output_tokens_per_s"] = _ratio(ours_per_s, sum(tokens) / (end - begin))
    return told


def _interval(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """95 % interval of the ratio of means, by resampling requests: how far scatter alone could move it at most."""
    random = np.random.default_rng(0)
    drawn = [random.choice(ours, len(ours)).mean() / random.choice(theirs, len(theirs)).mean() for _ in range(2000)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return round(float(low), 4), round(float(high), 4)


def _ratio(ours: float, theirs: float) -> dict[str, float]:
    return {"ours": round(ours, 2), "vllm": round(theirs, 2), "ratio": round(ours / theirs, 4)}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--max-tokens", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        print("bench_load: about 2 minutes", file=sys.stderr)
        print(json.dumps({"bench": "load", **compare(*side_by_side(options, Path(folder)))}))


if __name__ == "__main__":
    main()
