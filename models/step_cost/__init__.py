"""What a decode step costs, without speculation and with it: a roofline with fitted overheads."""

from models.step_cost.closed_loop import Latencies, PassCosts, closed_loop
from models.step_cost.constants import read_constants
from models.step_cost.coverage import GAPS, Measured, coverage_gaps, gap_names
from models.step_cost.inputs import BASELINE, StepCostInputs, step_cost_inputs, step_cost_table
from models.step_cost.model import StepCostEstimate, StepCostModel

__all__ = [
    "BASELINE",
    "GAPS",
    "Latencies",
    "Measured",
    "PassCosts",
    "StepCostEstimate",
    "StepCostInputs",
    "StepCostModel",
    "closed_loop",
    "coverage_gaps",
    "gap_names",
    "read_constants",
    "step_cost_inputs",
    "step_cost_table",
]
