"""How does the answer lie among its neighbours: the chosen candidate at other concurrencies and prompt lengths?

For whoever moves one thing after the other. The map is one more table of the chosen candidate with its k; everything
but concurrency and prompt length stays as it was asked. Its grid is the same for all questions, so that a map does not
jump when the asked point moves. Requests that do not fit the engine's context leave their cells empty; a request that
does always fits the KV cache, since vLLM starts only where one of the longest does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import Field

from advisor.advise import consider
from advisor.capacity import plan_capacity
from advisor.choice import decided
from advisor.correction import predict
from advisor.predictions import Case
from advisor.recommendation import Recommendation, Told
from advisor.request import RecommendationRequest

CONCURRENCIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # as far as has been measured
INPUT_TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


class SpeedupMap(Told):
    """Speedup of the policy's objective over concurrency and prompt length."""

    concurrency: list[int]
    input_tokens: list[int]
    speedup: list[list[float | None]] = Field(
        description="A row for each prompt length; null where such requests cannot be served"
    )
    holds: list[int | None] = Field(description="Requests of each length that run at once with speculation")


class Exploration(Told):
    """An answer and its surroundings."""

    recommendation: Recommendation
    map: SpeedupMap


def explore(request: RecommendationRequest) -> Exploration:
    """Answer one request, and look around. Raises InputError as `advise` does."""
    found = consider(request)
    case, deployment = found.best.case, found.deployment
    context = deployment.max_model_len or deployment.target.max_position_embeddings
    assert context is not None  # a deployment whose longest sequence is not known has no memory plan
    lengths = [n for n in INPUT_TOKENS if n < context]
    cases: list[Case] = []
    holds: list[int | None] = []
    for length in lengths:
        conditions = replace(case.conditions, input_tokens=float(length))
        if conditions.request_tokens > context:
            holds.append(None)
            continue
        capacity = plan_capacity(deployment, [case.candidate], conditions)
        limit = capacity.limit(case.candidate)
        holds.append(limit)
        cases.append(replace(case, conditions=conditions, limit=limit, limit_without=capacity.limit_without))
    speedup: list[list[float | None]] = [[None] * len(CONCURRENCIES) for _ in lengths]
    if cases:
        predictions = predict(
            deployment,
            cases,
            case=np.repeat(np.arange(len(cases)), len(CONCURRENCIES)),
            concurrency=np.tile(np.array(CONCURRENCIES, dtype=np.int64), len(cases)),
            evidence=found.evidence,
        )
        values = decided(predictions.speedups, request.policy.objective).value.reshape(len(cases), len(CONCURRENCIES))
        served = (row for row, held in enumerate(holds) if held is not None)
        for row, told in zip(served, values.round(4).tolist(), strict=True):
            speedup[row] = list(told)
    return Exploration(
        recommendation=found.answer,
        map=SpeedupMap(concurrency=list(CONCURRENCIES), input_tokens=lengths, speedup=speedup, holds=holds),
    )
