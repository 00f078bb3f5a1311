"""What is answered: the verdict, what it rests on, and the vLLM configuration that realises it.

Every interval is a 90 % one; `probability` is P(speedup >= policy.min_speedup) of the
objective's speedup, and the verdict is "enable" exactly where it is at least 0.5.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from profiler.deployment import Method

Verdict = Literal["enable", "disable"]
Basis = Literal["predicted", "measured", "mixed"]
CrossoverReason = Literal["found", "none", "beyond_capacity"]

INTERVAL_LEVEL = 0.9  # of every interval that is shown


class Told(BaseModel):
    """A frozen part of the answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Interval(Told):
    """A predicted value and the bounds that hold it with 90 %."""

    value: float
    low: float
    high: float


class Speedup(Told):
    """With speculation over without, at equal concurrency and workload; above 1 is faster."""

    end_to_end: Interval = Field(description="Ratio of output tokens per second")
    tpot: Interval = Field(description="Ratio of the time per output token")
    level: float = Field(
        default=INTERVAL_LEVEL, description="Probability with which each interval holds the true value"
    )


class Acceptance(Told):
    """How many draft tokens survive."""

    length: Interval = Field(description="AL: tokens per step that drafted, 1 + accepted / drafts")
    tokens_per_step: Interval = Field(description="tau: tokens per decode step, all steps counted")
    per_position: list[float] = Field(
        description="Probability that draft token i is accepted, given that those before it were"
    )
    draft_share: float = Field(description="Share of decode steps in which a draft is made")
    by_structure: dict[str, Interval] = Field(
        default_factory=dict, description="AL of each kind of prompt alone, as predicted, where at least 1 % are of it"
    )
    basis: Literal["predicted", "measured"]


class CurvePoint(Told):
    """The speedup at one concurrency."""

    concurrency: int
    end_to_end: Interval
    tpot: Interval


class Configuration(Told):
    """What to give vLLM; no speculative config at all where the verdict is disable."""

    speculative_config: dict[str, Any] | None
    serve_arguments: list[str]
    schedule: list[tuple[int, int, int]] | None = Field(
        description="num_speculative_tokens_per_batch_size: first and last number of sequences, draft tokens"
    )


class Chosen(Told):
    """The candidate that the speedup, the acceptance, the curve and the reasons are of, whatever the verdict."""

    method: Method
    draft: str | None
    num_speculative_tokens: int


class Alternative(Told):
    """The best k of another method or drafter, and why it was not chosen; of all of them where none was."""

    method: Method
    draft: str | None
    num_speculative_tokens: int
    verdict: Verdict
    probability: float
    speedup: Speedup
    acceptance_length: float
    tokens_per_step: float
    drafter_bytes: int
    kv_tokens: int
    text: str


class WorkloadSummary(Told):
    """What the prompts ask for and how long they are."""

    prompts: int
    format: str
    structure: dict[str, float] = Field(description="Share of the prompts of each kind")
    input_tokens: float
    input_tokens_p95: float
    output_tokens: float
    overlap: float = Field(description="Expected share of the answer that stands in the prompt or earlier in itself")
    temperature: float
    concurrency: int
    cached_prefix_share: float
    languages: dict[str, float]
    skipped: dict[str, int] = Field(description="Records that gave no prompt, by reason")
    notes: list[str]
    estimated: list[str] = Field(description="Traffic fields that were not given but estimated, and how")


class Memory(Told):
    """vLLM's memory on each GPU, with speculation and without, in bytes and tokens."""

    gpu_memory_utilization: float = Field(
        description="As given, else vLLM's default for the version; the next two, too"
    )
    max_num_seqs: int
    max_model_len: int | None
    requested_bytes: int
    target_bytes: int
    drafter_bytes: int
    activation_bytes: int
    graph_bytes: int
    kv_bytes: int
    kv_bytes_without: int
    kv_bytes_per_token: int
    kv_bytes_per_token_without: int
    kv_tokens: int
    kv_tokens_without: int
    concurrency: int = Field(description="Sequences of this workload's length that the cache holds, with speculation")
    concurrency_without: int
    spare_bytes: int = Field(description="KV cache that this traffic leaves free, with speculation; negative: short of")


class Reason(Told):
    """One what-if: `effect` is the speedup it would give minus the present one."""

    factor: str
    effect: float
    text: str


class Warned(Told):
    """Something to know before acting on the answer."""

    code: str
    text: str


class Recommendation(Told):
    """The answer to one request."""

    id: str
    verdict: Verdict
    decisive: bool = Field(description="False: a probe is worth its time")
    probability: float = Field(description="P(speedup >= policy.min_speedup)")
    candidate: Chosen
    speedup: Speedup
    acceptance: Acceptance
    crossover_concurrency: int | None = Field(
        description="Largest concurrency, up to KV capacity or max_num_seqs, that still pays"
    )
    crossover_reason: CrossoverReason
    enable_ranges: list[tuple[int, int]]
    curve: list[CurvePoint]
    configuration: Configuration
    alternatives: list[Alternative]
    workload: WorkloadSummary
    memory: Memory
    reasons: list[Reason]
    warnings: list[Warned]
    basis: Basis
    model_version: str
