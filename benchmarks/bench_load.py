"""Do our load client and vLLM's own see the same latencies and throughput of one server?

    python benchmarks/bench_load.py [--rounds 3] [--prompts 12] [--concurrency 2] [--max-tokens 48]

Serves SmolLM2-135M on this CPU without prefix caching, warms it, sends the same prompts by `vllm bench serve` and by
`profiler.load` in turns (which goes first alternates), each round with prompts of its own. One line of JSON: for TTFT,
TPOT, end-to-end latency (medians over requests, then over rounds, in ms) and output tokens per second ours, theirs, and
ours/theirs. Target: within 5 %.

What differs by construction: vLLM's client stops a request's clock at the last chunk with a choice, ours at the end of
the stream (the usage event and [DONE] follow within a millisecond); its TTFT ends with the first chunk, which carries
the role and no text, ours with the first text. vLLM sends both when the first token is there, so TTFT agrees but for
tokens whose text comes later (parts of a character). Both read one connection per request in one asyncio process; on
two cores client and server share them, and the server's own scatter between two equal rounds is printed beside as
`noise`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from profiler.load import Wave
from profiler.prompts.sample import Prompt
from profiler.serving.launch import ServeCommand, launched, serve_prefix
from tests.real_vllm.bench_serve import bench_serve
from tests.real_vllm.conftest import ARGUMENTS
from tests.real_vllm.install import Environment, environment_folder
from tests.real_vllm.load import prompts, send

TOPICS = (
    "bread", "rivers", "clocks", "bridges", "lanterns", "maps", "whales", "glass", "tea", "trains", "maths", "gardens",
    "snow", "violins", "markets", "islands", "paper", "bees", "harbours", "kites", "salt", "towers", "rain", "chess",
)  # fmt: skip


def sample(*, number: int, count: int, max_tokens: int) -> list[tuple[int, Prompt]]:
    """Prompts that no other round has."""
    texts = [f"Part {number}: write {10 + i} sentences about {TOPICS[i % len(TOPICS)]}." for i in range(count)]
    return prompts(*texts, max_tokens=max_tokens)


def ours(wave: Wave) -> dict[str, float]:
    """Medians over our requests."""
    assert len(wave.whole) == len(wave.served), [s.error for s in wave.served]
    tokens = sum(s.output_tokens or 0 for s in wave.served)
    return {
        "ttft_ms": statistics.median(s.ttft_ms or 0.0 for s in wave.served),
        "tpot_ms": statistics.median(s.tpot_ms or 0.0 for s in wave.served),
        "end_to_end_ms": statistics.median(s.end_to_end_ms or 0.0 for s in wave.served),
        "output_tokens_per_s": tokens / wave.seconds,
    }


def theirs(result: dict[str, Any]) -> dict[str, float]:
    """Medians over vLLM's requests, from its first-token times and the gaps between chunks."""
    decode_s = [sum(gaps) for gaps in result["itls"]]
    pairs = zip(decode_s, result["output_lens"], strict=True)
    return {
        "ttft_ms": 1e3 * statistics.median(result["ttfts"]),
        "tpot_ms": 1e3 * statistics.median(seconds / (tokens - 1) for seconds, tokens in pairs if tokens > 1),
        "end_to_end_ms": 1e3 * statistics.median(t + d for t, d in zip(result["ttfts"], decode_s, strict=True)),
        "output_tokens_per_s": sum(result["output_lens"]) / result["duration"],
    }


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Serve, send by turns, compare."""
    environment = Environment(environment_folder())
    environment.install()
    variables, model = environment.serving_variables(), environment.models / "smollm"
    command = ServeCommand(
        serve_prefix(str(environment.python)), str(model), (*ARGUMENTS, "--no-enable-prefix-caching"), variables
    )
    mine: list[dict[str, float]] = []
    other: list[dict[str, float]] = []
    again: list[dict[str, float]] = []
    with launched(command, log=folder / "serve.log", timeout_s=300) as server:

        def load(number: int) -> list[tuple[int, Prompt]]:
            return sample(number=number, count=options.prompts, max_tokens=options.max_tokens)

        def by_us(number: int) -> dict[str, float]:
            return ours(send(server.url, load(number), concurrency=options.concurrency))

        def by_vllm(number: int) -> dict[str, float]:
            return theirs(
                bench_serve(
                    environment.python, model, server.url, load(number),
                    concurrency=options.concurrency, folder=folder, environment=variables,
                )
            )  # fmt: skip

        by_us(0)
        for number in range(1, options.rounds + 1):
            for side in ("us", "vllm") if number % 2 else ("vllm", "us"):
                (mine if side == "us" else other).append(by_us(number) if side == "us" else by_vllm(number))
            again.append(by_us(number))
    told: dict[str, Any] = {"rounds": options.rounds, "requests": options.prompts, "concurrency": options.concurrency}
    for name in mine[0]:
        a, b, c = (statistics.median(result[name] for result in results) for results in (mine, other, again))
        told[name] = {
            "ours": round(a, 2), "vllm": round(b, 2), "ratio": round(a / b, 4), "noise": round(abs(a / c - 1), 4),
        }  # fmt: skip
    return told


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=48)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        print("bench_load: about 3 minutes", file=sys.stderr)
        print(json.dumps({"bench": "load", **measure(options, Path(folder))}))


if __name__ == "__main__":
    main()
