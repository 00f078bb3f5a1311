"""What a plan says: for each GPU type and each arm replicas, utilisation and cost, hour by hour and in total.

Counts and costs come as pessimistic, expected and optimistic: what is needed where times are at the slow end of their
90 % interval, at their middle, and at the fast end. null stands for "no number of replicas does".
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from advisor.recommendation import Interval, Told, Warned
from profiler.deployment import Method

PlanVerdict = Literal["speculate", "do not speculate", "impossible"]


class Span(Told):
    """A number in the three cases; null: it cannot be."""

    pessimistic: float | None
    expected: float | None
    optimistic: float | None


class HourPlan(Told):
    """One hour of one arm."""

    hour: int
    requests_per_s: float = Field(description="The mean of the hour, growth included")
    replicas: Span
    cost: Span
    utilisation: float | None = Field(description="Demand over what the replicas complete at most, SLO or not")
    headroom: float | None = Field(
        description="How much more may come before the SLO breaks, as a share; expected case"
    )
    ttft_p95_ms: float | None = Field(description="Of the class that is worst off")
    tpot_p95_ms: float | None
    concurrency: float | None = Field(description="Requests in each replica, on average")


class ArmPlan(Told):
    """Serving without speculation, or with the best way of speculating."""

    method: Method | None = Field(description="null: without speculation")
    draft: str | None
    num_speculative_tokens: int | None
    schedule: list[tuple[int, int, int]] | None = Field(description="k by batch size, where that beats a fixed k")
    speculative_config: dict[str, Any] | None = Field(description="What vLLM is given")
    covered: bool = Field(description="Measurements cover this GPU, engine and method")
    gaps: list[str] = Field(description="What no measurement covers")
    max_concurrency: int = Field(description="Requests that run at once: KV cache or max_num_seqs")
    requests_per_s_of_replica: Span = Field(description="What one replica takes within the SLO, in the busiest hour")
    saturated_requests_per_s: float = Field(description="What one completes at most, SLO or not")
    bound_by: Literal["ttft", "tpot", "throughput"] = Field(description="What breaks first as more comes")
    least_ttft_p95_ms: float = Field(description="With a replica for each request: no number of replicas is below")
    least_tpot_p95_ms: float
    peak_replicas: Span
    replica_hours: Span
    cost: Span = Field(description="Of the whole curve, replicas following it hour by hour")
    cost_at_peak: Span = Field(description="Of the whole curve with the busiest hour's replicas in every hour")
    hours: list[HourPlan]


class GpuPlan(Told):
    """One GPU type."""

    gpu: str
    gpus_per_replica: int
    price_per_hour: float = Field(description="Of one GPU")
    verdict: PlanVerdict
    decisive: bool
    probability: float | None = Field(description="That speculation saves what the policy asks for")
    saving: Interval | None = Field(description="Share of the cost that speculation saves, replicas taken as divisible")
    acceptance_length: Interval | None = Field(description="Expected, over all classes")
    break_even_acceptance_length: float | None = Field(
        description="From which speculation serves as much with a replica; null: not even if all were accepted"
    )
    break_even_concurrency: Span | None = Field(
        description="Requests at once in a replica up to which speculation has more throughput; null: at none"
    )
    probed_concurrency: list[float] = Field(
        description="Loads at which profiles timed this GPU type; times and speedups are corrected by them"
    )
    without: ArmPlan | None
    speculative: ArmPlan | None
    text: str


class Cheapest(Told):
    """What costs least."""

    gpu: str
    speculation: bool
    cost: Span


class DemandHour(Told):
    """What comes in one hour, growth included."""

    hour: int
    requests_per_s: dict[str, float]


class Slo(Told):
    """What is kept."""

    ttft_p95_ms: float | None
    tpot_p95_ms: float | None


class ClassSummary(Told):
    """One class as it was taken."""

    input_tokens: float
    output_tokens: float
    temperature: float
    cached_prefix_share: float
    overlap: float
    acceptance: Literal["measured", "predicted"] = Field(description="What its acceptance rests on")


class CapacityPlan(Told):
    """The whole answer."""

    id: str
    target: str
    decisive: bool
    text: str
    cheapest: Cheapest
    slo: Slo
    growth: float
    peak_to_mean: float
    demand: list[DemandHour]
    classes: dict[str, ClassSummary]
    gpus: list[GpuPlan]
    estimated: list[str]
    warnings: list[Warned]
    level: float = Field(description="Of the intervals between pessimistic and optimistic")
    model_version: str
