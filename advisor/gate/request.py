"""What is asked of the gate over HTTP: a policy, and one piece of evidence."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from advisor.fields import Closed, number, refuse
from advisor.gate.policy import GatePolicy
from advisor.recommendation import Recommendation
from advisor.request import GivenProfile, KnownMethod, Name

LONGEST_WINDOW_S = 600.0  # an HTTP request that lasts longer is cut by most of what lies between
StoredId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]


class CanarySpec(Closed):
    """Two live servers under the same traffic."""

    control: Name = Field(description="Address of a vLLM without speculation, such as http://127.0.0.1:8000")
    canary: Name = Field(description="Address of one with it")
    window_s: Annotated[float, number(0.05, LONGEST_WINDOW_S)] = Field(
        default=60.0, description="Longest that both are watched; the answer comes at the first look that decides"
    )
    every_s: Annotated[float, number(0.05, 60)] = Field(default=5.0, description="Between two looks")
    model: Name | None = Field(default=None, description="Which of several models that both serve")
    method: KnownMethod | None = Field(default=None, description="How the canary speculates: /metrics does not tell")


class GateRequest(Closed):
    """A policy and what it is judged on: exactly one of the others."""

    policy: GatePolicy
    recommendation: Recommendation | None = Field(default=None, description="As POST /v1/recommendations answered it")
    recommendation_id: StoredId | None = None
    profile: GivenProfile | None = Field(default=None, description="profile.json of `specworth profile`, whole")
    profile_id: StoredId | None = None
    canary: CanarySpec | None = None

    @model_validator(mode="after")
    def _one_evidence(self) -> Self:
        known = ("recommendation", "recommendation_id", "profile", "profile_id", "canary")
        given = [name for name in known if getattr(self, name) is not None]
        if len(given) != 1:
            raise refuse(f"expected one of {', '.join(known)}; got {' and '.join(given) or 'none'}", *given[1:2])
        return self
