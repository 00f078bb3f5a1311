"""Where should a probe look next: at which concurrency is it least clear whether speculation pays?

The predicted curve of the probed candidate is corrected by what was measured until now, as advice does it. The next
concurrency is the one whose probability of paying is nearest to one half: it lies at the crossover, so that probing
there brackets it. Where the answer is clear at every concurrency nothing more needs measuring. A concurrency that only
the baseline has seen yet counts as measured with the value that is expected there, so that the next one goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from advisor.candidates import find_candidates
from advisor.capacity import plan_capacity
from advisor.choice import decided
from advisor.correction import predict
from advisor.crossover import curve_grid
from advisor.deployment import resolve_deployment
from advisor.described import describe_sample
from advisor.evidence import Evidence, MeasuredPoint
from advisor.predictions import Case, Ints
from advisor.request import RecommendationRequest
from advisor.traffic import resolve_traffic
from advisor.verdict import probability_of
from models.estimate import Estimate
from profiler.prompts.sample import PromptSample

# What one more probe knows about its own point: half of a policy's usual margin of 5 %, at 90 %.
PROBE_LOG_SD = 0.015

Planner = Callable[[Mapping[int, float | None]], int | None]


def plan_probes(request: RecommendationRequest, *, sample: PromptSample, asked: int, most: int) -> Planner:
    """A function from concurrencies seen (with the speedup found, or None) to the next one, None when all is clear.

    request: its deployment names one method and k. most: the largest concurrency that prompts suffice for.
    Raises InputError where the deployment cannot be predicted.
    """
    deployment = resolve_deployment(request.deployment)
    candidates = find_candidates(deployment, request.deployment.speculation)
    candidate, policy = candidates[0], request.policy
    described = describe_sample(sample)
    traffic = resolve_traffic(
        request.traffic, shared_prefix=described.shared_prefix, workload=described.workload, deployment=deployment
    )
    capacity = plan_capacity(deployment, candidates, traffic.conditions)
    limit = min(capacity.limit(candidate), capacity.limit_without)
    k = candidate.ks[0]
    case = Case(candidate, k, traffic.conditions, capacity.limit(candidate), capacity.limit_without)
    grid = np.array([b for b in curve_grid(limit=limit, asked=asked) if b <= most], dtype=np.int64)

    def curve(points: tuple[MeasuredPoint, ...], loads: Ints) -> Estimate:
        evidence = Evidence(candidate.method, k, None, points) if points else None
        rows = np.zeros(loads.size, dtype=np.int64)
        found = predict(deployment, [case], case=rows, concurrency=loads, evidence=evidence)
        return decided(found.speedups, policy.objective)

    def point(concurrency: int, value: float) -> MeasuredPoint:
        found = Estimate(np.array([value]), np.array([PROBE_LOG_SD]))
        conditions = traffic.conditions
        return MeasuredPoint(
            concurrency=float(concurrency),
            input_tokens=conditions.input_tokens,
            output_tokens=conditions.output_tokens,
            temperature=conditions.temperature,
            end_to_end=found,
            tpot=found,
            baseline_ms=None,
        )

    def plan(seen: Mapping[int, float | None]) -> int | None:
        points = tuple(point(c, value) for c, value in seen.items() if value is not None)
        unknown = [c for c, value in seen.items() if value is None]
        if unknown:
            expected = curve(points, np.array(unknown, dtype=np.int64))
            points += tuple(point(c, float(expected.value[i])) for i, c in enumerate(unknown))
        estimate = curve(points, grid)
        doubts: dict[int, float] = {}
        for b, value, log_sd in zip(grid.tolist(), estimate.value, estimate.log_sd, strict=True):
            p = probability_of(float(value), float(log_sd), min_speedup=policy.min_speedup)
            if b not in seen:
                doubts[b] = min(p, 1.0 - p)
        best = max(doubts, key=lambda b: doubts[b], default=None)
        return best if best is not None and doubts[best] > 1.0 - policy.confidence else None

    return plan
