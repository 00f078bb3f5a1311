"""A control and a canary whose traffic and latencies are known: readings of their /metrics without a server."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from advisor.gate.canary import Canary
from profiler.metrics import Scrape
from profiler.metrics.scrape import Series

INF = float("inf")
# vLLM 0.32's own buckets (tests/profiler/metrics/recorded), as far as they matter here.
BUCKETS = {
    "time_to_first_token_seconds": (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, INF),
    "request_time_per_output_token_seconds": (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0, INF),
    "e2e_request_latency_seconds": (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, INF),
    "request_prompt_tokens": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, INF),
    "request_generation_tokens": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, INF),
}


@dataclass
class Server:
    """What one vLLM has counted; times in seconds."""

    speculates: bool = False
    start_s: float = 1000.0
    kv_usage: float = 0.5
    inter_token: bool = False  # an engine without the time per output token of requests
    counts: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, np.ndarray] = field(
        default_factory=lambda: {name: np.zeros(len(bounds)) for name, bounds in BUCKETS.items()}
    )
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BUCKETS, 0.0))

    def finish(self, *, ttft_s, tpot_s, prompt_tokens, answer_tokens):
        """Requests that ended, as arrays."""
        samples = {
            "time_to_first_token_seconds": ttft_s,
            "request_time_per_output_token_seconds": tpot_s,
            "e2e_request_latency_seconds": ttft_s + tpot_s * (answer_tokens - 1),
            "request_prompt_tokens": prompt_tokens,
            "request_generation_tokens": answer_tokens,
        }
        for name, values in samples.items():
            self.buckets[name] += np.searchsorted(np.sort(values), BUCKETS[name], side="right")
            self.sums[name] += float(values.sum())
        for name, value in (
            ("request_success", len(ttft_s)),
            ("prompt_tokens", prompt_tokens.sum()),
            ("generation_tokens", answer_tokens.sum()),
        ):
            self.counts[name] = self.counts.get(name, 0.0) + float(value)

    def restart(self):
        """All counts fall to zero."""
        fresh = Server()
        self.counts, self.buckets, self.sums, self.start_s = fresh.counts, fresh.buckets, fresh.sums, self.start_s + 60

    def scrape(self, at_s):
        """Its /metrics now."""
        series = {name: (Series({}, value),) for name, value in self.counts.items()}
        series["num_requests_running"] = (Series({}, 8.0),)
        series["num_requests_waiting"] = (Series({}, 0.0),)
        series["kv_cache_usage_perc"] = (Series({}, self.kv_usage),)
        for name, counted in self.buckets.items():
            if self.inter_token and name == "request_time_per_output_token_seconds":
                name = "inter_token_latency_seconds"
            bounds = BUCKETS.get(name, BUCKETS["request_time_per_output_token_seconds"])
            series[f"{name}_bucket"] = tuple(
                Series({"le": "+Inf" if bound == INF else str(bound)}, value)
                for bound, value in zip(bounds, counted, strict=True)
            )
            series[f"{name}_count"] = (Series({}, float(counted[-1])),)
            total = self.sums.get(name, self.sums["request_time_per_output_token_seconds"])
            series[f"{name}_sum"] = (Series({}, total),)
        if self.speculates:
            for name in ("drafts", "draft_tokens", "accepted_tokens"):
                series[f"spec_decode_num_{name}"] = (Series({}, self.counts.get("request_success", 0.0)),)
        return Scrape(series=series, at_s=at_s, start_time_s=self.start_s)


@dataclass
class Traffic:
    """What both arms are sent, and how much faster the canary is."""

    seed: int = 0
    per_look: float = 40.0  # requests that each arm finishes between two looks, on average
    tpot_s: float = 0.03
    ttft_s: float = 0.2
    tpot_gain: float = 1.0  # TPOT of the control over the canary's
    ttft_gain: float = 1.0
    shape: float = 6.0  # of the gamma that a request's TPOT has: a coefficient of variation of 0.4
    load_sd: float = 0.1  # of the logarithm of what both arms share at one time
    arm_sd: float = 0.05  # and of what each has alone, from look to look
    prompt_gain: float = 1.0  # length of the canary's prompts over the control's
    load_ratio: float = 1.0  # requests of the canary over the control's

    def __post_init__(self):
        self.random = np.random.default_rng(self.seed)

    def look(self, control, canary):
        """What happens until the next look."""
        shared = np.exp(self.random.normal(0.0, self.load_sd))
        for server, tpot_gain, ttft_gain, prompts, load in (
            (control, 1.0, 1.0, 1.0, 1.0),
            (canary, self.tpot_gain, self.ttft_gain, self.prompt_gain, self.load_ratio),
        ):
            n = self.random.poisson(self.per_look * load)
            own = shared * np.exp(self.random.normal(0.0, self.arm_sd))
            server.finish(
                ttft_s=self.ttft_s * own / ttft_gain * self.random.gamma(2.0, 0.5, n),
                tpot_s=self.tpot_s * own / tpot_gain * self.random.gamma(self.shape, 1.0 / self.shape, n),
                prompt_tokens=np.ceil(self.random.gamma(1.5, 200.0 * prompts, n)),
                answer_tokens=1.0 + np.ceil(self.random.gamma(1.5, 80.0, n)),
            )


def watched(traffic, *, looks, every_s=20.0, control=None, canary=None):
    """A canary after each look, one after the other."""
    control, canary = control or Server(), canary or Server(speculates=True)
    traffic.look(control, canary)  # both have served before
    seen = Canary.begin(
        control.scrape(0.0), canary.scrape(0.0), urls=("http://control", "http://canary"), models=(None, None)
    )
    for number in range(1, looks + 1):
        traffic.look(control, canary)
        seen.add(control.scrape(number * every_s), canary.scrape(number * every_s))
        yield seen
