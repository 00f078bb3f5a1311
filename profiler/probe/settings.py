"""What a session is asked to do: under which load, for how long, deciding what, on which servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from profiler.errors import InputError
from profiler.load.patience import Patience
from profiler.load.request import RequestPlan
from profiler.prompts.sample import Prompt
from profiler.serving.launch import ServeCommand

DEFAULT_BUDGET_S = 120.0  # a side, start-up not counted
# Two-sided 90 % intervals: each side is wrong once in twenty. Stricter than the 0.8 from which advice is decisive.
DEFAULT_CONFIDENCE = 0.95
DEFAULT_MIN_SPEEDUP = 1.05


@dataclass(frozen=True, slots=True)
class Setting:
    """Under which the servers are measured; temperature None leaves each prompt its own."""

    concurrency: int
    temperature: float | None = None


@dataclass(frozen=True)
class ProbeSettings:
    """The load, the budget and the question."""

    concurrency: int
    temperature: float | None = None
    also_temperatures: tuple[float, ...] = ()
    max_tokens: int | None = None
    budget_s: float = DEFAULT_BUDGET_S
    objective: Literal["end_to_end", "tpot"] = "end_to_end"
    min_speedup: float = DEFAULT_MIN_SPEEDUP
    confidence: float = DEFAULT_CONFIDENCE
    look_around: bool = True  # spend what is left of the budget on other concurrencies
    request_timeout_s: float = 600.0
    stall_timeout_s: float = 120.0
    patience: Patience = field(default_factory=Patience)  # with requests that a server puts off (HTTP 429, 503)
    seed: int = 0

    @property
    def level(self) -> float:
        """Of the two-sided interval that must exclude the threshold."""
        return 2.0 * self.confidence - 1.0

    @property
    def main(self) -> Setting:
        """The asked one."""
        return Setting(self.concurrency, self.temperature)

    def plan(self, model: str, temperature: float | None) -> RequestPlan:
        """How prompts become requests."""
        return RequestPlan(model=model, temperature=temperature, max_tokens=self.max_tokens)


@dataclass(frozen=True)
class Launched:
    """Servers that we start: one after the other, or both at once on the same GPU."""

    baseline: ServeCommand
    speculative: ServeCommand
    log_folder: str
    co_resident: bool = False
    start_timeout_s: float = 900.0
    api_key: str | None = field(default=None, repr=False)  # where their arguments or our environment ask for one


@dataclass(frozen=True)
class Attached:
    """Servers that run already; without a baseline, acceptance alone is measured."""

    speculative_url: str
    baseline_url: str | None = None
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    addresses: Mapping[str, str] = field(default_factory=dict)  # IP address of a URL, where it was looked up before


@dataclass(frozen=True)
class Question:
    """What is measured: the prompts with their classes, and what the servers are said to be."""

    prompts: Sequence[Prompt]
    structure: Sequence[str]  # class of each prompt
    target: str
    source: str | None = None
    speculation: Mapping[str, Any] | None = None  # vLLM's speculative config, as given
    unread: Mapping[str, int] = field(default_factory=dict)  # records that gave no prompt, by reason


def sampled(settings: ProbeSettings, prompts: Sequence[Prompt]) -> str:
    """Which requests would not be greedy, in words; empty where all are."""
    hot = [t for t in (settings.temperature, *settings.also_temperatures) if t is not None and t > 0.0]
    if hot:
        return f"{hot[0]:g}"
    own = [p.temperature for p in prompts if p.temperature is None or p.temperature > 0.0]
    if settings.temperature is not None or not own:
        return ""
    stated = [t for t in own if t is not None]
    of = f"of up to {max(stated):g}" if stated else "that state none, which the server reads as 1"
    return f"{len(own)} prompts {of}"


def refuse_sampling_on_cpu(settings: ProbeSettings, prompts: Sequence[Prompt], *, where: str) -> None:
    """Refuse to sample on a CPU server: vLLM's CPU build draws drafts from uninitialised buffers above temperature 0.

    Raises:
        InputError: some request would carry a temperature above 0, or leave it to the server.
    """
    remedy = "add --temperature 0: on a CPU the acceptance of drafts is valid there alone"
    reason = "vLLM's CPU build samples drafts from uninitialised buffers above temperature 0 (vllm-project/vllm#55005)"
    got = sampled(settings, prompts)
    if got:
        raise InputError(
            f"temperature above 0 cannot be measured on {where}: {reason}", expected="0", got=got, remedy=remedy
        )
