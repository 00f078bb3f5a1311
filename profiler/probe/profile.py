"""profile.json: what was measured, on what, how sure it is, and what was not measured and why.

Written by `specworth profile`, read by `specworth advise --profile` and accepted in the API's evidence. The schema is
versioned: a reader refuses another version instead of guessing. A profile whose session ended early says so in
`status` and `ended`; what it holds was measured all the same.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

SCHEMA_VERSION = 1

Arm = Literal["baseline", "speculative"]
Objective = Literal["end_to_end", "tpot"]
Count = Annotated[int, Strict(), Field(ge=0, le=10**15)]
Amount = Annotated[float, Strict(), Field(ge=0.0, le=1e18)]
Positive = Annotated[float, Strict(), Field(gt=0.0, le=1e18)]
Tokens = Annotated[float, Strict(), Field(ge=1.0, le=2e7)]
Times = Annotated[float, Strict(), Field(ge=1e-4, le=1e4)]
Text = Annotated[str, Field(max_length=4000)]


class Part(BaseModel):
    """A frozen part of a profile."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Counts(Part):
    """vLLM's speculation counters over some requests; `decode_tokens`: generated after each request's first."""

    drafts: Count
    drafted_tokens: Count
    accepted_tokens: Count
    accepted_per_position: tuple[Count, ...] = Field(default=(), max_length=64)
    decode_tokens: Count

    @property
    def acceptance_length(self) -> float | None:
        """AL = 1 + accepted / drafts; None where nothing was drafted."""
        return 1.0 + self.accepted_tokens / self.drafts if self.drafts else None

    @property
    def tokens_per_step(self) -> float | None:
        """tau = decode tokens / (decode tokens - accepted); None without decode steps."""
        steps = self.decode_tokens - self.accepted_tokens
        return self.decode_tokens / steps if steps > 0 else None


class Ratio(Part):
    """A measured speedup: its interval at `level` (widened for `looks`), and its logarithm's spread."""

    value: Times
    low: Times
    high: Times
    level: Annotated[float, Field(gt=0.0, lt=1.0)]
    looks: Annotated[int, Field(ge=1, le=1000)]
    log_sd: Annotated[float, Field(ge=0.0, le=10.0)]
    pairs: Count


class Latency(Part):
    """Over requests, in milliseconds."""

    mean: Amount
    median: Amount
    p95: Amount


class WaveRecord(Part):
    """One wave on one arm: some prompts at constant concurrency, each sent once."""

    arm: Arm
    concurrency: Annotated[int, Field(ge=1, le=65_536)]
    temperature: float | None = Field(description="As overridden; null: each prompt's own")
    structure: Text = Field(description="The class of its prompts, or mixed")
    prompts: Count
    answered: Count
    failed: Count
    put_off: Count = Field(default=0, description="Answers HTTP 429 or 503: not now, try again")
    seconds: Amount
    mean_in_flight: Amount | None
    output_tokens: Count
    output_tokens_per_s: Amount | None
    ttft_ms: Latency | None
    tpot_ms: Latency | None
    end_to_end_ms: Latency | None
    running: Amount | None = Field(description="Mean of vllm:num_requests_running while it ran")
    waiting: Amount | None = Field(description="Largest vllm:num_requests_waiting")
    kv_usage: Amount | None = Field(description="Largest share of the KV cache in use")
    gpu_bytes: Count | None = Field(description="Largest GPU memory in use, by NVML")
    speculation: Counts | None
    stopped_early: Text | None = None
    notes: tuple[Text, ...] = ()


class ArmPoint(Part):
    """One arm at one point: over all requests that both arms answered."""

    waves: Count
    output_tokens_per_s: Amount | None = Field(description="Median over the waves, which are disjoint repeats")
    mean_in_flight: Amount | None
    ttft_ms: Latency | None
    tpot_ms: Latency | None
    end_to_end_ms: Latency | None


class Point(Part):
    """Both arms at one concurrency and temperature, paired by prompt."""

    concurrency: Annotated[int, Field(ge=1, le=65_536)]
    temperature: float | None = Field(description="As overridden; null: each prompt's own")
    sent_temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = Field(description="Median over the requests")
    pairs: Count
    input_tokens: Tokens | None
    output_tokens: Tokens | None
    end_to_end: Ratio | None = Field(description="Null where too few prompts were answered by both arms")
    tpot: Ratio | None
    settled: Literal["faster", "not faster"] | None
    identical_share: float | None = Field(description="Share of identical texts; told at temperature 0 alone")
    output_ratio: Positive | None = Field(description="Output tokens, speculative over baseline")
    slower_end_to_end: Count | None = Field(
        default=None, description="Pairs whose speculative answer took more time per token, the first included"
    )
    slower_tpot: Count | None = Field(default=None, description="Pairs whose speculative answer has the larger TPOT")
    baseline: ArmPoint | None
    speculative: ArmPoint | None
    acceptance: Counts | None


class Speculative(Part):
    """What was measured, in the words of vLLM's speculative config; unknown for a server that was attached to."""

    method: Text | None
    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)] | None
    draft: Text | None
    config: dict[str, Any] | None = Field(description="vLLM's speculative config, as it was given")


class Environment(Part):
    """Where it was measured."""

    mode: Literal["launched", "co-resident", "attached"]
    engine_version: Text | None
    platform: Literal["cpu", "gpu"] | None
    gpus: tuple[Text, ...]
    gpu_memory_bytes: Count | None
    driver: Text | None
    host_cpu: Text | None
    serve_arguments: tuple[Text, ...]
    per_request_metrics: bool
    max_model_len: Count | None
    kv_tokens_baseline: Amount | None
    kv_tokens_speculative: Amount | None


class Policy(Part):
    """What the probe was to decide."""

    objective: Objective
    min_speedup: Positive
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)]


class Prompts(Part):
    """What was sent."""

    source: Text | None
    usable: Count
    sent: Count
    structure: dict[str, Count]
    max_tokens: Count | None = Field(description="As overridden; null: each prompt's own")
    cut_share: float | None = Field(description="Share of answers that ended at max_tokens")


class Decision(Part):
    """What the measurement says of the policy, at the asked concurrency."""

    verdict: Literal["enable", "disable"] | None
    decisive: bool
    text: Text


class Crossover(Part):
    """What was measured around the concurrency at which speculation stops to pay."""

    pays_at: int | None = Field(description="Largest measured concurrency whose speedup reaches min_speedup")
    fails_at: int | None = Field(description="Smallest measured concurrency above it whose speedup does not")


class Spent(Part):
    """Seconds of one arm's server; times the GPUs that it held."""

    start_up_s: Amount
    warm_up_s: Amount
    measuring_s: Amount
    gpus: Count
    gpu_s: Amount


class Refused(Part):
    """Something that was not measured."""

    what: Text
    why: Text
    count: Count = 1


class Profile(Part):
    """One session of `specworth profile`."""

    kind: Literal["specworth.profile"] = "specworth.profile"
    schema_version: Literal[1] = 1
    status: Literal["complete", "partial"]
    ended: Text
    created: Text
    target: Text
    speculation: Speculative
    environment: Environment
    policy: Policy
    prompts: Prompts
    decision: Decision
    points: tuple[Point, ...] = Field(max_length=200)
    crossover: Crossover
    acceptance: Counts | None = Field(description="At the asked temperature, over all concurrencies")
    structure: dict[str, Counts] = Field(description="The same by structure class of the prompts, where told apart")
    waves: tuple[WaveRecord, ...] = Field(max_length=5000)
    spent: dict[Arm, Spent]
    refused: tuple[Refused, ...]
    notes: tuple[Text, ...]
