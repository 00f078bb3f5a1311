"""How near is a real pair's cell to the truth? The closed loop of real prompts on a simulated scheduler.

    python benchmarks/real_pair_windows.py             # about 2 minutes; the last line is JSON
    python benchmarks/real_pair_windows.py --seeds 1

Prompts and answers have the lengths that acceptance_prompts.csv holds of the grid's prompts (greedy, drafted by 0.5B);
steps cost about what a 1.5B target is taken to cost on an H200, drafts are accepted by chance. Measured as
profiler.sweep.real_pair does it; true is the rate over 40 cycles. Told are relative errors of throughput, speedup and
latency by concurrency (median and p90 over classes, ways of speculating and seeds), and simulated seconds of an engine.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from throughput_estimators import Scheduler

from profiler.sweep.closed_loop import Limits, measure_traffic
from profiler.sweep.real_grid import RealCell, read_real_grid
from profiler.sweep.real_pair import cell_limits
from profiler.sweep.traffic import PromptCycle

DATA = Path(__file__).parents[1] / "data"
ENGINES = {  # step without tokens, per decoded token, per prompt token in seconds; k, acceptance length
    "base": (0.0022, 1.2e-5, 6e-6, 0, 1.0),
    "draft-k3": (0.007, 2.5e-5, 9e-6, 3, 3.2),
    "ngram-k5": (0.0032, 3e-5, 6e-6, 5, 2.0),
}
CLASSES = ("edit", "code", "creative", "retrieval", "json", "summarisation")
CONCURRENCY = (1, 4, 16, 64, 128)
TRUTH = Limits(window_s=1.0, least_windows=5, least_s=5.0, least_cycles=40, most_s=1e4, longest_s=1e4)


class Answering(Scheduler):
    """Writes what its prompt's answer came to, whatever is allowed."""

    lengths: list[int]

    def submit(self, request_id, prompt, *, output_tokens, temperature):
        length = min(self.lengths[prompt[0]], output_tokens)
        super().submit(request_id, prompt, output_tokens=length, temperature=temperature)


def lengths_of(structure):
    """Input and output tokens of the grid's prompts of one class."""
    grid = read_real_grid(DATA / "grids" / "real-pair-1.yaml")
    numbers = grid.numbers(RealCell(prompt_set="own", structure=structure, concurrency=1))
    with (DATA / "measurements" / "acceptance_cells.csv").open(encoding="utf-8", newline="") as file:
        wanted = ("draft-k3-greedy", "own", structure, "0")
        names = ("engine", "prompt_set", "structure", "temperature")
        cell = next(row["cell_id"] for row in csv.DictReader(file) if tuple(row[name] for name in names) == wanted)
    with (DATA / "measurements" / "acceptance_prompts.csv").open(encoding="utf-8", newline="") as file:
        own = {int(row["prompt"]): row for row in csv.DictReader(file) if row["cell_id"] == cell}
    return [(int(own[number]["input_tokens"]), int(own[number]["output_tokens"])) for number in numbers]


def measure(engine, lengths, concurrency, limits, seed):
    """Throughput, latency, and seconds that the cell took."""
    scheduler = Answering(*ENGINES[engine], seed=seed)
    scheduler.lengths = [written for _, written in lengths]
    prompts = [[place] * read for place, (read, _) in enumerate(lengths)]
    traffic = PromptCycle(prompts, concurrency=concurrency, most_tokens=200, temperature=0.0)
    cell = measure_traffic(scheduler, traffic, limits=limits, clock=scheduler.clock)
    rate = cell.counters.generation_tokens / cell.measured_s
    return rate, concurrency * cell.measured_s / cell.completions, scheduler.now


def main() -> None:
    """Print the errors by concurrency, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args().seeds)
    errors, seconds = defaultdict(list), dict.fromkeys(ENGINES, 0.0)
    for structure in CLASSES:
        lengths = lengths_of(structure)
        for slots in CONCURRENCY:
            off = {}
            for engine in ENGINES:
                rate, latency, _ = measure(engine, lengths, slots, TRUTH, seed=99)
                for seed in seeds:
                    seen, seen_latency, took = measure(engine, lengths, slots, cell_limits(slots), seed)
                    off[engine, seed] = seen / rate
                    errors["throughput", slots].append(abs(seen / rate - 1))
                    errors["latency", slots].append(abs(seen_latency / latency - 1))
                    seconds[engine] += took / len(seeds)
            errors["speedup", slots] += [
                abs(off[engine, seed] / off["base", seed] - 1) for engine in list(ENGINES)[1:] for seed in seeds
            ]
    report = {
        f"{name} at {slots}": [round(float(np.quantile(found, q)), 4) for q in (0.5, 0.9)]
        for (name, slots), found in sorted(errors.items())
    } | {f"seconds of {engine}": round(took, 1) for engine, took in seconds.items()}
    for name, value in report.items():
        print(name, value)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
