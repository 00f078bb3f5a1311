"""Both servers answer one prompt while somebody watches: what happens, as one sequence of events.

    server      what each is: url, model, version, whether it speculates
    sharing     whether both share a machine or a GPU, as far as can be known
    note        what makes the figures less than they seem
    started     the prompt was sent to this server
    text        a piece of an answer, with how many tokens it brought
    figures     speeds of both so far, and the running speedup (profiler.load's clock, see `pace`)
    acceptance  of the drafts: running by /metrics, at the end by the request's own counts where the server tells
    marks       the answer in runs of accepted drafts and the target's own tokens, or why it is not known
    finished    this answer is whole
    failed      what was wrong with this server, in one line; the other goes on
    end         the last figures, and whether both answers are the same text

Whoever stops listening stops both requests: their connections are closed, and vLLM aborts what nobody reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from api.comparisons.acceptance import acceptance_so_far, final_acceptance
from api.comparisons.arm import Arm, Limits, opened
from api.comparisons.machines import sharing
from api.comparisons.pace import running_speedup
from api.comparisons.request import ARMS, ArmName, ComparisonRequest
from api.findings import shown
from api.problems import unexpected
from api.settings import Settings
from profiler.errors import EndpointError, SpecworthError
from profiler.load import RequestPlan, Served
from profiler.metrics import read_gauges
from profiler.prompts.sample import Prompt
from profiler.serving.inspection import different_roots, inspect_server

FIGURES_EVERY_S = 0.1
ACCEPTANCE_EVERY_S = 1.0  # what a Prometheus does, too; a reading costs the server some milliseconds


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    kind: str
    values: Mapping[str, Any]


@dataclass
class Comparison:
    """One prompt on its way through two servers."""

    request: ComparisonRequest
    prompt: Prompt
    settings: Settings
    limits: Limits = field(default_factory=Limits)
    _events: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)
    _arms: dict[ArmName, Arm] = field(default_factory=dict)
    _told_s: float = 0.0

    async def events(self) -> AsyncIterator[Event]:
        """What happens, until both answers are there or have failed; closing it ends both requests."""
        task = asyncio.create_task(self._run())
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                yield event
            if not task.cancelled() and (error := task.exception()) is not None:
                told = unexpected(error).detail if isinstance(error, Exception) else "the service failed"
                yield Event("end", {"same_text": None, "problem": told})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _tell(self, kind: str, values: Mapping[str, Any]) -> None:
        self._events.put_nowait(Event(kind, values))
        if kind == "text" and time.monotonic() - self._told_s >= FIGURES_EVERY_S:
            self._tell_figures()

    def _note(self, text: str) -> None:
        self._tell("note", {"text": text})

    def _fail(self, name: ArmName, error: Exception) -> None:
        line = error.line() if isinstance(error, SpecworthError) else unexpected(error).detail
        self._tell("failed", {"arm": name, "text": line})

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(self._open(name, stack) for name in ARMS))
            await self._check_models()
            for name, arm in self._arms.items():
                self._describe(name, arm)
            await self._tell_sharing()
            if self.request.order == "in_turn":
                texts = [await self._answer(arm) for arm in list(self._arms.values())]
            else:
                texts = await asyncio.gather(*(self._answer(arm) for arm in self._arms.values()))
            whole = [text for text in texts if text is not None]
            self._tell_figures()
            self._tell("end", {"same_text": whole[0] == whole[1] if len(whole) == 2 else None})

    async def _open(self, name: ArmName, stack: AsyncExitStack) -> None:
        spec = getattr(self.request, name)
        manager = opened(
            name, spec, model=self.request.model, settings=self.settings, limits=self.limits, tell=self._tell
        )  # fmt: skip
        try:
            self._arms[name] = await stack.enter_async_context(manager)
        except Exception as error:  # whatever it is, the other server goes on
            self._fail(name, error)

    async def _check_models(self) -> None:
        """Take the speculative arm out where it is the same server, or serves another model."""
        if len(self._arms) < 2:
            self._arms = {name: self._arms[name] for name in ARMS if name in self._arms}
            return
        baseline, speculative = (self._arms[name] for name in ARMS)
        self._arms = {"baseline": baseline, "speculative": speculative}
        try:
            if (baseline.place.ip, baseline.url.rsplit(":", 1)[1]) == (
                speculative.place.ip, speculative.url.rsplit(":", 1)[1],
            ):  # fmt: skip
                raise EndpointError(
                    "both addresses are of the same server", expected="one without speculation and one with it",
                    got=f"{baseline.url} and {speculative.url}",
                )  # fmt: skip
            if speculative.facts.model != baseline.facts.model:
                await self._agree(baseline, speculative)
        except SpecworthError as error:
            del self._arms["speculative"]
            self._fail("speculative", error)

    async def _agree(self, baseline: Arm, speculative: Arm) -> None:
        """Their first models have different names: the same one under another, or one further down the list?"""
        with contextlib.suppress(EndpointError):
            speculative.facts = await inspect_server(
                speculative.session, url=speculative.url, model=baseline.facts.model
            )  # fmt: skip
            return
        same = baseline.facts.root is not None and baseline.facts.root == speculative.facts.root
        if not same:
            raise EndpointError(
                "the speculative server serves another model than the baseline",
                expected=shown(baseline.facts.model), got=shown(speculative.facts.model),
                remedy="if they are the same weights, serve both under one name (--served-model-name)",
            )  # fmt: skip

    def _describe(self, name: ArmName, arm: Arm) -> None:
        facts = arm.facts
        told = {"arm": name, "url": arm.url, "model": facts.model, "version": facts.version}
        self._tell("server", told | {"speculates": facts.speculates, "is_cpu": facts.is_cpu})
        if name == "baseline" and facts.speculates:
            self._note("The baseline speculates, too: its /metrics has vllm:spec_decode counters. Are they exchanged?")
        if name == "speculative" and facts.speculates is False:
            self._note("The speculative server does not speculate: its /metrics has no vllm:spec_decode counters.")
        if name == "speculative" and facts.is_cpu and self.request.temperature > 0:
            self._note(
                "The speculative server runs on a CPU, where vLLM's drafts above temperature 0 are not sampled rightly "
                "(vllm-project/vllm#55005): neither its text nor its acceptance means anything. Choose temperature 0."
            )
        if arm.before is None:
            return
        if arm.before.total("request_success") == 0:
            self._note(
                f"This is the first answer of the {name} server since its start, which often compiles what later ones "
                "find ready: send it once more."
            )
        running = read_gauges(arm.before).running
        if running:
            self._note(f"The {name} server answers {running:.0f} other requests besides, which share its speed.")

    async def _tell_sharing(self) -> None:
        if len(self._arms) < 2:
            return
        baseline, speculative = (self._arms[name] for name in ARMS)
        found = await asyncio.to_thread(sharing, baseline.place, speculative.place, order=self.request.order)
        self._tell("sharing", {"kind": found.kind, "text": found.text})
        if different_roots(baseline.facts, speculative.facts):
            self._note(
                f"The servers loaded their model from different places ({baseline.facts.root} and "
                f"{speculative.facts.root}); taken for the same one."
            )

    async def _answer(self, arm: Arm) -> str | None:
        """One answer to its end; its text, None where it failed."""
        asked = self.request
        plan = RequestPlan(model=arm.facts.model, temperature=asked.temperature, max_tokens=asked.max_tokens)
        self._tell("started", {"arm": arm.name})
        watching = asyncio.create_task(self._watch_acceptance(arm)) if arm.facts.speculates else None
        try:
            served = await arm.answer(self.prompt, plan)
        except Exception as error:  # as above
            self._fail(arm.name, error)
            return None
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        self._tell_figures()
        self._tell("finished", _finished(arm, served))
        with contextlib.suppress(Exception):  # what cannot be read of it stays unknown
            await self._tell_acceptance(arm, served)
        return arm.text

    async def _watch_acceptance(self, arm: Arm) -> None:
        if arm.before is None:
            return
        while True:
            await asyncio.sleep(ACCEPTANCE_EVERY_S)
            found = await acceptance_so_far(arm.session, arm.before, model=arm.facts.model)
            if found is not None and found.counters.drafts:
                self._tell("acceptance", {"arm": arm.name, "final": False} | found.told())

    async def _tell_acceptance(self, arm: Arm, served: Served) -> None:
        if not arm.facts.speculates and served.speculation is None:
            return
        found = await final_acceptance(arm.session, arm.before, served, model=arm.facts.model)
        if found is not None:
            self._tell("acceptance", {"arm": arm.name, "final": True} | found.told())
        runs, why = await arm.marks(found)
        self._tell("marks", {"arm": arm.name, "spans": runs, "unknown": why})

    def _tell_figures(self) -> None:
        self._told_s = time.monotonic()
        paces = {name: arm.pace for name, arm in self._arms.items() if arm.pace is not None}
        told: dict[str, Any] = {name: pace.told() for name, pace in paces.items()}
        if len(paces) == 2:
            found = running_speedup(paces["baseline"], paces["speculative"])
            told["speedup"] = None if found is None else {
                "tokens": found.tokens, "end_to_end": round(found.end_to_end, 4),
                "decode": None if found.decode is None else round(found.decode, 4),
            }  # fmt: skip
        self._tell("figures", told)


def _finished(arm: Arm, served: Served) -> dict[str, Any]:
    """The client's own record of the whole answer: end to end includes the server's last word."""
    return {
        "arm": arm.name, "output_tokens": served.output_tokens, "input_tokens": served.input_tokens,
        "ttft_ms": served.ttft_ms, "tpot_ms": served.tpot_ms, "end_to_end_ms": served.end_to_end_ms,
        "finish_reason": served.finish_reason,
    }  # fmt: skip
