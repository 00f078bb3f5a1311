"""A wave measures what was served: counts exactly, times by the client's clock, faults as records."""

import asyncio
import time

import pytest

from profiler.errors import EndpointError
from profiler.load import Endpoint, Patience, RequestPlan, Served, Wave, run_wave
from profiler.load.client import served_models
from profiler.load.wave import BUDGET_ENDED, INTERRUPTED
from profiler.prompts.sample import Message, Prompt
from tests.fake_vllm import Knobs, fake_vllm

PROMPTS = [(i, Prompt(messages=(Message("user", f"say {i} words please"),), max_tokens=20)) for i in range(12)]
PLAN = RequestPlan(model="fake")


def wave(
    url: str, *, plan: RequestPlan = PLAN, concurrency: int = 4, timeout_s: float = 20.0, **options: object
) -> Wave:
    async def go() -> Wave:
        async with Endpoint(url, request_timeout_s=timeout_s).session() as session:
            return await run_wave(session, plan, PROMPTS, concurrency=concurrency, **options)

    return asyncio.run(go())


def test_concurrency_is_constant_and_every_prompt_goes_once() -> None:
    """Never more than the asked number in flight, that number reached, each prompt sent exactly once."""
    with fake_vllm() as server:
        measured = wave(server.url)
    assert server.most_in_flight == 4
    assert [s.index for s in measured.served] == list(range(12))
    assert len(server.bodies) == 12
    assert len({b["messages"][0]["content"] for b in server.bodies}) == 12


def test_counts_and_counters_agree() -> None:
    """Output tokens are the server's, and the counters' difference over the wave is what was served in it."""
    knobs = Knobs(tokens_per_step=3, num_speculative_tokens=4)
    with fake_vllm(knobs) as server:
        wave(server.url)
        measured = wave(server.url)
    assert sum(s.output_tokens or 0 for s in measured.whole) == 240
    assert measured.window is not None
    assert measured.window.generation_tokens == 240
    assert measured.window.requests == 12
    assert measured.window.speculation is not None
    # 19 tokens after the first in steps of 3: 6 whole steps and one of 1, so 12 accepted in 7 drafts.
    assert measured.window.speculation.drafts == 7 * 12
    assert measured.window.speculation.accepted_tokens == 12 * 12


def test_times_follow_the_server() -> None:
    """TTFT holds the server's delay; TPOT counts tokens, not chunks: three tokens a step, a third of its time."""
    slow = Knobs(ttft_s=0.1, step_s=0.03)
    with fake_vllm(slow) as server:
        one = wave(server.url, concurrency=12).whole
        server.knobs.tokens_per_step = 3
        three = wave(server.url, concurrency=12).whole
    assert all((s.ttft_ms or 0) >= 100 for s in one)
    tpot = [sorted(s.tpot_ms or 0 for s in served)[6] for served in (one, three)]
    assert tpot[0] >= 30
    assert tpot[1] < 0.6 * tpot[0]


def test_overrides_reach_the_request() -> None:
    """Temperature and max_tokens that are named win over the prompt's own; unnamed ones stay."""
    plan = RequestPlan(model="fake", temperature=0.0, max_tokens=3, ignore_eos=True)
    with fake_vllm() as server:
        wave(server.url, plan=plan)
        wave(server.url)
    assert {(b["temperature"], b["max_tokens"], b["ignore_eos"]) for b in server.bodies[:12]} == {(0.0, 3, True)}
    assert {("temperature" in b, b["max_tokens"]) for b in server.bodies[12:]} == {(False, 20)}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("status 500", "HTTP 500"),
        ("status 429", "HTTP 429"),
        ("broken json", "broken JSON"),
        ("cut stream", "ended before"),
        ("no usage", "usage"),
    ],
)
def test_faults_are_records_and_stop_the_wave(fault: str, said: str) -> None:
    """A fault is told with what was seen; what came before it is kept; a dead server is not asked for ever."""
    with fake_vllm(Knobs(fault=fault, fault_after=3)) as server:
        measured = wave(server.url, concurrency=1, max_failures=2, patience=Patience(attempts=2, first_wait_s=0.01))
    assert len(measured.whole) == 3
    failed = [s for s in measured.served if not s.ok]
    assert len(failed) == 2
    assert all(said in (s.error or "") for s in failed)
    assert measured.stopped_early is not None


def test_a_hanging_server_times_out() -> None:
    """No answer within the timeout is an error of that request."""
    with fake_vllm(Knobs(fault="hang")) as server:
        measured = wave(server.url, concurrency=2, timeout_s=0.5, max_failures=2)
    assert not measured.whole
    assert measured.served[0].error == "no answer in time"


def test_a_restart_inside_a_wave_is_said() -> None:
    """Counters that fall back to zero are noted."""
    with fake_vllm(Knobs(num_speculative_tokens=2)) as server:
        wave(server.url)

        def restart(record: Served) -> None:
            if record.index == 5:
                server.restart()

        measured = wave(server.url, on_served=restart, concurrency=1)
    assert measured.window is not None
    assert measured.window.restarted
    assert measured.notes


def test_a_budget_sends_nothing_new() -> None:
    """After the deadline what is in flight is finished and the rest is left, named."""
    with fake_vllm(Knobs(ttft_s=0.2)) as server:
        measured = wave(server.url, concurrency=2, deadline_s=0.0)
    assert measured.stopped_early == "the budget ended"
    assert not measured.served


def test_a_server_without_metrics_still_measures() -> None:
    """No /metrics: latencies are there, counters are not."""
    with fake_vllm(Knobs(with_metrics=False)) as server:
        measured = wave(server.url)
    assert measured.window is None
    assert len(measured.whole) == 12


def test_throughput_is_of_the_steady_part() -> None:
    """Tokens per second of the full load, not diluted by the last requests running alone."""
    with fake_vllm(Knobs(ttft_s=0.05, step_s=0.01)) as server:
        measured = wave(server.url, concurrency=5)
    begin, end = measured.steady_span()
    assert measured.started_s <= begin < end <= measured.started_s + measured.seconds
    rate = measured.output_tokens_per_s
    assert rate is not None
    assert rate > 240 / measured.seconds


@pytest.mark.parametrize(("key", "said"), [(None, "refuses the API key"), ("wrong", "refuses the API key")])
def test_a_refused_key_is_said(key: str | None, said: str) -> None:
    """A missing or wrong key is one line that says so."""

    async def ask(url: str) -> None:
        async with Endpoint(url, api_key=key).session() as session:
            await served_models(session, url=url)

    with fake_vllm(Knobs(api_key="right")) as server, pytest.raises(EndpointError, match=said):
        asyncio.run(ask(server.url))


def test_nothing_there_is_said() -> None:
    """A closed port is one line with the address."""

    async def ask() -> None:
        async with Endpoint("http://127.0.0.1:9").session() as session:
            await served_models(session, url="http://127.0.0.1:9")

    with pytest.raises(EndpointError, match="does not answer"):
        asyncio.run(ask())


def test_a_wave_that_is_cancelled_hands_over_what_was_answered() -> None:
    """Ctrl-C cancels the task: whole answers are kept, with the counters until then; what was in flight is counted."""
    kept: list[Wave] = []

    async def go(url: str) -> None:
        async with Endpoint(url).session() as session:
            task = asyncio.current_task()
            assert task is not None

            def served(record: Served) -> None:
                if record.index == 5:
                    task.cancel()

            await run_wave(session, PLAN, PROMPTS, concurrency=2, on_served=served, on_cut=kept.append)

    with (
        fake_vllm(Knobs(num_speculative_tokens=2, tokens_per_step=2)) as server,
        pytest.raises(asyncio.CancelledError),
    ):
        asyncio.run(go(server.url))
    (cut,) = kept
    assert cut.stopped_early == INTERRUPTED
    assert 5 <= len(cut.whole) <= 7
    assert cut.abandoned <= 2
    assert cut.window is not None
    assert cut.window.requests is not None
    assert len(cut.whole) <= cut.window.requests <= len(cut.whole) + cut.abandoned
    assert cut.seconds > 0


def test_a_listener_that_fails_costs_no_answer() -> None:
    """A closed pipe in a progress line ends the wave, not what it measured; no request goes on behind our back."""
    kept: list[Wave] = []

    def served(record: Served) -> None:
        if record.index >= 3:
            raise BrokenPipeError

    with fake_vllm(Knobs()) as server:
        with pytest.raises(BrokenPipeError):
            wave(server.url, concurrency=2, on_served=served, on_cut=kept.append)
        sent = len(server.bodies)
    assert 3 <= len(kept[0].whole) <= 5
    assert sent <= 6


def test_a_hanging_server_does_not_hold_up_an_interruption() -> None:
    """The last look at the counters is bounded, and what was answered before is kept all the same."""
    kept: list[Wave] = []

    async def go(url: str) -> float:
        async with Endpoint(url).session() as session:
            task = asyncio.create_task(run_wave(session, PLAN, PROMPTS, concurrency=2, on_cut=kept.append))
            while len(server.bodies) < 4:
                await asyncio.sleep(0.01)
            server.knobs.metrics_delay_s = 60.0
            begun = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return time.monotonic() - begun

    with fake_vllm(Knobs(fault="hang", fault_after=2)) as server:
        assert asyncio.run(go(server.url)) < 5.0
    assert len(kept[0].whole) == 2
    assert kept[0].window is None


@pytest.mark.parametrize(
    ("status", "retry_after", "in_stream"),
    [(429, None, False), (429, "0.05", False), (503, None, False), (503, None, True)],
)
def test_a_request_that_is_put_off_is_sent_again_and_counted(
    status: int, retry_after: str | None, in_stream: bool
) -> None:
    """Every prompt is answered in the end, timed from its last sending; how often it was put off is in the wave."""
    knobs = Knobs(put_off=6, put_off_status=status, retry_after=retry_after, put_off_in_stream=in_stream)
    with fake_vllm(knobs) as server:
        measured = wave(server.url, concurrency=3, patience=Patience(first_wait_s=0.1))
    assert len(measured.whole) == 12
    assert measured.put_off == 6
    assert measured.stopped_early is None
    again = [s for s in measured.served if s.retries]
    assert sum(s.retries for s in again) == 6
    assert all(s.waited_s > 0 for s in again)
    assert sum(s.waited_s for s in again) > sum((s.end_to_end_ms or 0) for s in again) / 1000 - 0.1 * len(again)


def test_a_limit_before_the_server_costs_concurrency_not_prompts() -> None:
    """A gateway that lets two through at once: all are answered, and the wave knows how often it was put off."""
    with fake_vllm(Knobs(most_at_once=2)) as server:
        measured = wave(
            server.url, concurrency=6, patience=Patience(attempts=50, first_wait_s=0.02, longest_wait_s=0.1)
        )
    assert len(measured.whole) == 12
    assert server.most_in_flight == 2
    assert measured.put_off > 6
    assert measured.mean_in_flight is not None
    assert measured.mean_in_flight < 3


def test_a_budget_that_ends_while_requests_wait_is_no_failure() -> None:
    """A server that puts all off until the end is not said to have failed: the budget ended first."""
    with fake_vllm(Knobs(put_off=10**6)) as server:
        measured = wave(server.url, concurrency=3, deadline_s=time.monotonic() + 1.0, patience=Patience(attempts=99))
    assert measured.stopped_early == BUDGET_ENDED
    assert not measured.served
    assert measured.abandoned == 0
    assert measured.put_off > 3
