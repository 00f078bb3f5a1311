"""What a running server has done between two scrapes of its /metrics, whatever its version.

Counters are summed over engines and differenced; a restart in between (a count that fell, a later process start) leaves
only what the second scrape counts, and the window says so. Means and quantiles come from the histograms' differences.
TPOT is `request_time_per_output_token_seconds`, one sample a request: under speculation the inter-token latencies are
sampled once a step, so they cannot compare the arms and are used for counting steps alone. Engines that are too old to
have it show its mean by their inter-token latencies, and only where they do not speculate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profiler.metrics.scrape import Scrape
from profiler.metrics.speculation import SpeculationCounters, speculation_counters


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram over a window: how many samples, their mean, and an interpolated quantile function."""

    count: float
    sum: float
    bounds: tuple[float, ...] = ()  # upper bounds, the last one may be inf
    cumulative: tuple[float, ...] = ()  # samples at or below each bound

    @property
    def mean(self) -> float | None:
        """The mean; None without samples."""
        return self.sum / self.count if self.count > 0 else None

    def quantile(self, q: float) -> float | None:
        """Linear interpolation inside the bucket, as Prometheus' histogram_quantile; None without samples."""
        if self.count <= 0 or not self.bounds:
            return None
        finite = [(b, c) for b, c in zip(self.bounds, self.cumulative, strict=True) if math.isfinite(b)]
        if not finite:
            return None
        bounds = np.array([0.0, *(b for b, _ in finite)])
        return float(np.interp(q * self.count, [0.0, *(c for _, c in finite)], bounds))


@dataclass(frozen=True)
class Window:
    """What happened between two scrapes (or since the start, where the first one is missing or void)."""

    seconds: float | None  # None where it is "since the server's start" and that is not told
    restarted: bool  # the server restarted inside: only what came after is counted
    speculation: SpeculationCounters | None  # None: the server does not speculate
    prompt_tokens: float | None
    generation_tokens: float | None
    requests: float | None
    preemptions: float | None
    prefix_hit_share: float | None
    ttft_ms: Distribution | None
    tpot_ms: Distribution | None
    end_to_end_ms: Distribution | None
    input_tokens: Distribution | None
    output_tokens: Distribution | None
    decode_steps: float | None  # request-steps that emitted tokens after the first: inter-token samples

    @property
    def tokens_per_step(self) -> float | None:
        """τ: decode tokens per decode step, the steps that drafted nothing included.

        The steps are counted where the engine shows inter-token latencies, else they are decode tokens - accepted,
        which is a little too few: tokens accepted beyond a request's end are not emitted.
        """
        decode = self.decode_tokens
        if decode is None or decode <= 0:
            return None
        if self.speculation is None:
            return 1.0
        if self.decode_steps:
            return decode / self.decode_steps
        if self.speculation.counts_after_rejection:
            return None
        own = decode - self.speculation.accepted_tokens
        return decode / own if own > 0 else None

    @property
    def decode_tokens(self) -> float | None:
        """Generated tokens but each request's first, which prefill makes."""
        if self.generation_tokens is None:
            return None
        return self.generation_tokens - (self.ttft_ms.count if self.ttft_ms is not None else 0.0)


def read_window(
    before: Scrape | None, after: Scrape, *, model: str | None = None, num_speculative_tokens: int | None = None
) -> Window:
    """The difference of two scrapes of one endpoint, or everything since its start where `before` is None."""
    restarted = before is not None and _restarted(before, after, model=model)
    first = None if restarted else before

    def counter(name: str) -> float | None:
        now = after.total(name, model=model)
        then = first.total(name, model=model) if first is not None else None
        return None if now is None else now - (then or 0.0)

    def histogram(name: str, scale: float = 1.0) -> Distribution | None:
        return _histogram(first, after, name, model=model, scale=scale)

    speculation = speculation_counters(after, model=model, num_speculative_tokens=num_speculative_tokens)
    if first is not None and speculation is not None:
        earlier = speculation_counters(first, model=model, num_speculative_tokens=num_speculative_tokens)
        speculation = speculation.minus(earlier) if earlier is not None else speculation
    queries, hits = counter("prefix_cache_queries"), counter("prefix_cache_hits")
    inter_token = histogram("inter_token_latency_seconds", 1e3)
    per_request = histogram("request_time_per_output_token_seconds", 1e3)
    return Window(
        seconds=after.at_s - first.at_s if first is not None else None,
        restarted=restarted,
        speculation=speculation,
        prompt_tokens=counter("prompt_tokens"),
        generation_tokens=counter("generation_tokens"),
        requests=counter("request_success"),
        preemptions=counter("num_preemptions"),
        prefix_hit_share=hits / queries if queries and hits is not None else None,
        ttft_ms=histogram("time_to_first_token_seconds", 1e3),
        tpot_ms=per_request or (inter_token if speculation is None else None),
        end_to_end_ms=histogram("e2e_request_latency_seconds", 1e3),
        input_tokens=histogram("request_prompt_tokens"),
        output_tokens=histogram("request_generation_tokens"),
        decode_steps=inter_token.count if inter_token is not None else None,
    )


def _restarted(before: Scrape, after: Scrape, *, model: str | None) -> bool:
    # Some exporters round the start time to whole seconds or drift by one; a restart takes longer than that. An earlier
    # start is another process, too: several behind one address, or a clock that was set back.
    if (
        before.start_time_s is not None
        and after.start_time_s is not None
        and abs(after.start_time_s - before.start_time_s) > 2
    ):
        return True
    names = ("prompt_tokens", "generation_tokens", "request_success")
    pairs = [(before.total(n, model=model), after.total(n, model=model)) for n in names]
    if any(then is not None and now is not None and now < then for then, now in pairs):
        return True
    then, now = speculation_counters(before, model=model), speculation_counters(after, model=model)
    return then is not None and now is not None and now.minus(then).is_negative()


def _histogram(
    before: Scrape | None, after: Scrape, name: str, *, model: str | None, scale: float
) -> Distribution | None:
    count, total = after.total(f"{name}_count", model=model), after.total(f"{name}_sum", model=model)
    if count is None or total is None:
        return None
    buckets = _buckets(after, name, model=model)
    if before is not None:
        count -= before.total(f"{name}_count", model=model) or 0.0
        total -= before.total(f"{name}_sum", model=model) or 0.0
        earlier = _buckets(before, name, model=model)
        buckets = {bound: value - earlier.get(bound, 0.0) for bound, value in buckets.items()}
    bounds = sorted(buckets)
    return Distribution(
        count=count,
        sum=total * scale,
        bounds=tuple(b * scale for b in bounds),
        cumulative=tuple(buckets[b] for b in bounds),
    )


def _buckets(scrape: Scrape, name: str, *, model: str | None) -> dict[float, float]:
    found: dict[float, float] = {}
    for line in scrape.lines(f"{name}_bucket", model=model):
        bound = float(line.labels.get("le", "nan"))
        if not math.isnan(bound):
            found[bound] = found.get(bound, 0.0) + line.value
    return found


@dataclass(frozen=True, slots=True)
class Gauges:
    """What a server is doing at the moment of one scrape, summed over engines."""

    running: float | None
    waiting: float | None
    kv_usage: float | None  # 0 to 1, the fullest engine; None where idle engines write NaN
    kv_tokens: float | None  # what the KV cache holds, from cache_config_info
    engines: tuple[str, ...]
    adapters: tuple[str, ...]  # LoRA adapters running now
    adapters_loaded: tuple[str, ...]


def read_gauges(scrape: Scrape, *, model: str | None = None) -> Gauges:
    """The state at one scrape."""
    usage = scrape.values("kv_cache_usage_perc", model=model)
    engines = {
        line.labels["engine"]
        for name in scrape.series
        for line in scrape.lines(name, model=model)
        if "engine" in line.labels
    }
    return Gauges(
        running=scrape.total("num_requests_running", model=model),
        waiting=scrape.total("num_requests_waiting", model=model),
        kv_usage=max(usage) if usage else None,
        kv_tokens=_kv_tokens(scrape),
        engines=tuple(sorted(engines)),
        adapters=_running_adapters(scrape),
        adapters_loaded=tuple(
            sorted(
                {
                    line.labels["adapter_name"]
                    for line in scrape.lines("lora_adapter_loaded")
                    if "adapter_name" in line.labels
                }
            )
        ),
    )


def _kv_tokens(scrape: Scrape) -> float | None:
    """Tokens that the KV caches of all engines hold.

    `kv_cache_size_tokens` is each engine's own, and right for models whose layers share blocks unevenly. Versions
    without it tell blocks, which data-parallel engines have summed up already: each line states the sum.
    """
    lines = [line.labels for line in scrape.lines("cache_config_info")]
    sizes = [float(labels["kv_cache_size_tokens"]) for labels in lines if _whole(labels, "kv_cache_size_tokens")]
    if sizes:
        return math.fsum(sizes)
    blocks = [
        float(labels["num_gpu_blocks"]) * float(labels["block_size"])
        for labels in lines
        if _whole(labels, "num_gpu_blocks") and _whole(labels, "block_size")
    ]
    return max(blocks, default=None)


def _whole(labels: Mapping[str, str], name: str) -> bool:
    return labels.get(name, "").isdecimal()


def _running_adapters(scrape: Scrape) -> tuple[str, ...]:
    """Adapters of the newest info line: its value is a timestamp, older lines are history that is never removed."""
    lines = list(scrape.lines("lora_requests_info"))
    if not lines:
        return ()
    newest = max(lines, key=lambda line: line.value)
    names = newest.labels.get("running_lora_adapters", newest.labels.get("running_adapters", ""))
    return tuple(name for name in names.split(",") if name)
