"""Replicas that tests and benchmarks/plan_queue.py compare: Llama-3.1-8B on an H200, several kinds of traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.plan.passes import Classes, Replica
from models.step_cost import StepCostModel, step_cost_inputs
from profiler.architecture import read_architecture
from profiler.catalog import find_gpu
from profiler.deployment import Deployment, Speculation
from tests.advisor.deployments import EAGLE3, LLAMA_8B
from tests.advisor.plan.simulated import Drafting

BUDGET_TOKENS = 8192.0  # vLLM's max_num_batched_tokens on such a GPU
NONE = Drafting()
EAGLE = Drafting((0.7, 0.5, 0.3), 1.0, 0.22)
PROSE = Drafting((0.5, 0.3, 0.1), 1.0, 0.22)
EQUAL = (1.0,)
WIDE = (0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.6, 1.6)  # lengths of prompts over their mean


@dataclass(frozen=True)
class Traffic:
    """Classes by their share, mean prompt, answer and acceptance; how unequal prompts are; slots."""

    share: tuple[float, ...]
    prompt: tuple[float, ...]
    answer: tuple[float, ...]
    drafting: tuple[Drafting, ...]
    sizes: tuple[float, ...] = EQUAL
    slots: int = 256


CASES = {
    "chat": Traffic((1.0,), (500,), (250,), (NONE,)),
    "chat, prompts unequal": Traffic((1.0,), (500,), (250,), (NONE,), WIDE),
    "chat, EAGLE-3": Traffic((1.0,), (500,), (250,), (EAGLE,)),
    "short": Traffic((1.0,), (200,), (20,), (NONE,)),
    "documents": Traffic((1.0,), (4000,), (150,), (NONE,), WIDE),
    "long documents": Traffic((1.0,), (12000,), (150,), (NONE,), EQUAL, 64),
    "chat and documents, EAGLE-3": Traffic((0.7, 0.3), (400, 3000), (300, 80), (EAGLE, PROSE), WIDE),
    "chat, 16 slots": Traffic((1.0,), (500,), (250,), (NONE,), EQUAL, 16),
}


def replica(traffic: Traffic) -> tuple[Replica, float]:
    """The replica, and how many chunks of its mean prompt a pass may take."""
    deployment = Deployment(read_architecture(LLAMA_8B, name="llama-8b"), find_gpu("H200"))
    drafts = traffic.drafting[0].survival
    speculation = Speculation("eagle3", len(drafts), read_architecture(EAGLE3, name="head")) if drafts else None
    share, prompt, answer = (np.array(values) for values in (traffic.share, traffic.prompt, traffic.answer))
    grid = np.unique(np.round(np.geomspace(1, traffic.slots, 18)))
    tau = np.array([1.0 + one.gain for one in traffic.drafting])
    stays = share * (answer - 1.0) / tau
    mean = float(share @ prompt)
    cost = StepCostModel.from_artefact().predict(
        step_cost_inputs(
            deployment, speculation, concurrency=grid, prefill_tokens=mean,
            context_tokens=float(stays @ (prompt + answer / 2.0) / stays.sum()),
        )
    )  # fmt: skip
    arm = cost.without if speculation is None else cost.speculative
    rows = (grid.size, 1)
    classes = Classes(
        share=share,
        tokens_left=answer - 1.0,
        tokens_per_step=np.tile(tau, rows),
        step_variance=np.tile([one.variance for one in traffic.drafting], rows),
        gain_log_sd=np.tile([one.log_sd * one.gain / (1.0 + one.gain) for one in traffic.drafting], rows),
        prompt_size=np.array([[size * one / mean for size in traffic.sizes] for one in prompt]),
        life_cv2=np.array([float(share @ (answer / tau) ** 2) / float(share @ (answer / tau)) ** 2 - 1.0]),
    )
    found = Replica(
        grid, arm.pass_ms, arm.prefill_chunks, float(arm.joining_passes[0]), float(arm.request_ms[0]), classes
    )
    return found, BUDGET_TOKENS / (mean / float(arm.prefill_chunks[0]))


def saturation(one: Replica) -> float:
    """Requests a second from which the queue grows without bound."""
    from advisor.plan.sizing import Objective, replica_capacity

    return replica_capacity(one, Objective(np.inf, np.inf)).saturated
