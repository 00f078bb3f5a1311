"""How many sequences does the deployment run at once, with each candidate and without?

What the KV cache holds at the workload's lengths, or max_num_seqs where that is less; the rest waits. A target that
does not fit, or whose cache holds not even one request, is an error; a drafter that does not fit is told and cannot be
chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from advisor.candidates import Candidate
from advisor.predictions import Conditions
from advisor.recommendation import Memory, Warned
from profiler.compatibility import batch_defaults
from profiler.deployment import Deployment
from profiler.errors import DeploymentError
from profiler.memory import MemoryPlan, plan_memory


@dataclass(frozen=True, slots=True)
class Capacity:
    """Memory plans, and what they admit."""

    without: MemoryPlan
    plans: Mapping[Candidate, MemoryPlan]
    misfits: Mapping[Candidate, str]  # why a drafter does not fit
    max_num_seqs: int

    @property
    def limit_without(self) -> int:
        """Sequences that run at once without speculation."""
        return self._admitted(self.without)

    def limit(self, candidate: Candidate) -> int:
        """Sequences that run at once with the candidate (without it, where it does not fit)."""
        return self._admitted(self.plans.get(candidate, self.without))

    def _admitted(self, plan: MemoryPlan) -> int:
        return max(1, min(self.max_num_seqs, int(plan.concurrency)))


def plan_capacity(deployment: Deployment, candidates: Iterable[Candidate], conditions: Conditions) -> Capacity:
    """Plan the memory of all; DeploymentError where the target itself cannot be served so."""
    tokens = conditions.request_tokens
    without = plan_memory(deployment, None, request_tokens=tokens)
    if without.concurrency < 1:
        raise DeploymentError(
            "The KV cache does not hold one request of this workload",
            expected=f"at most {without.kv_tokens:,} tokens of prompt and answer",
            got=f"{tokens:,.0f}",
            remedy="more or larger GPUs, a higher gpu_memory_utilization, or kv_cache_dtype fp8",
            field="traffic.input_tokens",
        )
    plans: dict[Candidate, MemoryPlan] = {}
    misfits: dict[Candidate, str] = {}
    for candidate in candidates:
        try:
            plan = plan_memory(deployment, candidate.speculation(max(candidate.ks)), request_tokens=tokens)
        except DeploymentError as error:
            misfits[candidate] = error.line()
            continue
        if plan.concurrency < 1:
            misfits[candidate] = f"its KV cache of {plan.kv_tokens:,} tokens does not hold one request of {tokens:,.0f}"
        else:
            plans[candidate] = plan
    most = deployment.max_num_seqs or batch_defaults(deployment.gpu, deployment.engine_version).max_num_seqs
    return Capacity(without, plans, misfits, most)


def inspect_load(
    concurrency: int, capacity: Capacity, candidate: Candidate, conditions: Conditions
) -> Iterator[Warned]:
    """Whether what is asked runs at once at all, and whether the drafter is what keeps it from that."""
    without, with_ = capacity.limit_without, capacity.limit(candidate)
    if concurrency > without:
        if capacity.without.concurrency < capacity.max_num_seqs:
            why = (
                f"the KV cache holds {capacity.without.concurrency:,.0f} requests of "
                f"{conditions.request_tokens:,.0f} tokens"
            )
        else:
            why = f"max_num_seqs admits {capacity.max_num_seqs:,}"
        yield Warned(
            code="concurrency_beyond_capacity",
            text=f"{concurrency:,} requests at once are asked for, but {why}: {without:,} run and the others wait, "
            "and the "
            "speedup is that of the running ones",
        )
    if with_ < min(concurrency, without):
        yield Warned(
            code="preemption",
            text=f"with {candidate.label} the KV cache holds {with_:,} requests instead of {without:,}: of "
            f"{concurrency:,} "
            "at once some wait or are preempted, which the predicted speedup includes",
        )


def describe_memory(capacity: Capacity, candidate: Candidate, *, deployment: Deployment, concurrency: int) -> Memory:
    """The plan of the answer, with the candidate and without."""
    without, plan = capacity.without, capacity.plans.get(candidate, capacity.without)
    return Memory(
        gpu_memory_utilization=deployment.gpu_memory_utilization,
        max_num_seqs=capacity.max_num_seqs,
        max_model_len=deployment.max_model_len or deployment.target.max_position_embeddings,
        requested_bytes=plan.requested_bytes,
        target_bytes=plan.weight_bytes,
        drafter_bytes=plan.drafter_weight_bytes,
        activation_bytes=plan.activation_bytes,
        graph_bytes=plan.graph_bytes,
        kv_bytes=plan.kv_bytes,
        kv_bytes_without=without.kv_bytes,
        kv_bytes_per_token=plan.kv_bytes_per_token,
        kv_bytes_per_token_without=without.kv_bytes_per_token,
        kv_tokens=plan.kv_tokens,
        kv_tokens_without=without.kv_tokens,
        concurrency=plan.concurrency,
        concurrency_without=without.concurrency,
        spare_bytes=plan.spare_kv_bytes(concurrency),
    )
