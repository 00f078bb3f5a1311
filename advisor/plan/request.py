"""What is asked of a capacity plan: demand by class of requests, an SLO, GPU types with prices, and what is served.

Fields that a recommendation has, too, are those of `advisor.request`. Demand is a rate for each class, or a curve of
hours as CSV text (`advisor.plan.curve` reads it); over HTTP as on the command line nothing is taken for a path.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from advisor.features import WorkloadFeatures
from advisor.fields import Closed, number, refuse, shown, whole
from advisor.request import DeploymentSpec, EvidenceSpec, GpuField, Prompts, check_evidence
from models.structure import STRUCTURES

ClassName = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.-]{0,59}$")]
Rate = Annotated[float, number(0, 1_000_000)]
Latency = Annotated[float, number(0, 3_600_000, above=True)]
_MOST_CLASSES, _MOST_GPUS = 8, 8


def _known_structure(value: object) -> object:
    """Shares of the kinds of work that acceptance is known for."""
    if not isinstance(value, dict):
        return value
    from rapidfuzz import process

    for name in value:
        if name not in STRUCTURES:
            nearest = process.extractOne(str(name), STRUCTURES, score_cutoff=50)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            what = f"expected kinds of {', '.join(STRUCTURES)}, got {shown(name)}{hint}"
            raise PydanticCustomError("unknown_structure", "{what}", {"what": what})
    return value


class ClassSpec(Closed):
    """Requests of one kind: by prompts, or by what is known of them."""

    prompts: Prompts | None = Field(
        default=None, description="A sample of them; what else is not given is read from it"
    )
    features: WorkloadFeatures | None = Field(default=None, description="What POST /v1/workloads says of a sample")
    structure: Annotated[dict[str, Annotated[float, number(0, 1000)]], BeforeValidator(_known_structure)] | None = (
        Field(
            default=None, description="Without prompts: shares of code, json, sql, math, chat, ...; left out, all alike"
        )
    )
    input_tokens: Annotated[float, number(1, 20_000_000)] | None = Field(default=None, description="Mean of a prompt")
    input_tokens_p95: Annotated[float, number(1, 20_000_000)] | None = Field(
        default=None, description="95 % of the prompts are shorter; left out, all are as long as the mean"
    )
    output_tokens: Annotated[float, number(1, 2_000_000)] | None = Field(default=None, description="Mean of an answer")
    temperature: Annotated[float, number(0, 2)] | None = None
    cached_prefix_share: Annotated[float, number(0, 1)] | None = None
    overlap: Annotated[float, number(0, 1)] | None = Field(
        default=None, description="Share of an answer that stands in the prompt or earlier in itself"
    )
    evidence: EvidenceSpec | None = Field(
        default=None, description="What was counted or profiled of such requests; lengths left out are the profile's"
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        given = [name for name in ("prompts", "features", "structure") if getattr(self, name) is not None]
        if len(given) > 1:
            raise refuse(f"expected prompts, features or structure, got {' and '.join(given)}", given[1])
        if self.prompts is not None or self.features is not None:
            for name in ("input_tokens_p95", "overlap"):
                if getattr(self, name) is not None:
                    raise refuse(f"expected no {name} beside {given[0]}, which tell it; got both", name)
            return self
        profiled = self.evidence is not None and self.evidence.drafts is None
        for name in ("input_tokens", "output_tokens"):
            if getattr(self, name) is None and not profiled:
                raise refuse(f"expected {name}, or prompts; got neither", name)
        if self.structure is not None and sum(self.structure.values()) <= 0:
            raise refuse("expected at least one share above 0, got none", "structure", got=self.structure)
        return self


class DemandSpec(Closed):
    """How many requests come."""

    requests_per_s: dict[ClassName, Rate] | None = Field(default=None, description="By class, all day alike")
    csv: Annotated[str, StringConstraints(max_length=2**20)] | None = Field(
        default=None, description="A column hour (0, 1, ... over whole days) and one of requests per second a class"
    )
    growth: Annotated[float, number(0, 1000, above=True)] = Field(
        default=1.0, description="Factor on all of it: 1.3 plans for 30 % more"
    )
    peak_to_mean: Annotated[float, number(1, 20)] = Field(
        default=1.0, description="Busiest minutes of an hour over its mean: replicas are for the busiest"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        given = [name for name in ("requests_per_s", "csv") if getattr(self, name) is not None]
        if len(given) != 1:
            raise refuse(f"expected requests_per_s or csv, got {' and '.join(given) or 'neither'}", "requests_per_s")
        rates = self.requests_per_s
        if rates is not None and not any(rates.values()):
            raise refuse(
                "expected requests of at least one class, got none: there is nothing to plan", "requests_per_s"
            )
        return self


class SloSpec(Closed):
    """What 95 % of the requests of every class must keep, in every hour."""

    ttft_p95_ms: Latency | None = Field(default=None, description="Time to first token")
    tpot_p95_ms: Latency | None = Field(default=None, description="Time per output token after the first")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.ttft_p95_ms is None and self.tpot_p95_ms is None:
            raise refuse("expected ttft_p95_ms, tpot_p95_ms or both; got neither", "ttft_p95_ms")
        return self


class GpuPriceSpec(Closed):
    """One type of GPU that could be had."""

    gpu: GpuField
    price_per_hour: Annotated[float, number(0, 1_000_000, above=True)] = Field(description="Of one GPU, any currency")
    tensor_parallel_size: Annotated[int, whole(1, 64)] | None = Field(
        default=None, description="GPUs of one replica; the deployment's where left out"
    )


def _no_gpu(value: object) -> object:
    if value is not None:
        what = f"expected GPU types in gpus, each with its price; got {shown(value)} here"
        raise PydanticCustomError("gpu_in_plan", "{what}", {"what": what})
    return value


class ServedSpec(DeploymentSpec):
    """What is served and how; on what is asked for each GPU type."""

    gpu: Annotated[Any, BeforeValidator(_no_gpu)] = None


class PlanPolicy(Closed):
    """When speculation counts as worth it."""

    min_saving: Annotated[float, number(0, 0.9)] = Field(
        default=0.05, description="Share of the cost that it must save to be worth its trouble"
    )
    confidence: Annotated[float, number(0.5, 0.9999)] = Field(
        default=0.8, description="Below this probability the plan is not decisive"
    )
    min_replicas: Annotated[int, whole(1, 10_000)] = Field(default=1, description="In every hour, whatever comes")


class PlanRequest(Closed):
    """How many replicas on which GPU, with speculation and without, and what do they cost?"""

    classes: dict[ClassName, ClassSpec] = Field(min_length=1, max_length=_MOST_CLASSES)
    demand: DemandSpec
    slo: SloSpec
    gpus: list[GpuPriceSpec] = Field(min_length=1, max_length=_MOST_GPUS)
    deployment: ServedSpec
    policy: PlanPolicy = PlanPolicy()

    @model_validator(mode="after")
    def _evidence_is_of_something(self) -> Self:
        for name, spec in self.classes.items():
            if spec.evidence is not None:
                check_evidence(spec.evidence, self.deployment.speculation, at=("classes", name, "evidence"))
        return self

    @model_validator(mode="after")
    def _classes_agree(self) -> Self:
        rates = self.demand.requests_per_s
        if rates is None:
            return self
        for name in rates:
            if name not in self.classes:
                known = ", ".join(self.classes)
                raise refuse(f"expected rates of the classes {known}; got {name!r}", "demand", "requests_per_s")
        missing = [name for name in self.classes if name not in rates]
        if missing:
            raise refuse(f"expected a rate for each class; got none for {missing[0]!r}", "demand", "requests_per_s")
        return self
