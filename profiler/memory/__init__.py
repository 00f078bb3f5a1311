"""How is a GPU's memory shared out, and how many sequences does the KV cache hold? (see `plan`)."""

from profiler.memory.plan import MemoryPlan, plan_memory

__all__ = ["MemoryPlan", "plan_memory"]
