"""How many requests run at once?

As given, or by Little's law from a request rate, at which the server without speculation completes as many requests as
arrive; a rate beyond what it can complete saturates it, and that is said. Where nothing is given a middle concurrency
is assumed, and the verdict then counts as decisive only where it holds for all concurrencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.crossover import fine_grid
from advisor.predictions import Conditions, step_cost_model
from advisor.recommendation import Warned
from advisor.request import TrafficSpec
from advisor.speedup import concurrency_at_rate
from models.step_cost import closed_loop, step_cost_inputs
from profiler.deployment import Deployment

ASSUMED_CONCURRENCY = 16  # no knowledge, but the middle of the range (1 to 256) in which verdicts turn


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that run at once."""

    concurrency: int
    assumed: bool = False
    estimated: tuple[str, ...] = ()
    warnings: tuple[Warned, ...] = ()


def resolve_load(
    spec: TrafficSpec, *, deployment: Deployment, conditions: Conditions, limit: int, time_factor: float = 1.0
) -> Load:
    """The concurrency.

    limit: sequences that the deployment runs at once without speculation. time_factor: a request's measured time over
    its predicted one, where a profile tells it.
    """
    if spec.concurrency is not None:
        return Load(spec.concurrency)
    if spec.request_rate is None:
        assumed = min(ASSUMED_CONCURRENCY, limit)
        text = (
            "neither concurrency nor request_rate is given: "
            + (f"{assumed} requests at once are" if assumed > 1 else "a single request at a time is")
            + " assumed; see the curve, and give one of them"
        )
        estimated = f"concurrency: {assumed} assumed, since prompts do not tell it"
        return Load(assumed, True, (estimated,), (Warned(code="concurrency_assumed", text=text),))
    grid = fine_grid(limit=limit).astype(np.float64)
    cost = step_cost_model().predict(
        step_cost_inputs(
            deployment,
            None,
            concurrency=grid,
            context_tokens=conditions.context_tokens,
            prefill_tokens=conditions.input_tokens - conditions.cached_tokens,
            cached_tokens=conditions.cached_tokens,
        )
    )
    loop = closed_loop(
        cost.without,
        tokens_per_step=np.ones_like(grid),
        output_tokens=np.full_like(grid, conditions.output_tokens),
    )
    times = time_factor * loop.end_to_end_ms
    solved, saturated = concurrency_at_rate(request_rate=spec.request_rate, concurrency=grid, request_time_ms=times)
    estimated = f"concurrency: {solved:.1f} by Little's law from {spec.request_rate:g} requests/s, without speculation"
    warnings: tuple[Warned, ...] = ()
    if saturated:
        most = float(np.max(1000.0 * grid / times))
        text = (
            f"{spec.request_rate:g} requests/s arrive, but this deployment completes at most {most:.2g} without "
            "speculation: it is saturated, the queue grows without bound, and the verdict is that of "
            + (f"{limit:,} running requests" if limit > 1 else "one running request")
        )
        warnings = (Warned(code="saturated", text=text),)
    return Load(max(1, round(solved)), False, (estimated,), warnings)
