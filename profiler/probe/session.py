"""One profiling session: a baseline and a speculative server under the same prompts, until the question is settled.

Servers of ours run one after the other, so that neither takes the other's memory: the baseline answers its rounds
within the budget and is stopped, then the speculative one answers the same prompts in the same order, and after each
round the pairs are looked at. Servers that run side by side (attached, co-resident) take turns round by round and are
never loaded at once. What is left of the budget goes to other concurrencies: those that the planner names.

Each prompt goes once to each server. Whatever ends the session, what was measured stays in `record`.
"""

from __future__ import annotations

from collections.abc import Sequence

from profiler.errors import EndpointError
from profiler.probe.arm import ArmUnderProbe
from profiler.probe.conduct import Conduct
from profiler.probe.rounds import Round, WavePlan
from profiler.probe.settings import Attached, Launched, Setting
from profiler.serving.inspection import check_arm, check_two_servers
from profiler.serving.interruption import run_interruptibly
from profiler.serving.launch import Server

MAIN_BUDGET = 0.6  # of the budget, for the asked concurrency, where what is left is spent on others


class Session(Conduct):
    """Runs once."""

    def run(self) -> str:
        """Measure; returns why it ended. Raises SpecworthError (or Interrupted), with `record` kept."""
        self.check_prompts()
        if isinstance(self.servers, Attached):
            return run_interruptibly(self._attached(self.servers))
        if self.servers.co_resident:
            return self._co_resident(self.servers)
        return self._in_turn(self.servers)

    def _in_turn(self, servers: Launched) -> str:
        with self.started("baseline", servers.baseline, servers) as server:
            extras = run_interruptibly(self._baseline_phase(server))
        with self.started("speculative", servers.speculative, servers) as server:
            return run_interruptibly(self._speculative_phase(server, extras))

    async def _baseline_phase(self, server: Server) -> list[tuple[Setting, Round]]:
        """All that the speculative server can be compared with; returns the other settings, in their order."""
        async with self.opened("baseline", server.url, server) as arm:
            check_arm(arm.facts, speculates=False)
            await self.fit(arm)
            blocks = self.divide()
            share = MAIN_BUDGET if blocks.rest else 1.0
            await self.rounds(arm, self.settings.main, blocks.rounds, until_s=share * self.settings.budget_s)
            extras: list[tuple[Setting, Round]] = []
            while (setting := self.next_setting(arm, extras)) is not None:
                round_ = self.take(setting)
                extras.append((setting, round_))
                await self.rounds(arm, setting, [round_], until_s=self.settings.budget_s)
            return extras

    async def _speculative_phase(self, server: Server, extras: Sequence[tuple[Setting, Round]]) -> str:
        async with self.opened("speculative", server.url, server) as arm:
            check_arm(arm.facts, speculates=True)
            await self.fit(arm)
            main = self.settings.main
            answered = self.record.answered("baseline", main)
            rounds = [r for r in (_only(round_, answered) for round_ in self.divide().rounds) if r]
            self.record.looks[main] = max(len(rounds), 1)
            ended = "too few prompts"
            for number, round_ in enumerate(rounds):
                whole = await self.rounds(arm, main, [round_], until_s=self.settings.budget_s)
                if self.look(main, number + 1) is not None:
                    ended = "settled"
                    break
                ended = "the prompts ended first" if whole else "the budget ended first"
            if ended == "the prompts ended first" and len(answered) < self.divide().prompts:
                ended = "the budget ended first"
            for setting, round_ in extras:
                kept = _only(round_, self.record.answered("baseline", setting))
                if kept and arm.left_s > 0.0:
                    await self.rounds(arm, setting, [kept], until_s=self.settings.budget_s)
                    self.look(setting, 1)
            return ended

    def _co_resident(self, servers: Launched) -> str:
        self.record.note(
            "both servers shared the GPU: each had half of the memory, so that less KV cache was there than either "
            "would have alone (more preemptions, lower concurrency), and the idle one still held its weights and graphs"
        )
        with (
            self.started("baseline", servers.baseline, servers) as baseline,
            self.started("speculative", servers.speculative, servers) as speculative,
        ):
            return run_interruptibly(self._side_by_side(baseline, speculative))

    async def _side_by_side(self, baseline: Server, speculative: Server) -> str:
        async with (
            self.opened("baseline", baseline.url, baseline) as base,
            self.opened("speculative", speculative.url, speculative) as spec,
        ):
            return await self._by_turns(base, spec)

    async def _attached(self, servers: Attached) -> str:
        async with self.opened("speculative", servers.speculative_url) as spec:
            if servers.baseline_url is None:
                return await self._acceptance_alone(spec)
            async with self.opened("baseline", servers.baseline_url) as base:
                return await self._by_turns(base, spec)

    async def _by_turns(self, base: ArmUnderProbe, spec: ArmUnderProbe) -> str:
        check_two_servers(base.facts, spec.facts)
        await self.fit(base)
        await self.fit(spec)
        blocks, main = self.divide(), self.settings.main
        self.record.looks[main] = len(blocks.rounds)
        share = MAIN_BUDGET if blocks.rest else 1.0
        ended = "the prompts ended first"
        for number, round_ in enumerate(blocks.rounds):
            whole = await self._both(base, spec, main, round_, until_s=share * self.settings.budget_s)
            if self.look(main, number + 1) is not None:
                ended = "settled"
                break
            if not whole:
                ended = "the budget ended first"
                break
        extras: list[tuple[Setting, Round]] = []
        while (setting := self.next_setting(min(base, spec, key=lambda arm: arm.left_s), extras)) is not None:
            round_ = self.take(setting)
            extras.append((setting, round_))
            await self._both(base, spec, setting, round_, until_s=self.settings.budget_s)
            self.look(setting, 1)
        return ended

    async def _both(
        self, base: ArmUnderProbe, spec: ArmUnderProbe, setting: Setting, round_: Round, *, until_s: float
    ) -> bool:
        whole = await self.rounds(base, setting, [round_], until_s=until_s)
        kept = _only(round_, self.record.answered("baseline", setting))
        return await self.rounds(spec, setting, [kept], until_s=until_s) and whole

    async def _acceptance_alone(self, spec: ArmUnderProbe) -> str:
        check_arm(spec.facts, speculates=True)
        if not spec.facts.has_metrics:
            raise EndpointError(
                f"{spec.facts.url} has no /metrics, so nothing can be told of its acceptance",
                remedy="name a baseline, too, with --baseline-url: then the speedup is measured",
            )
        await self.fit(spec)
        whole = await self.rounds(spec, self.settings.main, self.divide().rounds, until_s=self.settings.budget_s)
        return "the prompts ended" if whole else "the budget ended"


def _only(round_: Round, kept: set[int]) -> Round:
    """The same waves with these prompts alone; empty waves go."""
    waves = (WavePlan(w.structure, tuple(i for i in w.prompts if i in kept)) for w in round_)
    return tuple(wave for wave in waves if wave.prompts)
