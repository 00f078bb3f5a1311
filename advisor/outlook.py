"""What around the chosen case: up to which concurrency it pays, whether k should follow the batch size, and what
decides?

All of it is asked of the models in one more table: the chosen case at many concurrencies, its other k at some, and one
row for each what-if.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from advisor.candidates import LARGEST_K
from advisor.choice import Choice, decided
from advisor.correction import predict
from advisor.crossover import Crossover, curve_grid, find_crossover, fine_grid
from advisor.evidence import Evidence
from advisor.predictions import Case
from advisor.reasons import all_accepted, tell, what_ifs
from advisor.recommendation import CurvePoint, Reason
from advisor.request import PolicySpec
from advisor.schedule import batch_size_schedule
from models.step_cost import read_constants
from profiler.deployment import Deployment


@dataclass(frozen=True, slots=True)
class Outlook:
    """What surrounds the verdict."""

    curve: list[CurvePoint]
    crossover: Crossover
    schedule: list[tuple[int, int, int]] | None  # whether or not the engine has the option
    reasons: list[Reason]


def look_around(
    deployment: Deployment,
    best: Choice,
    *,
    concurrency: int,
    evidence: Evidence | None,
    policy: PolicySpec,
    blocked: str | None,
) -> Outlook:
    """Predict the surroundings of the chosen case; one that is blocked pays nowhere."""
    case = best.case
    limit = min(case.limit, case.limit_without)
    # The curve goes on to what the baseline holds; the ranges must agree with it as far as both arms run.
    shown = curve_grid(limit=case.limit_without, asked=concurrency)
    told = curve_grid(limit=limit, asked=min(concurrency, limit))
    fine = np.array(sorted({*fine_grid(limit=limit).tolist(), *told, *shown}), dtype=np.int64)
    runs = fine <= limit
    # No schedule rests on batch sizes that nobody has measured; the engine carries its last tier on.
    most = min(limit, max(read_constants().measured.concurrency, concurrency))
    sizes = np.array([b for b in shown if b <= most], dtype=np.int64)
    context = deployment.max_model_len or deployment.target.max_position_embeddings
    changes = list(what_ifs(case, concurrency=concurrency, context=context))
    named = len(case.candidate.ks) == 1
    ks = [k for k in (*case.candidate.ks, 0) if k <= LARGEST_K] if not named else [*range(case.k, -1, -1)]

    cases: list[Case] = [case, *(replace(case, k=k) for k in ks), *(change.case for change in changes)]
    rows = np.concatenate(
        [
            np.zeros(fine.size, dtype=np.int64),
            np.repeat(np.arange(1, 1 + len(ks)), sizes.size),
            np.arange(1 + len(ks), len(cases)),
        ]
    )
    concurrencies = np.concatenate(
        [fine, np.tile(sizes, len(ks)), np.array([change.concurrency for change in changes], dtype=np.int64)]
    )
    predictions = predict(deployment, cases, case=rows, concurrency=concurrencies, evidence=evidence)
    estimate = decided(predictions.speedups, policy.objective)

    pays = estimate.value[: fine.size] >= (
        math.inf if blocked is not None else policy.min_speedup
    )  # just where the probability is at least 0.5
    first = fine.size + len(ks) * sizes.size
    present = float(decided(best.predictions.speedups, policy.objective).value[best.row])
    most = float(decided(all_accepted(best.predictions, best.row), policy.objective).value[0])
    return Outlook(
        curve=Choice(predictions, 0).curve(shown),
        crossover=find_crossover(concurrency=fine[runs], pays=pays[runs]),
        schedule=batch_size_schedule(
            batch_size=sizes,
            speedup=estimate.value[fine.size : first].reshape(len(ks), sizes.size),
            k=ks,
            fixed_k=case.k,
            asked=concurrency,
        ),
        reasons=tell(
            best.predictions,
            best.row,
            changes,
            speedups=estimate.value[first:].tolist(),
            present=present,
            most=most,
            pays_from=policy.min_speedup if blocked is None else math.inf,
            blocked=blocked,
        ),
    )
