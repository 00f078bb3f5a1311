"""What do two servers tell of speculation while both take the same traffic: the control without it, the canary with it?

Readings of both /metrics come in pairs, of one time. They are cut into blocks in which each arm finished some tens of
requests, and which last as long as several do: within a block both arms see the same hour, and blocks are nearly
independent. TPOT is vLLM's `request_time_per_output_token_seconds`, one sample a request; inter-token latencies are
sampled once a step under speculation and would flatter the canary. End to end is time per output token, the first
included: the sum of request latencies over the sum of answer lengths.

Refused: a server that restarted, and arms that see different traffic. Lengths of prompts and answers must have the
same distribution and the arms the same load per engine, since what speculation gains falls with the batch; both are
tested so that looking often does not refuse equal arms (`TRAFFIC_ALPHA` over all looks).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from advisor.gate.histograms import Sample, proven_gap
from advisor.gate.sequential import Floats, design_effect, share_bounds
from profiler.errors import EndpointError
from profiler.metrics import Distribution, Gauges, Scrape, Window, read_gauges, read_window

# A block's mean of 20 requests is close enough to Gaussian for the t-test at the skewness that latencies have
# (tests/advisor/gate/test_sequential.py measures the level that is kept).
BLOCK_REQUESTS = 20
# An arm's own load is forgotten within about a request; over five of them an exponential memory leaves neighbouring
# blocks an autocorrelation of 0.12 ((1 - e^-L)² / (2 (L - 1 + e^-L)) for L = 5), which is then taken for granted.
BLOCK_LATENCIES = 5.0
BLOCK_MEMORY = 0.12
FEWEST_BLOCKS = 8  # below, the blocks' scatter, and with it the design effect of counts, is not known
TRAFFIC_ALPHA = 0.01  # chance of ever refusing arms that see equal traffic
# What is still taken for equal: one request in ten of another length, a quarter more load. Choices, not measurements;
# a router that splits evenly stays far below both.
LARGEST_GAP = 0.1
LARGEST_LOAD_RATIO = 1.25

_TPOT = "request_time_per_output_token_seconds_count"


@dataclass(frozen=True, slots=True)
class Block:
    """One stretch of time on both arms."""

    control: Window
    canary: Window


@dataclass
class _ArmReadings:
    name: str
    url: str
    model: str | None
    first: Scrape
    last: Scrape
    block_begin: Scrape
    fullest: float | None = None  # largest share of the KV cache in use
    _read: tuple[Scrape, Window] | None = None  # the window up to `last`, which a look asks for many times

    def window(self) -> Window:
        if self._read is None or self._read[0] is not self.last:
            self._read = self.last, read_window(self.first, self.last, model=self.model)
        return self._read[1]

    def block(self) -> Window:
        return read_window(self.block_begin, self.last, model=self.model)

    def gauges(self) -> Gauges:
        return read_gauges(self.last, model=self.model)

    def in_flight(self, scrape: Scrape) -> float:
        gauges = read_gauges(scrape, model=self.model)
        return (gauges.running or 0.0) + (gauges.waiting or 0.0)

    def arrived(self) -> float:
        """Requests that came: those that ended, and how many more are under way now than at the first reading."""
        return max(0.0, _requests(self.window()) + self.in_flight(self.last) - self.in_flight(self.first))


@dataclass
class Canary:
    """Both arms' readings, looked at again with each pair."""

    control: _ArmReadings
    canary: _ArmReadings
    blocks: list[Block] = field(default_factory=list)

    @classmethod
    def begin(
        cls, control: Scrape, canary: Scrape, *, urls: tuple[str, str], models: tuple[str | None, str | None]
    ) -> Canary:
        """From the first pair of readings."""
        arms = [
            _ArmReadings(name, url, model, scrape, scrape, scrape)
            for name, url, model, scrape in zip(("control", "canary"), urls, models, (control, canary), strict=True)
        ]
        return cls(arms[0], arms[1])

    def add(self, control: Scrape, canary: Scrape) -> None:
        """One more pair.

        Raises:
            EndpointError: a server restarted since the pair before, or the arms see different traffic.
        """
        for arm, scrape in ((self.control, control), (self.canary, canary)):
            if read_window(arm.last, scrape, model=arm.model).restarted:
                raise EndpointError(
                    f"the {arm.name} {arm.url} restarted inside the window", expected="one process from first to last",
                    got="counters that fell, or another start time", remedy="gate again once it is up and warm",
                )  # fmt: skip
            arm.last = scrape
            usage = arm.gauges().kv_usage
            arm.fullest = max((v for v in (arm.fullest, usage) if v is not None), default=None)
        block = Block(self.control.block(), self.canary.block())
        if all(_full(window) for window in (block.control, block.canary)):
            self.blocks.append(block)
            self.control.block_begin, self.canary.block_begin = control, canary
        self._refuse_different_traffic()

    @property
    def seconds(self) -> float:
        """Length of the window until now."""
        return self.control.last.at_s - self.control.first.at_s

    @property
    def requests(self) -> tuple[float, float]:
        """Requests that ended on control and canary."""
        return _requests(self.control.window()), _requests(self.canary.window())

    def has_tpot(self) -> bool:
        """Do both engines show the time per output token of requests?"""
        return all(arm.last.total(_TPOT, model=arm.model) is not None for arm in (self.control, self.canary))

    def samples(self, pick: Callable[[Window], Distribution | None]) -> tuple[Sample, Sample] | None:
        """A histogram of both arms, whole and by blocks; None where one has no samples."""
        found = []
        for arm, blocks in (
            (self.control, [block.control for block in self.blocks]),
            (self.canary, [block.canary for block in self.blocks]),
        ):
            whole = pick(arm.window())
            if whole is None or whole.count <= 0:
                return None
            found.append(Sample(whole, [d for window in blocks if (d := pick(window)) is not None and d.count > 0]))
        return found[0], found[1]

    def block_means(self, figure: Callable[[Window], float | None]) -> tuple[Floats, Floats]:
        """A figure of both arms in each block that has it on both."""
        pairs = [(figure(block.control), figure(block.canary)) for block in self.blocks]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        return np.array([a for a, _ in known], dtype=np.float64), np.array([b for _, b in known], dtype=np.float64)

    def _refuse_different_traffic(self) -> None:
        each = TRAFFIC_ALPHA / 3.0
        self._refuse_different_load(each)
        if len(self.blocks) < FEWEST_BLOCKS:
            return
        for what, pick in (("prompts", prompt_lengths), ("answers", answer_lengths)):
            both = self.samples(pick)
            gap = 0.0 if both is None else proven_gap(*both, alpha=each)
            if both is not None and gap > LARGEST_GAP:
                means = " and ".join(f"{sample.whole.mean:.0f}" for sample in both)
                raise EndpointError(
                    f"the two arms see different traffic: their {what} differ in length",
                    expected=f"distributions that differ by {LARGEST_GAP:.0%} of the requests at most",
                    got=f"{gap:.0%} at least; mean lengths {means} tokens on control and canary",
                    remedy="have one router split the same requests evenly between both",
                )

    def _refuse_different_load(self, alpha: float) -> None:
        arrived = self.control.arrived(), self.canary.arrived()
        engines = [len(arm.gauges().engines) or 1 for arm in (self.control, self.canary)]
        total = sum(arrived)
        trials = np.array([_requests(b.control) + _requests(b.canary) for b in self.blocks])
        effect = design_effect(np.array([_requests(b.canary) for b in self.blocks]), trials)
        low, high = (
            float(bound[0])
            for bound in share_bounds(np.array([arrived[1] / effect]), np.array([total / effect]), alpha=alpha)
        )
        per_engine = engines[0] / engines[1]
        least = low / max(1.0 - low, 1e-12) * per_engine
        most = high / max(1.0 - high, 1e-12) * per_engine
        if least > LARGEST_LOAD_RATIO or most < 1.0 / LARGEST_LOAD_RATIO:
            raise EndpointError(
                "the two arms see different traffic: one is under more load, and speculation gains less the more "
                "requests run at once",
                expected=f"requests per engine that differ by a factor of {LARGEST_LOAD_RATIO:g} at most",
                got=f"{arrived[0] / engines[0]:.0f} on the control and {arrived[1] / engines[1]:.0f} on the canary in "
                f"{self.seconds:.0f} s",
                remedy="have one router split the same requests evenly between both",
            )


def _requests(window: Window) -> float:
    return window.requests or 0.0


def _full(window: Window) -> bool:
    latency = window.end_to_end_ms
    if latency is None or latency.mean is None or window.seconds is None:
        return False
    return latency.count >= BLOCK_REQUESTS and window.seconds * 1000.0 >= BLOCK_LATENCIES * latency.mean


def prompt_lengths(window: Window) -> Distribution | None:
    """Tokens of the prompts of requests that ended."""
    return window.input_tokens


def answer_lengths(window: Window) -> Distribution | None:
    """Tokens of their answers."""
    return window.output_tokens


def tpot(window: Window) -> Distribution | None:
    """Time per output token, one sample a request."""
    return window.tpot_ms


def ttft(window: Window) -> Distribution | None:
    """Time to first token."""
    return window.ttft_ms


def end_to_end(window: Window) -> Distribution | None:
    """Latency of whole requests."""
    return window.end_to_end_ms


def mean_tpot(window: Window) -> float | None:
    """Mean TPOT of the requests that ended."""
    return None if window.tpot_ms is None else window.tpot_ms.mean


def time_per_token(window: Window) -> float | None:
    """End-to-end time per output token, the first included."""
    latency, answers = window.end_to_end_ms, window.output_tokens
    if latency is None or answers is None or answers.sum <= 0 or latency.count <= 0:
        return None
    return latency.sum / answers.sum


def spoken_counts(canary: Canary) -> str:
    """What figures rest on, for a reader."""
    control, canaried = canary.requests
    return f"{control:.0f} and {canaried:.0f} requests in {canary.seconds:.0f} s, {len(canary.blocks)} blocks"
