"""Do memory plans agree with what engines logged? The KV cache of every measured engine, planned and logged.

The planned drafter is the published one; a head that shared the target's output layer logged less by its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from profiler.measurements.deployment import Shapes, measured_deployment
from profiler.measurements.table import Row
from profiler.memory import MemoryPlan, plan_memory


@dataclass(frozen=True, slots=True)
class MemoryComparison:
    """One engine's cache; `logged` is its row of engines.csv."""

    logged: Row
    plan: MemoryPlan

    @property
    def gap(self) -> float:
        """Planned / logged tokens of the cache, - 1."""
        return float(self.plan.kv_tokens / self.logged["kv_cache_tokens"] - 1)

    @property
    def term_gaps_bytes(self) -> dict[str, int]:
        """Planned less logged bytes by term: what the cache's gap is made of."""
        planned, logged = self.plan, self.logged
        return {
            "weights": planned.weight_bytes + planned.drafter_weight_bytes - logged["weight_bytes"],
            "activation": planned.activation_bytes - logged["activation_bytes"],
            "non_torch": planned.non_torch_bytes - logged["non_torch_bytes"],
            "graphs": planned.graph_bytes - (logged["estimated_graph_bytes"] or 0),
        }


def compare_memory(engines: Iterable[Row], shapes: Shapes) -> list[MemoryComparison]:
    """Plans for every engine that logged its cache."""
    found = []
    for engine in engines:
        if not engine["kv_cache_tokens"] or "num_gpu_blocks_override" in (engine["arguments"] or {}):
            continue  # an override is no plan
        published = engine | {"drafter_lm_head": "own"} if engine["drafter_lm_head"] else engine
        deployment, speculation = measured_deployment(published, shapes)
        gpu = replace(deployment.gpu, memory_bytes=engine["total_bytes"])
        plan = plan_memory(replace(deployment, gpu=gpu), speculation, request_tokens=1024.0)
        found.append(MemoryComparison(engine, plan))
    return found
