"""How long does a command take, from Enter to the prompt? Wall time of whole processes, warm file cache.

    python benchmarks/bench_cli.py [--runs 7]

One line of JSON: medians in seconds of `specworth --help`, of `specworth advise` on 100 prompts with every applicable
method compared, and of `python -c pass`, the floor that no Python command goes below. Targets: help under 0.3 s, advise
under 2 s on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "data" / "example_prompts.jsonl"
SCRIPT = Path(sys.executable).with_name("specworth")
PROMPTS = 100


def seconds(command: list[str | Path], *, runs: int) -> list[float]:
    """Wall times of `runs` processes, after one that warms the file cache."""
    times = []
    for run in range(runs + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if run:
            times.append(time.perf_counter() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text("\n".join(lines[i % len(lines)] for i in range(PROMPTS)) + "\n", encoding="utf-8")
        advise = [SCRIPT, "advise", prompts, "--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H200"]
        measured = {
            "floor": seconds([sys.executable, "-c", "pass"], runs=runs),
            "help": seconds([SCRIPT, "--help"], runs=runs),
            "advise": seconds([*advise, "--concurrency", "16"], runs=runs),
        }
    result: dict[str, object] = {"benchmark": "cli", "prompts": PROMPTS, "runs": runs, "cores": os.cpu_count()}
    for name, times in measured.items():
        result[f"{name}_median_s"] = round(statistics.median(times), 3)
        result[f"{name}_worst_s"] = round(max(times), 3)
    result["targets_s"] = {"help": 0.3, "advise": 2.0}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
