"""One profiling session: a baseline and a speculative server under the same prompts, until the question is settled.

Servers of ours run one after the other, so that neither takes the other's memory. The baseline answers as many rounds
as are cheaper now than another start of it later (`profiler.probe.effort`) and is stopped; then the speculative one
answers the same prompts in the same order, and after each round the pairs are looked at. Where they leave the question
open it answers further rounds, for which the baseline is started again. Servers that run side by side (attached,
co-resident) take turns round by round and are never loaded at once. What is left of the budget goes to other
concurrencies: those that the planner names.

Each prompt goes once to each server. Whatever ends the session, what was measured stays in `record`.
"""

from __future__ import annotations

from collections.abc import Sequence

from profiler.errors import EndpointError
from profiler.probe.arm import ArmUnderProbe
from profiler.probe.comparison import MIN_PAIRS
from profiler.probe.conduct import Conduct
from profiler.probe.effort import another_round_pays, pairs_needed
from profiler.probe.rounds import Round, WavePlan, count_prompts
from profiler.probe.settings import Attached, Launched, Setting
from profiler.serving.inspection import check_arm, check_two_servers, different_roots
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
            extras, left = run_interruptibly(self._baseline_phase(server))
        with self.started("speculative", servers.speculative, servers) as server:
            ended, more = run_interruptibly(self._speculative_phase(server, extras, left))
        if not more:
            return ended
        first = len(self.record.answered("baseline", self.settings.main))
        self.record.note(f"the first {first} prompts left the question open: the baseline was started a second time")
        with self.started("baseline", servers.baseline, servers) as server:
            return run_interruptibly(self._baseline_again(server, more, ended))

    async def _baseline_phase(self, server: Server) -> tuple[list[tuple[Setting, Round]], tuple[Round, ...]]:
        """What the speculative server is compared with: the other settings, in their order, and rounds that are left.

        Left are rounds of the asked concurrency whose seconds would be wasted where the first ones settle it; their
        part of the budget is kept for them.
        """
        async with self.opened("baseline", server.url, server) as arm:
            check_arm(arm.facts, speculates=False)
            await self.fit(arm)
            rounds, main_s = self.divide().rounds, self._main_budget_s()
            left: tuple[Round, ...] = ()
            for number, round_ in enumerate(rounds):
                if number and not self._worth_asking(arm, round_):
                    left = rounds[number:]
                    arm.reserved_s = max(main_s - arm.spending.budgeted_s, 0.0)
                    break
                if not await self.rounds(arm, self.settings.main, [round_], until_s=main_s):
                    break
            extras: list[tuple[Setting, Round]] = []
            while (setting := self.next_setting(arm, extras)) is not None:
                round_ = self.take(setting)
                extras.append((setting, round_))
                await self.rounds(arm, setting, [round_], until_s=self.settings.budget_s - arm.reserved_s)
            return extras, left

    def _main_budget_s(self) -> float:
        return (MAIN_BUDGET if self.divide().rest else 1.0) * self.settings.budget_s

    def _worth_asking(self, arm: ArmUnderProbe, round_: Round) -> bool:
        """Whether the baseline's next round costs less now than another start would later, if it is needed at all."""
        answered, more = len(self.record.answered(arm.name, self.settings.main)), count_prompts(round_)
        if answered < MIN_PAIRS:
            return True
        return another_round_pays(
            answered, more, round_s=arm.spending.measuring_s / answered * more,
            start_s=arm.spending.start_up_s + arm.spending.warm_up_s, level=self.settings.level,
            looks=len(self.divide().rounds),
        )  # fmt: skip

    async def _speculative_phase(
        self, server: Server, extras: Sequence[tuple[Setting, Round]], left: Sequence[Round]
    ) -> tuple[str, tuple[Round, ...]]:
        """Why it ended, and the rounds that the baseline has yet to answer."""
        async with self.opened("speculative", server.url, server) as arm:
            check_arm(arm.facts, speculates=True)
            await self.fit(arm)
            main, main_s = self.settings.main, self._main_budget_s()
            answered = self.record.answered("baseline", main)
            asked = self.divide().rounds[: len(self.divide().rounds) - len(left)]
            rounds = [r for r in (_only(round_, answered) for round_ in asked) if r]
            self.record.looks[main] = max(len(rounds) + len(left), 1)
            ended = "too few prompts"
            for number, round_ in enumerate(rounds):
                whole = await self.rounds(arm, main, [round_], until_s=self.settings.budget_s)
                if self.look(main, number + 1) is not None:
                    ended = "settled"
                    break
                ended = "the prompts ended first" if whole else "the budget ended first"
            if ended == "the prompts ended first" and len(answered) < sum(count_prompts(round_) for round_ in asked):
                ended = "the budget ended first"
            more: tuple[Round, ...] = ()
            if left and ended == "the prompts ended first":
                more = self._enough(left)
                whole = await self.rounds(arm, main, more, until_s=main_s)
                ended = ended if len(more) == len(left) else "it took more prompts than the first ones let expect"
                ended = ended if whole else "the budget ended first"
                spoken = self.record.answered("speculative", main)
                more = tuple(kept for kept in (_only(round_, spoken) for round_ in more) if kept)
            for setting, round_ in extras:
                kept = _only(round_, self.record.answered("baseline", setting))
                if kept and arm.left_s > 0.0:
                    await self.rounds(arm, setting, [kept], until_s=self.settings.budget_s)
                    self.look(setting, 1)
            return ended, more

    def _enough(self, left: Sequence[Round]) -> tuple[Round, ...]:
        """As many of the rounds as should settle it, going by what the first ones showed; all where nothing shows."""
        main = self.settings.main
        deciding, pairs = self.record.deciding(main), len(self.record.answered("speculative", main))
        if deciding is None:
            return tuple(left)
        needed = pairs_needed(deciding, self.settings.min_speedup, looks=self.record.looks[main])
        taken: list[Round] = []
        for round_ in left:
            if pairs >= needed:
                break
            taken.append(round_)
            pairs += count_prompts(round_)
        return tuple(taken) or tuple(left[:1])

    async def _baseline_again(self, server: Server, more: Sequence[Round], ended: str) -> str:
        """The rounds that the speculative server has answered meanwhile; `ended`: why there are no more of them."""
        async with self.opened("baseline", server.url, server) as arm:
            await self.fit(arm)
            main, seen = self.settings.main, self.record.looks[self.settings.main] - len(more)
            for number, round_ in enumerate(more):
                whole = await self.rounds(arm, main, [round_], until_s=self.settings.budget_s)
                if self.look(main, seen + number + 1) is not None:
                    return "settled"
                if not whole:
                    return "the budget ended first"
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
        if different_roots(base.facts, spec.facts):
            self.record.note(
                f"the servers were loaded from {base.facts.root} and {spec.facts.root}: they are taken for the same "
                f"weights, since both serve them as {spec.facts.model}"
            )
        await self.fit(base)
        await self.fit(spec)
        blocks, main = self.divide(), self.settings.main
        self.record.looks[main] = len(blocks.rounds)
        ended = "the prompts ended first"
        for number, round_ in enumerate(blocks.rounds):
            whole = await self._both(base, spec, main, round_, until_s=self._main_budget_s())
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
