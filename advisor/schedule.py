"""Should the number of draft tokens change with the batch size?

vLLM's num_speculative_tokens_per_batch_size is a list of [first, last, k]. It is told only where a k that changes beats
the fixed one by more than predictions can tell apart, somewhere among the batch sizes that the deployment can reach.
A tier with k = 0 is a candidate like any other: it is not free, since the drafter stays loaded and the engine stays on
the speculative path (7 to 22 %, vllm-project/vllm#49986; the step-cost model prices it).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from advisor.candidates import Candidate
from advisor.recommendation import Warned
from models.estimate import Floats
from profiler.compatibility import model_runner, supports_option
from profiler.deployment import Deployment

Schedule = list[tuple[int, int, int]]

# Held-out predictions are 5 % off on average where the traffic is new (models/artifacts/step_cost.md): less is no
# reason.
WORTH_SWITCHING = 1.05


def batch_size_schedule(
    *, batch_size: NDArray[np.int64], speedup: Floats, k: Sequence[int], fixed_k: int, asked: int | None = None
) -> Schedule | None:
    """Tiers [first, last, k] over 1 to the last batch size, or None where the fixed k is as good.

    batch_size (B,): rising, from 1. speedup (K, B): of each k in `k` (0 may be one) at each batch size. asked: the
    batch size that the verdict is of; its tier has the verdict's k, so that what is served is what was predicted.
    Elsewhere tiers leave the fixed k, and each other, only where the new k wins by `WORTH_SWITCHING`, so that noise
    makes no tiers; and a larger batch never gets more draft tokens than a smaller one: where the model says so, beyond
    the CUDA graphs, its error is at its largest.
    """
    names, sizes, tokens = list(k), batch_size.tolist(), np.array(k)
    fixed = present = names.index(fixed_k)
    tiers: list[list[int]] = []
    for column, size in enumerate(sizes):
        allowed = (tokens >= fixed_k) if asked is not None and size < asked else np.ones(tokens.size, dtype=np.bool_)
        if tiers:
            allowed &= tokens <= tiers[-1][2]
        here = np.where(allowed, speedup[:, column], -np.inf)
        best = int(np.argmax(here))
        if size == asked:
            present = fixed
        elif tiers and size == sizes[-1]:
            pass  # a tier of the very largest batch alone decides nothing
        elif allowed[fixed] and here[best] < here[fixed] * WORTH_SWITCHING:
            present = fixed
        elif here[best] >= here[present] * WORTH_SWITCHING:
            present = best
        if not tiers or tiers[-1][2] != names[present]:
            tiers.append([size, size, names[present]])
        tiers[-1][1] = size
    for earlier, later in pairwise(tiers):
        earlier[1] = later[0] - 1  # batch sizes between two columns stay with the earlier tier
    if {tier[2] for tier in tiers} == {fixed_k}:
        return None
    return [(first, last, k) for first, last, k in tiers]


def resolve_schedule(
    schedule: Schedule | None, deployment: Deployment, candidate: Candidate, *, fixed_k: int
) -> tuple[Schedule | None, tuple[Warned, ...]]:
    """The schedule where the engine version has the option, and what to know of it there.

    fixed_k: the verdict's. An engine that always drafts the largest k gets no tier above it, since such a tier would
    slow down the batch size that the verdict is of.
    """
    version = deployment.engine_version
    if schedule is None or supports_option("num_speculative_tokens_per_batch_size", version) is not True:
        return None, ()
    if model_runner(deployment.target, candidate.method, version) == 1:
        return schedule, ()
    # By 0.26.0's source: the scheduler trims what is verified; v1/worker/gpu never reads num_spec_tokens_to_schedule.
    schedule = _at_most(schedule, fixed_k)
    if len(schedule) == 1:
        return None, ()
    text = (
        f"vLLM {version} serves this target with its second model runner: it verifies as many tokens as the schedule "
        "says, but still drafts the largest k (vllm-project/vllm#51510), so large batches gain a little less than a "
        "fixed small k would give"
    )
    return schedule, (Warned(code="schedule_drafts_largest_k", text=text),)


def _at_most(schedule: Schedule, most: int) -> Schedule:
    """The schedule with every k above `most` cut to it, and tiers that are then alike joined."""
    tiers: Schedule = []
    for first, last, tokens in schedule:
        cut = min(tokens, most)
        if tiers and tiers[-1][2] == cut:
            tiers[-1] = (tiers[-1][0], last, cut)
        else:
            tiers.append((first, last, cut))
    return tiers
