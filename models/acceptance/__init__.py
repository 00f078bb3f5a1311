"""How many drafted tokens the target accepts: AL per position and the share of steps that draft."""

from models.acceptance.estimate import POSITIONS, AcceptanceEstimate, AcceptanceInputs
from models.acceptance.evidence import AcceptanceEvidence, acceptance_from_evidence
from models.acceptance.model import AcceptanceModel, length_from_conditionals

__all__ = [
    "POSITIONS",
    "AcceptanceEstimate",
    "AcceptanceEvidence",
    "AcceptanceInputs",
    "AcceptanceModel",
    "acceptance_from_evidence",
    "length_from_conditionals",
]
