"""What every kind of session is made of: opening servers, leaving out what does not fit, rounds, looks, fresh prompts.

The kinds of sessions themselves, which differ in when each server runs, are in `profiler.probe.session`.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from profiler.errors import EndpointError, PromptsError
from profiler.load import Endpoint, Wave
from profiler.metrics.gpu import find_gpus
from profiler.probe.arm import ArmUnderProbe, Spending, stopped_by_failures
from profiler.probe.bracketing import Planner, bracket
from profiler.probe.comparison import MIN_PAIRS
from profiler.probe.environment import Surroundings
from profiler.probe.events import Event, Listener, silent
from profiler.probe.profile import Arm, Profile
from profiler.probe.record import Record, Taken, wave_record
from profiler.probe.result import build_profile, speedups_seen
from profiler.probe.rounds import TURNOVERS, Blocks, Round, WavePlan, plan_blocks, plan_round
from profiler.probe.settings import (
    Attached,
    Launched,
    ProbeSettings,
    Question,
    Setting,
    refuse_sampling_on_cpu,
    sampled,
)
from profiler.serving.inspection import inspect_server
from profiler.serving.launch import ServeCommand, Server, launched, read_tail

MAX_EXTRAS = 8  # other settings; a crossover is bracketed to a quarter in fewer


class Conduct:
    """`record`, `surroundings` and `spending` hold what is known at any time, however the session ends."""

    def __init__(
        self,
        question: Question,
        settings: ProbeSettings,
        servers: Launched | Attached,
        *,
        planner: Planner | None = None,
        listen: Listener = silent,
        save: Callable[[], None] = lambda: None,
        one_class_per_wave: bool = True,
    ) -> None:
        """planner: names the next concurrency; without one they are doubled and halved. save: called after each wave.

        one_class_per_wave: unless the speculative server tells acceptance per request.
        """
        self.question, self.settings, self.servers = question, settings, servers
        self.record = Record(question, settings)
        self.surroundings = Surroundings(servers)
        self.spending: dict[Arm, Spending] = {}
        self.usable = dict(enumerate(question.prompts))
        self._plan_next = planner or self._bracket
        self._listen, self._save = listen, save
        self._one_class_per_wave = one_class_per_wave
        self._gpus = find_gpus()
        self._starts: Counter[Arm] = Counter()
        self._blocks: Blocks | None = None
        self._rest: list[int] = []

    def profile(self, *, status: Literal["complete", "partial"], ended: str, created: str) -> Profile:
        """The profile of what was measured until now."""
        return build_profile(
            self.record, status=status, ended=ended, created=created, environment=self.surroundings.environment(),
            spending=self.spending, gpus=self.surroundings.gpus_held, usable=len(self.usable),
        )  # fmt: skip

    @contextlib.contextmanager
    def started(self, arm: Arm, command: ServeCommand, servers: Launched) -> Iterator[Server]:
        """A server of ours for the length of a `with` block."""
        spending = self.spending.setdefault(arm, Spending())
        self._starts[arm] += 1
        number = self._starts[arm]
        log = Path(servers.log_folder) / (f"{arm}.log" if number == 1 else f"{arm}-{number}.log")
        before_s, begun = spending.start_up_s, time.monotonic()
        self._listen(Event("phase", f"{arm}: starting vLLM (log: {log})", {"arm": arm}))

        def tick(waited_s: float) -> None:
            self._listen(Event("progress", "", {"arm": arm, "starting_s": round(waited_s, 1)}))

        starting = True
        try:
            with launched(command, log=log, timeout_s=servers.start_timeout_s, tick=tick) as server:
                spending.start_up_s, starting = before_s + time.monotonic() - begun, False
                yield server
        finally:
            if starting:
                spending.start_up_s = before_s + time.monotonic() - begun
            else:
                self._listen(Event("phase", f"{arm}: server stopped", {"arm": arm}))

    @contextlib.asynccontextmanager
    async def opened(self, arm: Arm, url: str, server: Server | None = None) -> AsyncIterator[ArmUnderProbe]:
        """A server that answers, inspected, for the length of an `async with` block."""
        attached = self.servers if isinstance(self.servers, Attached) else None
        endpoint = Endpoint(
            url,
            api_key=self.servers.api_key,
            request_timeout_s=self.settings.request_timeout_s,
            stall_timeout_s=self.settings.stall_timeout_s,
            address=attached.addresses.get(url) if attached is not None else None,
        )

        def fail_if_dead() -> None:
            if server is not None and not server.is_running():
                raise server.failure()

        async with endpoint.session() as session:
            log = "" if server is None else read_tail(server.log)
            facts = await inspect_server(session, url=url, model=attached.model if attached else None, log_text=log)
            self.surroundings.learn(arm, facts, self._gpus)
            if facts.is_cpu:
                refuse_sampling_on_cpu(self.settings, self.question.prompts, where=f"the CPU server {url}")
            elif facts.is_cpu is None and arm == "speculative" and sampled(self.settings, self.question.prompts):
                self.record.note(
                    f"whether {url} runs on a CPU cannot be told from outside; if it does, its acceptance above "
                    "temperature 0 is not real (vllm-project/vllm#55005): measure with --temperature 0"
                )
            if not facts.has_metrics:
                self.record.note(
                    f"{arm}: no /metrics, so acceptance and load are unknown; times are measured all the same"
                )
            yield ArmUnderProbe(
                name=arm, endpoint=endpoint, session=session, facts=facts, settings=self.settings,
                spending=self.spending.setdefault(arm, Spending()), listen=self._listen, fail_if_dead=fail_if_dead,
                read_gpu_bytes=self._gpus.read_used_bytes,
            )  # fmt: skip

    async def fit(self, arm: ArmUnderProbe) -> None:
        """Leave out what is too long for this server."""
        too_long = await arm.fit_to_context(self.usable)
        for index in too_long:
            del self.usable[index]
        if too_long:
            reason = f"longer than max_model_len ({arm.facts.max_model_len:,} tokens)"
            self.record.refused["a prompt", reason] += len(too_long)
            self.record.note(f"{len(too_long)} prompts are {reason} and are left out")
        if arm.answer_limits:
            self.record.note(f"{arm.name}: {len(arm.answer_limits)} answers are cut shorter to fit max_model_len")
        self.check_prompts()

    def check_prompts(self) -> None:
        """Refuse what is too little to measure. Raises PromptsError."""
        if not self.usable:
            raise PromptsError(
                "no prompt is left that this server could answer", expected="prompts that fit its context"
            )
        if len(self.usable) < MIN_PAIRS and not (isinstance(self.servers, Attached) and not self.servers.baseline_url):
            raise PromptsError(
                "too few prompts for a comparison",
                expected=f"at least {MIN_PAIRS}, better {TURNOVERS} times the concurrency",
                got=f"{len(self.usable)} that can be sent",
            )

    def divide(self) -> Blocks:
        """The prompts of the asked concurrency and the rest; made once, by the first server."""
        if self._blocks is None:
            concurrency = self.settings.concurrency
            structure = {index: self.question.structure[index] for index in self.usable}
            self._blocks = plan_blocks(
                structure, concurrency=concurrency, one_class_per_wave=self._one_class_per_wave,
                look_around=self.settings.look_around or bool(self.settings.also_temperatures), seed=self.settings.seed,
            )  # fmt: skip
            self._rest = list(self._blocks.rest)
            wanted = TURNOVERS * concurrency
            if len(self.usable) < wanted:
                self.record.note(
                    f"{len(self.usable)} prompts are few for {concurrency} at once: {wanted} or more would keep the "
                    "server loaded; each is sent once only, since caches would answer it the second time"
                )
        return self._blocks

    async def rounds(self, arm: ArmUnderProbe, setting: Setting, rounds: Sequence[Round], *, until_s: float) -> bool:
        """Measure rounds until `until_s` of this server's budget is spent; whether all were measured whole."""
        for round_ in rounds:
            for planned in round_:
                if arm.spending.budgeted_s >= until_s:
                    return False
                shapes = [self.question.prompts[i] for i in planned.prompts]
                await arm.warm_up(setting, shapes)

                def keep(wave: Wave, planned: WavePlan = planned) -> None:
                    if wave.served:
                        self.record.add(Taken(arm.name, setting, planned, wave))

                wave = await arm.measure(setting, planned, self.usable, until_s=until_s, on_cut=keep)
                self.record.add(Taken(arm.name, setting, planned, wave))
                for note in wave.notes:
                    self.record.note(f"{arm.name}: {note}; its counters are not used")
                self._save()  # first, so that whoever hears of a wave can rely on it
                self._tell_wave(arm)
                if stopped_by_failures(wave):
                    arm.fail_if_dead()
                    limited = wave.put_off and "raise its limit of rate or queue, or lower --concurrency"
                    raise EndpointError(
                        f"the {arm.name} server {arm.facts.url} failed during a wave", got=wave.stopped_early,
                        remedy=limited or "see its log",
                    )  # fmt: skip
                if wave.stopped_early is not None:
                    return False
        return True

    def _tell_wave(self, arm: ArmUnderProbe) -> None:
        last = wave_record(self.record.waves[-1])
        rate = f", {last.output_tokens_per_s:.0f} tokens/s" if last.output_tokens_per_s else ""
        length = last.speculation.acceptance_length if last.speculation else None
        accepted = f", acceptance length {length:.2f}" if length else ""
        failed = f", {last.failed} failed" if last.failed else ""
        text = f"{arm.name}: {last.answered} answered in {last.seconds:.1f} s{rate}{accepted}{failed}"
        self._listen(Event("wave_finished", text, last.model_dump(mode="json")))

    def look(self, setting: Setting, number: int) -> str | None:
        """What the pairs say now."""
        found = self.record.comparison(setting)
        if found is None:
            return None
        ratio = found.end_to_end
        settled = self.record.settled(setting)
        text = f"{setting.concurrency} at once: {ratio.value:.2f}x ({ratio.low:.2f} to {ratio.high:.2f}) end to end"
        values = {"concurrency": setting.concurrency, "look": number, "pairs": ratio.pairs, "value": ratio.value,
                  "low": ratio.low, "high": ratio.high, "settled": settled}  # fmt: skip
        self._listen(Event("look", text + (f": {settled} than asked" if settled else ""), values))
        return settled

    def next_setting(self, arm: ArmUnderProbe, extras: Sequence[tuple[Setting, Round]]) -> Setting | None:
        """Where the rest of the budget goes: other temperatures first, then other concurrencies."""
        seen = {setting for setting, _ in extras}
        for temperature in self.settings.also_temperatures:
            setting = Setting(self.settings.concurrency, temperature)
            if setting != self.settings.main and setting not in seen and self._affordable(arm, setting):
                return setting
        if not self.settings.look_around or len(extras) >= MAX_EXTRAS:
            return None
        concurrency = self._plan_next(speedups_seen(self.record, self.settings))
        if concurrency is None:
            return None
        setting = replace(self.settings.main, concurrency=concurrency)
        return setting if setting not in seen and self._affordable(arm, setting) else None

    def _affordable(self, arm: ArmUnderProbe, setting: Setting) -> bool:
        """Whether prompts and budget suffice for a comparison there."""
        times = [s.end_to_end_ms / 1000.0 for s in self.record.served(arm.name, self.settings.main)
                 if s.ok and s.end_to_end_ms is not None]  # fmt: skip
        mean_s = sum(times) / len(times) if times else 0.0
        enough = max(MIN_PAIRS, 2 * setting.concurrency)
        needed_s = mean_s * (enough / setting.concurrency + 1.0)  # the warm-up's and the tail's share added
        return len(self._rest) >= enough and arm.left_s > needed_s

    def take(self, setting: Setting) -> Round:
        """Fresh prompts for another setting."""
        count = min(len(self._rest), max(TURNOVERS * setting.concurrency, 2 * MIN_PAIRS))
        taken, self._rest = self._rest[:count], self._rest[count:]
        structure = {index: self.question.structure[index] for index in taken}
        return plan_round(taken, structure, setting.concurrency, one_class_per_wave=False)

    def _bracket(self, seen: Mapping[int, float | None]) -> int | None:
        most = max(len(self._rest) // 2, 1)
        return bracket(seen, threshold=self.settings.min_speedup, most=most)
