"""How far off is the queue of capacity plans from a simulation, pass by pass?

    PYTHONPATH=. python benchmarks/plan_queue.py [REQUESTS]     # a line a load and class; the last line is JSON

Kinds of traffic of tests/advisor/plan/cases.py at shares of the rate at which each saturates; the simulation is
tests/advisor/plan/simulated.py (seeded; 4,000 requests a load where left out, of which a fifth warms up, two seeds).
Both use the same prices of passes: what is compared is the queue alone.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from advisor.plan.queue import offered
from tests.advisor.plan.cases import CASES, replica, saturation
from tests.advisor.plan.simulated import simulate

LOADS = (0.3, 0.6, 0.8, 0.9)
SEEDS = (1, 2)


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    logs: dict[str, list[float]] = {"first_token": [], "tpot": [], "concurrency": []}
    print(f"{'traffic':<28} load  class  TTFT p95 ms: queue  simulated   off    TPOT p95 ms: queue  simulated   off")
    for name, traffic in CASES.items():
        one, budget = replica(traffic)
        most = saturation(one)
        for load in LOADS:
            queue = offered(one, load * most)
            seen = [
                simulate(one, load * most, list(traffic.drafting), seed=seed, requests=requests, budget_chunks=budget)
                for seed in SEEDS
            ]
            first, each = (
                np.exp(np.mean([np.log(getattr(run, what)) for run in seen], axis=0))
                for what in ("first_token_p95_ms", "tpot_p95_ms")
            )
            logs["concurrency"].append(float(np.log(np.mean([s.concurrency for s in seen]) / queue.concurrency)))
            for i in range(len(traffic.share)):
                a, b = queue.first_token_p95_ms[i], queue.tpot_p95_ms[i]
                logs["first_token"].append(float(np.log(first[i] / a)))
                logs["tpot"].append(float(np.log(each[i] / b)))
                print(
                    f"{name:<28} {load:.1f}  {i + 1:>5}  {a:>18.1f} {first[i]:>10.1f} {a / first[i] - 1:>+6.0%} "
                    f"{b:>22.2f} {each[i]:>10.2f} {b / each[i] - 1:>+6.0%}", flush=True,
                )  # fmt: skip
    told = {
        name: {"rms_log": round(float(np.sqrt(np.mean(np.square(found)))), 3),
               "bias_log": round(float(np.mean(found)), 3), "worst_log": round(max(found, key=abs), 3)}
        for name, found in logs.items()
    }  # fmt: skip
    print(json.dumps(told))


if __name__ == "__main__":
    main()
