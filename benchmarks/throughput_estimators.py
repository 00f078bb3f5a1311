"""Which estimate of a cell's throughput is honest? Both protocols on a simulated scheduler whose true rate is known.

    python benchmarks/throughput_estimators.py             # about 2 minutes; the last line is JSON
    python benchmarks/throughput_estimators.py --seeds 2

The scheduler is vLLM's in outline: 8,192 tokens a step, running requests first, prompts in chunks, first come first
served; a step takes its launches, a time per decoded token and, above 400 prompt tokens, their compute. Step and
prefill times are near those measured of an 8B and a 32B target on an H200, drafts are accepted by chance at the grid's
lengths. True is the pooled rate of 25 cycles. Protocol 1 is told in the data card: ages evenly spread in what is left,
windows of 0.5 s, ended once a quarter of c requests were timed.
"""

from __future__ import annotations

import argparse
import json
import math

import numpy as np

from profiler.measurements.estimate import balanced_tokens_per_s, tpot_by_little_ms
from profiler.sweep.closed_loop import Counters, Finished, Limits, measure_cell
from profiler.sweep.grid import Point

ENGINES = {  # step without tokens, per decoded token, per prompt token in seconds; k, acceptance length
    "8B": (0.0049, 2e-5, 24.4e-6, 0, 1.0),
    "8B k=3": (0.0063, 3e-5, 25e-6, 3, 2.5),
    "8B k=5": (0.0073, 3e-5, 25e-6, 5, 3.0),
    "32B": (0.0183, 5e-5, 1.04e-4, 0, 1.0),
    "32B k=3": (0.0207, 1e-4, 1.05e-4, 3, 2.5),
}
POINTS = [(64, 128, 128), (16, 1024, 128), (256, 128, 64), (16, 4096, 64), (64, 1024, 128), (4, 12288, 64),
          (32, 2048, 128), (128, 512, 64), (8, 4096, 128), (128, 128, 128), (4, 4096, 64), (4, 1024, 128),
          (32, 512, 128)]  # fmt: skip
BUDGET = 8192
COUNTED = ("generation_tokens", "prompt_tokens", "first_tokens", "steps", "drafts", "drafted_tokens", "accepted_tokens")


class Scheduler:
    """Chunked prefill on a clock of its own; see closed_loop.LoadedEngine."""

    def __init__(self, step_s, token_s, prompt_token_s, k, length, *, seed):
        self.costs, self.k, self.alpha = (step_s, token_s, prompt_token_s), k, _alpha(length, k)
        self.rng, self.now = np.random.default_rng(seed), 0.0
        self.requests, self.totals = {}, dict.fromkeys(COUNTED, 0)

    def clock(self):
        return self.now

    def submit(self, request_id, prompt, *, output_tokens, temperature):
        del temperature
        self.requests[request_id] = {"unread": len(prompt), "prompt": len(prompt), "asked": output_tokens,
                                     "written": 0, "since": self.now, "first": None}  # fmt: skip

    def step(self):
        budget, decoding, reading = BUDGET, [], []
        for name, request in self.requests.items():
            if not request["unread"] and budget > self.k:
                decoding.append(name)
                budget -= 1 + self.k
        for name, request in self.requests.items():
            if request["unread"] and budget:
                reading.append((name, min(request["unread"], budget)))
                budget -= reading[-1][1]
        step_s, token_s, prompt_token_s = self.costs
        prompts, decoded = sum(size for _, size in reading), token_s * len(decoding) * (1 + self.k)
        if prompts > 400:
            lasts = max(step_s, prompt_token_s * prompts) + decoded
        else:
            lasts = step_s + decoded + 0.5 * prompt_token_s * prompts
        self.now += lasts * (1 + 0.01 * self.rng.standard_normal())
        self.totals["steps"] += 1
        for name in decoding:
            self._decode(self.requests[name])
        for name, size in reading:
            self._read(self.requests[name], size)
        through = [name for name, request in self.requests.items() if request["written"] >= request["asked"]]
        return [self._finished(name, self.requests.pop(name)) for name in through]

    def _decode(self, request):
        new = 1
        while new <= self.k and self.rng.random() < self.alpha:
            new += 1
        if self.k:
            self.totals["drafts"] += 1
            self.totals["drafted_tokens"] += self.k
            self.totals["accepted_tokens"] += new - 1
        new = min(new, request["asked"] - request["written"])
        request["written"] += new
        self.totals["generation_tokens"] += new

    def _read(self, request, size):
        request["unread"] -= size
        if not request["unread"]:
            request["written"], request["first"] = 1, self.now
            self.totals["generation_tokens"] += 1
            self.totals["prompt_tokens"] += request["prompt"]
            self.totals["first_tokens"] += 1

    def _finished(self, name, request):
        return Finished(name, request["asked"], request["first"] - request["since"], self.now - request["first"])

    def running_ttft_s(self):
        return {name: r["first"] - r["since"] for name, r in self.requests.items() if r["first"] is not None}

    def abort_all(self):
        self.requests.clear()

    def counters(self):
        return Counters(**self.totals)


def _alpha(length, k):
    low, high = 0.0, 1.0
    for _ in range(60 if k else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**i for i in range(k + 1)) < length else (low, middle)
    return low


def protocol_1(engine, point):
    """Windows, timed requests, TTFTs and counters as protocol 1 took them."""
    c, n, names = point.concurrency, point.output_tokens, iter(range(10**9))
    since = {}

    def submit(tokens, prompt):
        name = str(next(names))
        since[name] = engine.now
        engine.submit(name, [0] * prompt, output_tokens=tokens, temperature=0.0)

    def step():
        ended = engine.step()
        for _ in ended:
            submit(n, point.input_tokens)
        return ended

    for slot in range(c):
        left = max(1, math.ceil(n * (c - slot - 0.5) / c))
        submit(left, point.input_tokens + n - left)
    first = set(engine.requests)
    while first & set(engine.requests) - set(engine.running_ttft_s()):
        step()
    settled = engine.now + 0.1
    while not step() or engine.now < settled:
        pass
    start = opened = engine.now
    before, base, windows, timed = engine.counters(), engine.counters(), [], []
    while True:
        ended = step()
        timed += [finished for finished in ended if since[finished.request_id] >= start]
        if ended and engine.now - opened >= 0.5:
            seen = engine.counters()
            windows.append((engine.now - opened, seen.generation_tokens - before.generation_tokens))
            opened, before = engine.now, seen
            enough = len(windows) >= 3 and engine.now - start >= 1.5 and len(timed) >= max(3, math.ceil(c / 4))
            if enough or engine.now - start >= 6.0:
                break
    running = [ttft for name, ttft in engine.running_ttft_s().items() if since[name] >= start]
    return windows, timed, [f.ttft_s for f in timed] + running, before.minus(base), opened - start


def measured(engine, point, cycles, longest_s=1e4):
    """Protocol 2 over so many cycles."""
    limits = Limits(least_cycles=cycles, least_windows=min(cycles, 3), longest_s=longest_s, limit_cycles=2.0 * cycles)
    return measure_cell(engine, point, vocab_size=2, rng=np.random.default_rng(0), limits=limits, clock=engine.clock)


def main():
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    seeds = range(parser.parse_args().seeds)
    errors, seconds = {}, {}
    for name, costs in ENGINES.items():
        for c, s, n in POINTS:
            point = Point(concurrency=c, input_tokens=s, output_tokens=n)
            long = measured(Scheduler(*costs, seed=100), point, 25)
            true = long.counters.generation_tokens / long.measured_s
            true_tpot_ms = 1e3 * np.mean([f.decode_s / (n - 1) for f in long.timed])

            def balanced(tokens, span, prefills, n=n, prefill_s=s * costs[2]):
                return balanced_tokens_per_s(
                    tokens=tokens, seconds=span, prefills=prefills, output_tokens=n, prefill_s=prefill_s
                )

            found = {}
            for seed in seeds:
                engine = Scheduler(*costs, seed=seed)
                windows, timed, ttft_s, counted, span = protocol_1(engine, point)
                rate = balanced(counted.generation_tokens, span, counted.first_tokens)
                estimates = {
                    "1: median of windows": np.median([tokens / lasts for lasts, tokens in windows]) / true,
                    "1: pooled": counted.generation_tokens / span / true,
                    "1: balanced": rate / true,
                    "1: TPOT by Little": tpot_by_little_ms(
                        concurrency=c, output_tokens=n, tokens_per_s=rate, ttft_ms=1e3 * np.median(ttft_s)
                    ) / true_tpot_ms,
                }  # fmt: skip
                if timed:
                    estimates["1: TPOT of timed"] = 1e3 * np.mean([f.decode_s for f in timed]) / (n - 1) / true_tpot_ms
                seconds.setdefault("1", []).append(engine.now)
                for cycles in (1, 2, 3):
                    engine = Scheduler(*costs, seed=seed)
                    cell = measured(engine, point, cycles)
                    counted, span = cell.counters, cell.measured_s
                    rate = balanced(counted.generation_tokens, span, counted.first_tokens)
                    estimates[f"2, {cycles} cycles: pooled"] = counted.generation_tokens / span / true
                    estimates[f"2, {cycles} cycles: balanced"] = rate / true
                    seconds.setdefault(f"2, {cycles} cycles", []).append(engine.now)
                for label, ratio in estimates.items():
                    found.setdefault(label, []).append(ratio - 1)
            for label, values in found.items():
                errors.setdefault(label, []).append(float(np.mean(np.abs(values))))
            told = ", ".join(f"{label} {np.mean(found[label]):+.1%}" for label in list(found)[:3])
            print(f"{name:8} {c}x{s}+{n}: true {true:.0f} tok/s; protocol {told}")
    table = {
        label: {"mean": float(np.mean(e)), "p90": float(np.quantile(e, 0.9)), "largest": max(e)}
        for label, e in sorted(errors.items())
    }
    for label, row in table.items():
        print(f"{label:28} off by {row['mean']:6.1%} on average, p90 {row['p90']:6.1%}, at most {row['largest']:6.1%}")
    lasts = {label: float(np.mean(values)) for label, values in seconds.items()}
    print(json.dumps({"points": len(ENGINES) * len(POINTS), "errors": table, "seconds_per_cell": lasts}))


if __name__ == "__main__":
    main()
