"""How many replicas does a demand need under an SLO, what do they cost, and what does speculation save of that?"""

from advisor.plan.answer import CapacityPlan
from advisor.plan.plan import plan_capacity
from advisor.plan.request import PlanRequest

__all__ = ["CapacityPlan", "PlanRequest", "plan_capacity"]
