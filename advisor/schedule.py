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

# The roofline's speedups are within 4 % on average of those measured on an H200: less than that is no reason to switch.
WORTH_SWITCHING = 1.04


def batch_size_schedule(
    *, batch_size: NDArray[np.int64], speedup: Floats, k: Sequence[int], fixed_k: int
) -> Schedule | None:
    """Tiers [first, last, k] over 1 to the last batch size, or None where the fixed k is as good.

    batch_size (B,): rising, from 1. speedup (K, B): of each k in `k` (0 may be one) at each batch size.
    Tiers switch only where the new k beats the present one by `WORTH_SWITCHING`, so that noise makes no tiers.
    """
    options, names = speedup, list(k)
    fixed = names.index(fixed_k)
    best = int(np.argmax(options[:, 0]))
    present = fixed if options[best, 0] < options[fixed, 0] * WORTH_SWITCHING else best
    tiers: list[list[int]] = [[1, 1, names[present]]]
    for column in range(batch_size.shape[0]):
        best = int(np.argmax(options[:, column]))
        is_last = 0 < column == batch_size.shape[0] - 1  # a tier of the very largest batch alone decides nothing
        if best != present and not is_last and options[best, column] >= options[present, column] * WORTH_SWITCHING:
            present = best
            tiers.append([int(batch_size[column]), 0, names[present]])
        tiers[-1][1] = int(batch_size[column])
    for earlier, later in pairwise(tiers):
        earlier[1] = later[0] - 1  # batch sizes between two columns stay with the earlier tier
    if {tier[2] for tier in tiers} == {fixed_k}:
        return None
    return [(first, last, tokens) for first, last, tokens in tiers]


def resolve_schedule(
    schedule: Schedule | None, deployment: Deployment, candidate: Candidate
) -> tuple[Schedule | None, tuple[Warned, ...]]:
    """The schedule where the engine version has the option, and what to know of it there."""
    version = deployment.engine_version
    if schedule is None or supports_option("num_speculative_tokens_per_batch_size", version) is not True:
        return None, ()
    if model_runner(deployment.target, candidate.method, version) == 1:
        return schedule, ()
    # By 0.26.0's source: the scheduler trims what is verified; v1/worker/gpu never reads num_spec_tokens_to_schedule.
    text = (
        f"vLLM {version} serves this target with its second model runner: it verifies as many tokens as the schedule "
        "says, but still drafts the largest k (vllm-project/vllm#51510), so large batches gain a little less than a "
        "fixed small k would give"
    )
    return schedule, (Warned(code="schedule_drafts_largest_k", text=text),)
