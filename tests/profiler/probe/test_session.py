"""A session measures what the servers do, each prompt once, in the same order, and refuses what cannot be compared."""

import pytest

from profiler.errors import EndpointError, InputError, PromptsError
from profiler.load import Patience
from profiler.probe.events import Event
from profiler.probe.profile import Profile
from profiler.probe.settings import Attached
from tests.fake_vllm import Knobs, fake_vllm
from tests.profiler.probe.servers import FAST, SLOW, profile_of, prompts, session


def measured_texts(bodies: list[dict]) -> list[str]:
    """What was sent as it stands in the sample; warm-ups have their words in reverse."""
    texts = [b["messages"][0]["content"] for b in bodies]
    return [text for text in texts if text.startswith("say")]


def test_a_clear_difference_is_settled_in_the_first_round() -> None:
    """Three tokens a step are settled after 16 pairs; both arms got the same prompts once, in the same order."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url))
        assert run.run() == "settled"
        profile = profile_of(run)
    assert measured_texts(base.bodies) == measured_texts(spec.bodies)
    assert len(set(measured_texts(base.bodies))) == len(measured_texts(base.bodies)) == 16
    assert profile.decision.verdict == "enable"
    assert profile.decision.decisive
    point = profile.points[0]
    assert point.pairs == 16
    assert point.tpot is not None
    assert 2.0 < point.tpot.value < 4.5  # 3 on an idle host
    assert point.identical_share == 1.0
    assert point.tpot.looks == 3


def test_acceptance_is_what_the_server_counted() -> None:
    """12 tokens after the first in steps of three: four drafts of four tokens, two accepted in each."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url))
        run.run()
        counts = profile_of(run).acceptance
    assert counts is not None
    assert counts.drafts == 4 * 16
    assert counts.accepted_tokens == 8 * 16
    assert counts.accepted_per_position == (64, 64, 0, 0)
    assert counts.decode_tokens == 12 * 16
    assert counts.acceptance_length == 3.0
    assert counts.tokens_per_step == 3.0


@pytest.mark.parametrize("per_request", [True, False])
def test_acceptance_is_told_by_class(per_request: bool) -> None:
    """By request where the server tells it, else by waves of one class; either way all prompts of the class count."""
    names = ["code" if i % 2 else "chat" for i in range(64)]
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST, per_request=per_request)) as spec:
        run = session(
            Attached(speculative_url=spec.url, baseline_url=base.url), n=64, structure=names, min_speedup=2.4,
            objective="tpot", confidence=0.9999, one_class_per_wave=not per_request,
        )  # fmt: skip
        run.run()
        profile = profile_of(run)
    assert set(profile.structure) == {"chat", "code"}
    waves = {w.structure for w in profile.waves if w.arm == "speculative"}
    assert waves == ({"mixed"} if per_request else {"chat", "code"})
    total = sum(c.drafts for c in profile.structure.values())
    assert profile.acceptance is not None
    assert total == profile.acceptance.drafts


def test_no_difference_ends_with_the_prompts_and_says_so() -> None:
    """Servers that differ by chance alone are not decisive at 1; all pairs are looked at, and that is what is said."""
    noisy = {**SLOW, "jitter_s": 0.3}
    with fake_vllm(Knobs(**noisy)) as base, fake_vllm(Knobs(**noisy, num_speculative_tokens=4)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), min_speedup=1.0, confidence=0.99999)
        ended = run.run()
        profile = profile_of(run, ended)
    assert ended == "the prompts ended first"
    assert not profile.decision.decisive
    assert "the prompts ended first" in profile.decision.text
    assert any("no drafted token at all" in note for note in profile.notes)


def test_the_budget_ends_what_is_not_settled() -> None:
    """A budget shorter than a round ends the session after what was in flight, with what was measured."""
    slow = {"ttft_s": 0.5, "step_s": 0.05}
    with fake_vllm(Knobs(**slow)) as base, fake_vllm(Knobs(**slow, num_speculative_tokens=2)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=200, budget_s=2.0)
        ended = run.run()
        profile = profile_of(run, ended)
    assert ended == "the budget ended first"
    assert "the budget ended first" in profile.decision.text
    assert not profile.decision.decisive
    assert profile.points[0].pairs <= 4
    assert all(s.budgeted_s < 10 for s in run.spending.values())


def test_left_over_budget_brackets_the_crossover() -> None:
    """Other concurrencies follow once the asked one is settled, each with prompts of its own."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=200, look_around=True, concurrency=2)
        run.run()
        profile = profile_of(run)
    seen = [p.concurrency for p in profile.points]
    assert seen[0] == 2
    assert len(seen) > 2
    assert len(set(seen)) == len(seen)
    assert len(set(measured_texts(base.bodies))) == len(measured_texts(base.bodies))


def test_another_temperature_is_a_point_of_its_own() -> None:
    """Named temperatures are sent and measured beside the prompts' own."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=80, also_temperatures=(0.7,))
        run.run()
        profile = profile_of(run)
    assert [(p.concurrency, p.sent_temperature) for p in profile.points] == [(4, 0.0), (4, 0.7)]
    assert profile.points[1].identical_share is None
    assert {b["temperature"] for b in spec.bodies} == {0.0, 0.7}


def test_one_server_tells_its_acceptance() -> None:
    """Without a baseline there is no speedup, but all that is accepted is counted."""
    with fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url), n=6)
        run.run()
        profile = profile_of(run)
    assert profile.decision.verdict is None
    assert profile.acceptance is not None
    assert profile.acceptance.acceptance_length == 3.0
    assert "acceptance length 3.00" in profile.decision.text


def test_a_server_without_metrics_is_measured_all_the_same() -> None:
    """The speedup comes from the client's clock; acceptance is unknown and said to be."""
    with fake_vllm(Knobs(**SLOW, with_metrics=False)) as base, fake_vllm(Knobs(**FAST, with_metrics=False)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url))
        assert run.run() == "settled"
        profile = profile_of(run)
    assert profile.acceptance is None
    assert any("no /metrics" in note for note in profile.notes)


def test_prompts_that_do_not_fit_are_left_out_and_said() -> None:
    """The server's own tokenizer decides; an answer that no longer fits is cut, not refused."""
    sample = [*prompts(30), *prompts(2, max_tokens=40)]
    long = prompts(1)[0]
    sample.append(type(long)(messages=(type(long.messages[0])("user", "say " + "word " * 60),), max_tokens=13,
                             temperature=0.0))  # fmt: skip
    short = {"max_model_len": 45}
    with fake_vllm(Knobs(**SLOW, **short)) as base, fake_vllm(Knobs(**FAST, **short)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), sample=sample, confidence=0.9999,
                      min_speedup=2.3)  # fmt: skip
        run.run()
        profile = profile_of(run)
    assert any(r.why.startswith("longer than max_model_len") and r.count == 1 for r in profile.refused)
    assert not any(w.failed for w in profile.waves)
    assert max(b["max_tokens"] for b in base.bodies) < 40


def test_where_nobody_can_count_the_server_refuses_and_that_is_counted() -> None:
    """Without /tokenize a prompt that is too long costs its own place alone, not the wave."""
    sample = [*prompts(20), *prompts(8, max_tokens=3000)]
    with (
        fake_vllm(Knobs(**SLOW, with_tokenize=False)) as base,
        fake_vllm(Knobs(**FAST, with_tokenize=False)) as spec,
    ):
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), sample=sample, confidence=0.9999)
        run.run()
        profile = profile_of(run)
    refused = [r for r in profile.refused if r.why == "longer than the server's context"]
    assert sum(r.count for r in refused) == 8
    assert profile.points[0].pairs == 20


def test_a_base_model_without_template_gets_completions() -> None:
    """Where chat is refused for lack of a template, the same texts go to /v1/completions."""
    with fake_vllm(Knobs(**SLOW, chat=False)) as base, fake_vllm(Knobs(**FAST, chat=False)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url))
        assert run.run() == "settled"
    assert any("prompt" in body for body in base.bodies)


@pytest.mark.parametrize(
    ("base", "spec", "said"),
    [
        (FAST, FAST, "the baseline"),
        (SLOW, SLOW, "does not speculate"),
        ({**SLOW, "owned_by": "someone", "version": None, "with_metrics": False}, FAST, "is no vLLM server"),
        ({**SLOW, "api_key": "secret"}, FAST, "refuses the API key"),
        ({**SLOW, "fault": "status 500"}, FAST, "answers no request"),
        ({**SLOW, "fault": "status 429"}, FAST, "answers no request"),
    ],
)
def test_servers_that_cannot_be_compared_are_refused(base: dict, spec: dict, said: str) -> None:
    """What they are is asked before anything is measured."""
    with fake_vllm(Knobs(**base)) as one, fake_vllm(Knobs(**spec)) as two:
        run = session(Attached(speculative_url=two.url, baseline_url=one.url))
        with pytest.raises(EndpointError) as told:
            run.run()
    assert said in told.value.line()
    assert "\n" not in told.value.line()
    assert not run.record.waves


def test_a_model_that_is_not_served_is_refused_with_those_that_are() -> None:
    """The served names stand in the message."""
    with fake_vllm(Knobs(**FAST)) as spec, pytest.raises(EndpointError, match="'fake'"):
        session(Attached(speculative_url=spec.url, model="other")).run()


def test_one_server_under_two_addresses_is_refused() -> None:
    """localhost and 127.0.0.1 with one port are one server."""
    with fake_vllm(Knobs(**FAST)) as spec:
        other = spec.url.replace("127.0.0.1", "localhost")
        with pytest.raises(EndpointError, match="same server"):
            session(Attached(speculative_url=spec.url, baseline_url=other)).run()


def test_nothing_there_is_refused() -> None:
    """An address that nobody answers at is told as such."""
    with pytest.raises(EndpointError, match="does not answer"):
        session(Attached(speculative_url="http://127.0.0.1:9")).run()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("status 500", "HTTP 500"),
        ("status 429", "HTTP 429"),
        ("broken json", "broken JSON"),
        ("cut stream", "the stream ended"),
        ("hang", "no answer in time"),
        ("no usage", "no usage"),
    ],
)
def test_a_server_that_fails_in_a_wave_ends_the_session_with_what_was_measured(fault: str, said: str) -> None:
    """After 18 answers (4 of them warm-up) the fault comes: what was answered is kept, the reason is one line."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST, fault=fault, fault_after=18)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=28, stall_timeout_s=0.5)
        with pytest.raises(EndpointError) as told:
            run.run()
        profile = profile_of(run)
    assert said in told.value.line()
    assert profile.points[0].pairs == 14
    assert profile.points[0].end_to_end is not None
    assert any(said in r.why for r in profile.refused)


def test_a_restart_voids_the_counters_of_its_wave_alone() -> None:
    """Counters that fell back to zero are not subtracted; times and other waves stay."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST, fault="restart", fault_after=24)) as spec:
        names = ["chat"] * 14 + ["code"] * 14
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=28, structure=names)
        run.run()
        profile = profile_of(run)
    speculative = [w for w in profile.waves if w.arm == "speculative"]
    assert [w.speculation is None for w in speculative] == [False, True]
    assert profile.acceptance is not None
    assert profile.acceptance.drafts == 4 * 14
    assert any("restarted" in note for note in profile.notes)


@pytest.mark.parametrize("sample", [prompts(20, temperature=0.7), prompts(20, temperature=None)])
def test_sampling_on_a_cpu_server_is_refused_with_the_reason(sample: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU build says so in its version; above temperature 0 its acceptance is gibberish."""
    with fake_vllm(Knobs(**FAST, version="0.32.0+cpu")) as spec:
        run = session(Attached(speculative_url=spec.url), sample=sample)
        with pytest.raises(InputError, match="55005"):
            run.run()
        assert session(Attached(speculative_url=spec.url), sample=sample, temperature=0.0).run()


def test_too_few_prompts_are_said_not_hidden() -> None:
    """Below eight pairs there is no interval; few for the concurrency is a note."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        both = Attached(speculative_url=spec.url, baseline_url=base.url)
        with pytest.raises(PromptsError, match="too few prompts"):
            session(both, n=5).run()
        run = session(both, n=12)
        run.run()
    assert any("12 prompts are few" in note for note in run.record.notes)


def test_a_profile_survives_its_file() -> None:
    """What is written reads back as the same, and nothing of it can be changed."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=24)
        run.run()
        profile = profile_of(run)
    assert Profile.model_validate_json(profile.model_dump_json()) == profile
    with pytest.raises(ValueError, match="frozen"):
        profile.status = "partial"  # type: ignore[misc]


def test_events_tell_phase_wave_rate_acceptance_and_time_left() -> None:
    """What a progress bar needs is in the events."""
    events: list[Event] = []
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        session(Attached(speculative_url=spec.url, baseline_url=base.url), events=events).run()
    kinds = [event.kind for event in events]
    assert {"phase", "wave_started", "progress", "wave_finished", "look"} <= set(kinds)
    told = next(e for e in reversed(events) if e.kind == "progress")
    assert {"arm", "concurrency", "structure", "answered", "output_tokens_per_s", "left_s"} <= set(told.values)


def test_requests_that_are_put_off_are_told_not_hidden() -> None:
    """A gateway's limit costs no prompt; each wave counts it, and a note says that the concurrency was not kept."""
    patient = Patience(attempts=60, first_wait_s=0.02, longest_wait_s=0.1)
    with fake_vllm(Knobs(**SLOW, most_at_once=1)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=16, patience=patient)
        run.run()
        profile = profile_of(run)
    assert {w.arm: w.put_off > 0 for w in profile.waves} == {"baseline": True, "speculative": False}
    assert not profile.refused
    assert profile.points[0].pairs == 16
    (note,) = [note for note in profile.notes if "put off" in note and "429" in note]
    assert note.startswith("baseline:")
    assert any("in flight on average" in note and "put off" in note for note in profile.notes)


def test_what_is_odd_is_told_once_however_often_it_was_looked_at() -> None:
    """Three looks at texts that differ more and more are one note, of all that was measured."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST, answer="other ")) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=64, confidence=0.9999,
                      min_speedup=2.4, objective="tpot")  # fmt: skip
        run.run()
        profile = profile_of(run)
    assert run.record.looks[run.settings.main] > 1
    assert len([note for note in profile.notes if "same text" in note]) == 1


@pytest.mark.parametrize(
    ("knobs", "temperature", "told"),
    [
        ({"with_metrics": False}, 0.7, True),  # nothing tells
        ({"block_size": 128}, 0.7, True),  # a CPU's blocks, but on which host?
        ({"block_size": 16}, 0.7, False),  # not a CPU's
        ({"block_size": 128}, 0.0, False),  # right on a CPU, too
    ],
)
def test_where_a_cpu_cannot_be_told_that_is_said(
    knobs: dict, temperature: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server elsewhere does not say what it runs on; above temperature 0 the reader must know that."""
    monkeypatch.setattr("profiler.serving.inspection.is_local", lambda url: False)
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST, **knobs)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=16, temperature=temperature)
        run.run()
    notes = [note for note in run.record.notes if "cannot be told" in note]
    assert len(notes) == told
    assert all("55005" in note and spec.url in note for note in notes)


@pytest.mark.parametrize("one_name", [True, False])
def test_weights_from_two_places_are_compared_under_one_name_alone(one_name: bool) -> None:
    """The same model is mounted elsewhere on each host: one served name vouches for it, two are refused."""
    other = {"root": "/mnt/fake", "model": "fake" if one_name else "other"}
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST, **other)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=16)
        if one_name:
            run.run()
            assert any("/mnt/fake" in note for note in run.record.notes)
        else:
            with pytest.raises(EndpointError, match="different models"):
                run.run()


def test_a_queue_in_the_server_is_told() -> None:
    """Where --max-num-seqs is below the asked concurrency, the rest waits: TTFT holds the queue, and a note says so."""
    slow = {**SLOW, "step_s": 0.05}
    with fake_vllm(Knobs(**slow, waiting=2)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=16)
        run.run()
        notes = [note for note in profile_of(run).notes if "queue" in note]
    assert len(notes) == 1
    assert notes[0].startswith("baseline: of 4 requests 2.0 waited")


def test_no_more_is_warmed_up_than_can_be_in_flight() -> None:
    """A concurrency far above the number of prompts is no reason to send thousands of warm-ups."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        run = session(Attached(speculative_url=spec.url, baseline_url=base.url), n=16, concurrency=5000)
        run.run()
    assert len(base.bodies) == len(spec.bodies) == 16 + 16
    assert any("16 prompts are few for 5000" in note for note in run.record.notes)


def test_the_asked_temperature_named_again_is_no_other_point() -> None:
    """--temperature 0 --also-temperature 0 measures once: a second time would mix into the first's pairs."""
    with fake_vllm(Knobs(**SLOW)) as base, fake_vllm(Knobs(**FAST)) as spec:
        both = Attached(speculative_url=spec.url, baseline_url=base.url)
        run = session(both, n=80, temperature=0.0, also_temperatures=(0.0,))
        run.run()
        profile = profile_of(run)
    assert len(profile.points) == 1
    assert profile.points[0].pairs == 16
