"""What must hold before speculation is rolled out? The rules of one policy, as a TOML file or a JSON object has them.

    objective = "end_to_end"           # what min_speedup and max_slower_share are of; or "tpot"
    confidence = 0.95                  # with which a rule must hold, or be broken

    [rules]
    min_speedup = 1.10                 # with speculation over without
    max_ttft_p95_regression = 0.10     # p95 of the time to first token may grow by 10 %
    max_tpot_p95_regression = 0.00     # p95 of the time per output token may not grow
    min_kv_headroom = 0.10             # share of the KV cache that stays free
    max_slower_share = 0.20            # of the requests may be slower than without
    max_age = "14d"                    # of the evidence
    methods = ["eagle3", "ngram"]      # that may be rolled out

A rule left out is not judged. Refused, with their place: unknown rules (the nearest known one is named), values out of
bounds, and a policy that contradicts itself or says nothing.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from advisor.fields import Closed, number, refuse, shown, whole
from advisor.request import KnownMethod, Objective

DEFAULT_CONFIDENCE = 0.95
_UNITS_S = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_LONGEST_S = 3650 * 86_400.0


def _age(value: object) -> object:
    """A length of time as text ("36h", "14d") in seconds; its canonical text is kept."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([mhdw])", value.strip()) if isinstance(value, str) else None
    if found is None or not 60.0 <= float(found[1]) * _UNITS_S[found[2]] <= _LONGEST_S:
        what = f'expected a time from 1m to 3650d, such as "36h" or "14d", got {shown(value)}'
        raise PydanticCustomError("age", "{what}", {"what": what})
    return f"{found[1]}{found[2]}"


Age = Annotated[str, BeforeValidator(_age), Field(description="A number with m, h, d or w")]


def age_seconds(age: str) -> float:
    """Seconds of a policy's `max_age`."""
    return float(age[:-1]) * _UNITS_S[age[-1]]


class Rules(Closed):
    """What is judged; a rule left out is not."""

    min_speedup: Annotated[float, number(0.5, 20)] | None = Field(
        default=None, description="Least speedup, with speculation over without, by the policy's objective"
    )
    max_ttft_p95_regression: Annotated[float, number(0, 10)] | None = Field(
        default=None, description="Most that the p95 of the time to first token may grow: 0.1 is 10 %"
    )
    max_tpot_p95_regression: Annotated[float, number(0, 10)] | None = Field(
        default=None, description="Most that the p95 of the time per output token may grow"
    )
    min_kv_headroom: Annotated[float, number(0, 0.99)] | None = Field(
        default=None, description="Least share of the KV cache that stays free, with speculation"
    )
    max_slower_share: Annotated[float, number(0, 0.99, above=True)] | None = Field(
        default=None, description="Largest share of requests that are slower with speculation than without"
    )
    max_age: Age | None = Field(default=None, description="Of the evidence")
    methods: tuple[KnownMethod, ...] | None = Field(default=None, description="Methods that may be rolled out")

    @model_validator(mode="after")
    def _say_something(self) -> Self:
        if not self.stated:
            raise refuse(f"no rule is stated: expected one of {', '.join(type(self).model_fields)}, got none")
        if self.methods is not None:
            if not self.methods:
                raise refuse("no method is allowed, so nothing could ever pass", "methods", got=[])
            if len(set(self.methods)) < len(self.methods):
                raise refuse("a method stands twice", "methods", got=list(self.methods))
        return self

    @property
    def stated(self) -> tuple[str, ...]:
        """Names of the rules that are judged, in the order in which they are told."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)


class GatePolicy(Closed):
    """When may speculation be rolled out?"""

    objective: Objective | None = Field(
        default=None, description="What min_speedup and max_slower_share are of; end_to_end if left out"
    )
    confidence: Annotated[float, number(0.5, 0.9999)] | None = Field(
        default=None,
        description=f"With which a rule must hold to pass and be broken to fail; {DEFAULT_CONFIDENCE:g} if left out",
    )
    concurrency: Annotated[int, whole(1, 65_536)] | None = Field(
        default=None, description="Which of a profile's concurrencies, or of a recommendation's curve, is judged"
    )
    rules: Rules

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        rules = self.rules
        compared = rules.min_speedup is not None or rules.max_slower_share is not None
        estimated = compared or rules.max_ttft_p95_regression is not None or rules.max_tpot_p95_regression is not None
        if self.objective is not None and not compared:
            what = "an objective is stated, but neither min_speedup nor max_slower_share, which are what it is of"
            raise refuse(what, "objective", got=self.objective)
        if self.confidence is not None and not estimated:
            raise refuse("a confidence is stated, but no rule that is estimated", "confidence", got=self.confidence)
        gain, losers = rules.min_speedup, rules.max_slower_share
        if gain is not None and gain > 1.0 and losers is not None and losers >= 0.5:
            what = f"min_speedup {gain:g} asks for a gain, max_slower_share {losers:g} lets half of the requests lose"
            raise refuse(what, "rules", "max_slower_share", got=losers)
        return self

    @property
    def objective_judged(self) -> Objective:
        """The objective, stated or not."""
        return self.objective or "end_to_end"

    @property
    def confidence_asked(self) -> float:
        """The confidence, stated or not."""
        return DEFAULT_CONFIDENCE if self.confidence is None else self.confidence
