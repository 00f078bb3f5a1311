"""One server under probe: what it is, which prompts fit it, its warm-up, its waves and the seconds spent on it.

Warm-ups are requests of the same length and shape that are nobody's prompts (the words in reverse order), so that
kernels are compiled and graphs replayed while neither prefix cache nor suffix tree learns what is measured later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import aiohttp

from profiler.errors import EndpointError
from profiler.load import Endpoint, RequestPlan, Served, Wave, run_wave
from profiler.metrics import Gauges, Window
from profiler.probe.events import Event, Listener
from profiler.probe.profile import Arm
from profiler.probe.rounds import WavePlan
from profiler.probe.settings import ProbeSettings, Setting
from profiler.prompts.sample import Message, Prompt
from profiler.serving.inspection import ServerFacts, count_prompt_tokens

WARM_UP_TOKENS = 16  # of each warm-up's answer: several steps of every shape, a fraction of a second
_TEMPLATE_TOKENS = 64  # what a chat template adds at most without the server being asked, by a look at common ones
_TOKENIZED_AT_ONCE = 8


@dataclass
class Spending:
    """Seconds of one server."""

    start_up_s: float = 0.0
    warm_up_s: float = 0.0
    measuring_s: float = 0.0

    @property
    def budgeted_s(self) -> float:
        """What counts against the budget."""
        return self.warm_up_s + self.measuring_s


@dataclass
class ArmUnderProbe:
    """A server that answers, for as long as its session is open."""

    name: Arm
    endpoint: Endpoint
    session: aiohttp.ClientSession
    facts: ServerFacts
    settings: ProbeSettings
    spending: Spending
    listen: Listener
    fail_if_dead: Callable[[], None]  # raises LaunchError with the reason, for a server of ours that has died
    read_gpu_bytes: Callable[[], int | None] | None = None
    api_is_chat: bool = True
    answer_limits: dict[int, int] = field(default_factory=dict)
    warm: set[int] = field(default_factory=set)
    reserved_s: float = 0.0  # of the budget, for what may have to be asked later

    @property
    def left_s(self) -> float:
        """Of the budget, what is not reserved."""
        return self.settings.budget_s - self.reserved_s - self.spending.budgeted_s

    def plan(self, temperature: float | None) -> RequestPlan:
        """How prompts become requests of this server."""
        plan = self.settings.plan(self.facts.model, temperature)
        return plan if self.api_is_chat else replace(plan, api="completions")

    async def fit_to_context(self, prompts: Mapping[int, Prompt]) -> tuple[int, ...]:
        """Indices of prompts that are too long for the server; shortens the answers of those that nearly are.

        Only prompts that could be too long (a token has at least one byte) are counted, by the server itself.
        """
        longest = self.facts.max_model_len
        if longest is None:
            return ()
        plan = self.plan(self.settings.temperature)
        gate = asyncio.Semaphore(_TOKENIZED_AT_ONCE)
        too_long: list[int] = []

        async def look(index: int, prompt: Prompt) -> None:
            asked = plan.asked_tokens(prompt)
            frame = _TEMPLATE_TOKENS * len(prompt.messages)
            if not prompt.tools and len(prompt.text.encode(errors="replace")) + frame + asked <= longest:
                return
            async with gate:
                tokens = await count_prompt_tokens(self.session, plan.body(prompt))
            if tokens is None:
                return  # the server will refuse it, and it is counted then
            if tokens >= longest:
                too_long.append(index)
            elif tokens + asked > longest:
                self.answer_limits[index] = longest - tokens

        await asyncio.gather(*(look(index, prompt) for index, prompt in prompts.items()))
        return tuple(sorted(too_long))

    async def warm_up(self, setting: Setting, prompts: Sequence[Prompt]) -> None:
        """Have every shape up to this concurrency compiled before it is measured.

        Raises:
            EndpointError: the server refuses whatever is sent; LaunchError where it is ours and has died.
        """
        at_once = min(setting.concurrency, len(prompts))  # what the wave can have in flight
        if at_once in self.warm or not prompts:
            return
        self.listen(Event("phase", f"{self.name}: warming up for {at_once} at once"))
        chosen = prompts[:at_once]
        wave = await self._warm_wave(setting, chosen)
        if not wave.whole and _lacks_template(wave.served):
            self.api_is_chat = False
            wave = await self._warm_wave(setting, chosen)
        if not wave.whole and not all(s.too_long for s in wave.served):
            self.fail_if_dead()
            raise _refusal(self.name, self.facts.url, wave.served)
        self.warm.add(at_once)

    async def _warm_wave(self, setting: Setting, prompts: Sequence[Prompt]) -> Wave:
        mirrored = [(i, _mirrored(prompt)) for i, prompt in enumerate(prompts)]
        plan = replace(self.plan(setting.temperature), max_tokens=WARM_UP_TOKENS)
        begun = time.monotonic()
        try:
            return await run_wave(
                self.session, plan, mirrored, concurrency=setting.concurrency, with_metrics=False,
                patience=self.settings.patience,
            )  # fmt: skip
        finally:
            self.spending.warm_up_s += time.monotonic() - begun

    async def measure(
        self, setting: Setting, planned: WavePlan, prompts: Mapping[int, Prompt], *, until_s: float,
        on_cut: Callable[[Wave], None],
    ) -> Wave:  # fmt: skip
        """One wave.

        until_s: budgeted seconds of this server after which no further prompt is sent. on_cut: takes what was answered
        where something breaks in.
        """
        asked = [(index, prompts[index]) for index in planned.prompts if index in prompts]
        values = {"arm": self.name, "concurrency": setting.concurrency, "structure": planned.structure}
        text = f"{self.name}: {len(asked)} prompts ({planned.structure}), {setting.concurrency} at once"
        self.listen(Event("wave_started", text, {**values, "prompts": len(asked)}))
        progress = _Progress(self, values)
        begun = time.monotonic()
        try:
            wave = await run_wave(
                self.session,
                self.plan(setting.temperature),
                asked,
                concurrency=setting.concurrency,
                deadline_s=begun + until_s - self.spending.budgeted_s,
                on_served=progress.served,
                on_sample=progress.sampled,
                with_metrics=self.facts.has_metrics,
                answer_limits=self.answer_limits,
                read_gpu_bytes=self.read_gpu_bytes,
                on_cut=on_cut,
                patience=self.settings.patience,
            )
        finally:
            self.spending.measuring_s += time.monotonic() - begun
        return wave


class _Progress:
    """Turns what happens in a wave into events."""

    def __init__(self, arm: ArmUnderProbe, values: Mapping[str, object]) -> None:
        self._arm, self._values = arm, dict(values)
        self._begun = time.monotonic()
        self._answered = self._tokens = 0
        self._acceptance: float | None = None

    def served(self, record: Served) -> None:
        self._answered += 1
        self._tokens += record.output_tokens or 0
        self._tell()

    def sampled(self, _: Gauges, window: Window) -> None:
        if window.speculation is not None and window.speculation.acceptance_length is not None:
            self._acceptance = window.speculation.acceptance_length
        self._tell()

    def _tell(self) -> None:
        seconds = max(time.monotonic() - self._begun, 1e-9)
        rate, left = self._tokens / seconds, max(self._arm.left_s - seconds, 0.0)
        self._values |= {"answered": self._answered, "output_tokens_per_s": round(rate, 1), "left_s": round(left, 1)}
        if self._acceptance is not None:
            self._values["acceptance_length"] = round(self._acceptance, 3)
        self._arm.listen(Event("progress", "", dict(self._values)))


def stopped_by_failures(wave: Wave) -> bool:
    """Whether the wave ended since the server failed, not since its time was up."""
    return wave.stopped_early is not None and "failed in a row" in wave.stopped_early


def _mirrored(prompt: Prompt) -> Prompt:
    """A request of the same length and form that says nothing of the prompt's own sequence of words."""
    turns = tuple(Message(m.role, " ".join(reversed(m.text.split())) or ".") for m in prompt.messages)
    return replace(prompt, messages=turns, max_tokens=WARM_UP_TOKENS)


def _lacks_template(served: Sequence[Served]) -> bool:
    return any(s.error is not None and "chat template" in s.error for s in served)


def _refusal(arm: Arm, url: str, served: Sequence[Served]) -> EndpointError:
    """Why nothing was answered."""
    error = next((s.error for s in served if s.error is not None), "no answer")
    if error.startswith(("HTTP 401", "HTTP 403")):
        return EndpointError(
            f"{url} refuses the API key", expected="the key of the server", got=error[:200],
            remedy="set it in the environment variable that --api-key-env names",
        )  # fmt: skip
    return EndpointError(f"the {arm} server {url} answers no request", got=error[:300])
