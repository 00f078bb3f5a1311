"""The whole flow: verdicts that were measured, and what every answer must hold."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.advise import advise
from advisor.request import RecommendationRequest
from profiler.errors import DeploymentError, EvidenceError, InputError, PromptsError, UnknownNameError
from tests.advisor.deployments import DRAFT_K3, EAGLE3_K3, NGRAM_K4, ask, body, codes, counts

_DRAFT = "deployment.speculation.draft"

# What was measured on an H200 under vLLM 0.26.0 (end to end, believed to 10 %): shape -> verdict at 1.05.
MEASURED = [
    ("eagle3", 1, 128, "enable"),
    ("eagle3", 16, 128, "enable"),
    ("eagle3", 32, 500, "enable"),
    ("eagle3", 128, 128, "disable"),
    ("draft_model", 1, 128, "disable"),
    ("draft_model", 16, 1000, "disable"),
    ("draft_model", 128, 128, "disable"),
    ("ngram", 1, 128, "enable"),
    ("ngram", 16, 128, "enable"),
    ("ngram", 128, 128, "disable"),
]
ARMS = {
    "eagle3": (EAGLE3_K3, counts(2.5)),
    "draft_model": (DRAFT_K3, counts(2.4)),
    "ngram": (NGRAM_K4, counts(2.0, k=4)),
}


@pytest.mark.parametrize(("method", "concurrency", "input_tokens", "verdict"), MEASURED)
def test_measured_verdicts(method, concurrency, input_tokens, verdict):
    """For Llama-3.1-8B on an H200 the verdicts are those of the measured speedups, with the acceptance that was set."""
    speculation, evidence = ARMS[method]
    traffic = {"concurrency": concurrency, "input_tokens": input_tokens}
    answer = ask(speculation=speculation, evidence=evidence, traffic=traffic)
    assert answer.verdict == verdict, answer.speedup
    assert answer.basis == "mixed"
    assert answer.acceptance.basis == "measured"


def test_ngram_that_never_drafts_is_disabled():
    """No draft in 2,000 tokens: one token a step, the cost remains."""
    evidence = {"drafts": 0, "drafted_tokens": 0, "accepted_tokens": 0, "decode_tokens": 2000, "temperature": 1.0}
    answer = ask(speculation=NGRAM_K4, evidence=evidence, traffic={"temperature": 1.0})
    assert answer.verdict == "disable"
    assert answer.acceptance.tokens_per_step.value == 1.0
    assert answer.configuration.speculative_config is None


def test_counts_are_used_as_they_are():
    """Evidence of AL 2.5 is answered with AL 2.5."""
    assert ask(speculation=EAGLE3_K3, evidence=counts(2.5)).acceptance.length.value == pytest.approx(2.5, abs=0.01)


def test_creative_prompts_gain_less_than_json():
    """Without evidence a poem at temperature 1 gets a clearly lower speedup than JSON at 0."""
    json_like = ["Extract name, email and phone as JSON from: Ana Ruiz, ana@example.com, 555 0100."] * 8
    creative = ["Write a surreal poem about a lighthouse that dreams."] * 8
    low = ask(speculation=EAGLE3_K3, prompts=creative, traffic={"temperature": 1.0, "concurrency": 1})
    high = ask(speculation=EAGLE3_K3, prompts=json_like, traffic={"concurrency": 1})
    assert high.speedup.tpot.value > 1.1 * low.speedup.tpot.value


def check_shape(answer):
    """What holds of every answer."""
    assert (answer.verdict == "enable") == (answer.probability >= 0.5)
    assert (answer.verdict == "enable") == (answer.configuration.speculative_config is not None)
    points = [point.concurrency for point in answer.curve]
    assert len(points) > 3
    assert points == sorted(set(points))
    assert answer.workload.concurrency in points
    for interval in (
        answer.speedup.end_to_end,
        answer.speedup.tpot,
        *(p.end_to_end for p in answer.curve),
        *(a.speedup.tpot for a in answer.alternatives),
        answer.acceptance.length,
    ):
        assert 0 < interval.low <= interval.value <= interval.high < float("inf")
    assert answer.reasons
    effects = [abs(reason.effect) for reason in answer.reasons]
    assert effects == sorted(effects, reverse=True)
    assert (answer.crossover_concurrency is None) == (answer.crossover_reason == "none")
    if answer.enable_ranges:
        assert answer.crossover_concurrency == answer.enable_ranges[-1][1]
    asked = answer.workload.concurrency
    if asked <= min(answer.memory.max_num_seqs, answer.memory.concurrency):
        assert (answer.verdict == "enable") == any(first <= asked <= last for first, last in answer.enable_ranges)


@given(
    speculation=st.sampled_from([EAGLE3_K3, DRAFT_K3, NGRAM_K4, {"method": "suffix"}, {"method": "ngram"}, None]),
    concurrency=st.sampled_from([1, 3, 16, 100, 500, 5000]),
    input_tokens=st.sampled_from([1, 128, 4000, 12000]),
    output_tokens=st.sampled_from([1, 2, 128, 2000]),
    temperature=st.sampled_from([0.0, 0.7, 1.0, 2.0]),
    objective=st.sampled_from(["end_to_end", "tpot"]),
    min_speedup=st.sampled_from([0.5, 1.0, 1.05, 1.5, 3.0]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_answer_is_consistent(
    speculation, concurrency, input_tokens, output_tokens, temperature, objective, min_speedup
):
    """Whatever is asked, verdict, probability, configuration, intervals, curve and crossover agree."""
    traffic = {
        "concurrency": concurrency,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "temperature": temperature,
    }
    policy = {"objective": objective, "min_speedup": min_speedup}
    check_shape(ask(speculation=speculation, traffic=traffic, policy=policy))


@given(one=st.floats(0.5, 4), other=st.floats(0.5, 4))
@settings(max_examples=15, deadline=None)
def test_a_higher_threshold_is_never_more_probable(one, other):
    """Probability falls with min_speedup, and so does the crossover."""
    low, high = (ask(speculation=EAGLE3_K3, policy={"min_speedup": t}) for t in sorted((one, other)))
    assert low.probability >= high.probability
    assert (low.crossover_concurrency or 0) >= (high.crossover_concurrency or 0)


@given(one=st.floats(1.1, 3.9), other=st.floats(1.1, 3.9), concurrency=st.sampled_from([1, 16, 128]))
@settings(max_examples=15, deadline=None)
def test_more_acceptance_never_lowers_the_speedup(one, other, concurrency):
    """Two counts that differ in accepted tokens alone: the higher one is predicted at least as fast."""
    low, high = (
        ask(speculation=EAGLE3_K3, evidence=counts(al), traffic={"concurrency": concurrency})
        for al in sorted((one, other))
    )
    assert high.speedup.end_to_end.value >= low.speedup.end_to_end.value * (1 - 1e-9)


def test_the_same_request_has_the_same_numbers():
    """Two answers differ in nothing but their id."""
    one, other = (ask().model_dump(exclude={"id"}) for _ in range(2))
    assert one == other


def test_all_methods_are_compared_for_a_catalog_target():
    """Without a named method known drafters, n-gram and suffix decoding are compared, each once."""
    answer = ask(target="meta-llama/Llama-3.1-8B-Instruct", traffic={"concurrency": 4})
    check_shape(answer)
    names = [(a.method, a.draft) for a in answer.alternatives]
    assert len(names) == len(set(names)) >= 3
    assert {"ngram", "suffix", "draft_model"} <= {method for method, _ in names} | {answer.candidate.method}
    if answer.verdict == "disable":
        assert answer.alternatives[0].speedup == answer.speedup


def test_a_request_rate_becomes_a_concurrency():
    """Little's law: a higher rate needs more requests at once, and the answer says how many."""
    slow, fast = (ask(traffic={"concurrency": None, "request_rate": rate}).workload for rate in (4.0, 16.0))
    assert 1 <= slow.concurrency <= 4
    assert fast.concurrency >= 2 * slow.concurrency
    assert any("Little's law" in line for line in fast.estimated)


def test_saturation_is_said():
    """A rate beyond what the server completes is told with the figure that it reaches."""
    answer = ask(traffic={"concurrency": None, "request_rate": 50_000.0})
    told = next(w.text for w in answer.warnings if w.code == "saturated")
    assert "completes at most" in told


def test_an_unknown_concurrency_is_assumed_and_said():
    """Neither concurrency nor rate: an assumption, named, and decisive only where nothing hangs on it."""
    answer = ask(speculation=EAGLE3_K3, evidence=counts(2.5), traffic={"concurrency": None})
    assert "concurrency_assumed" in codes(answer)
    assert not answer.decisive  # this case turns between 64 and 128
    disabled = ask(speculation=DRAFT_K3, evidence=counts(2.4), traffic={"concurrency": None})
    assert disabled.crossover_reason == "none"
    assert disabled.decisive


def test_a_gpu_that_nobody_measured_is_never_decisive():
    """Whatever the probability, an L40S needs a probe."""
    answer = ask(speculation=EAGLE3_K3, evidence=counts(3.5), gpu="L40S", traffic={"concurrency": 1})
    assert answer.probability > 0.9
    assert not answer.decisive
    assert "not_measured_here" in codes(answer)


def test_what_is_left_out_is_named():
    """Lengths, temperature and prefix share that were estimated are listed."""
    traffic = {"input_tokens": None, "output_tokens": None, "temperature": None}
    estimated = " ".join(ask(traffic=traffic).workload.estimated)
    for name in ("input_tokens", "output_tokens", "temperature", "cached_prefix_share"):
        assert name in estimated


def test_beyond_the_kv_cache():
    """More requests than the cache holds: told with figures."""
    answer = ask(
        gpu="L4", max_model_len=4096, traffic={"concurrency": 200, "input_tokens": 3000, "output_tokens": 1000}
    )
    told = next(w.text for w in answer.warnings if w.code == "concurrency_beyond_capacity")
    assert "200 requests" in told
    assert answer.memory.concurrency_without < 200
    assert answer.memory.spare_bytes < 0


@pytest.mark.parametrize(
    ("parts", "error", "place", "words"),
    [
        ({"prompts": []}, PromptsError, "prompts", "no prompts"),
        ({"gpu": "H2000"}, UnknownNameError, "deployment.gpu", "H200"),
        ({"target": "Qwen/Qwen3-9B"}, UnknownNameError, "deployment.target", "Qwen3-8B"),
        ({"gpu": {"name": "mine", "memory_gib": 80}}, DeploymentError, "deployment.gpu.bandwidth_gb_per_s", "figures"),
        ({"target": {"name": "x", "config": {"model_type": "llama"}}}, InputError, "deployment.target.config", ""),
        ({"target": "meta-llama/Llama-3.1-70B-Instruct", "gpu": "L4"}, DeploymentError, "deployment", "of these GPUs"),
        ({"speculation": EAGLE3_K3 | {"draft": "meta-llama/Llama-3.1-70B-Instruct", "method": "draft_model"}},
         DeploymentError, _DRAFT, "not smaller"),
        ({"speculation": EAGLE3_K3 | {"method": "draft_model"}}, DeploymentError, _DRAFT, "head"),
        ({"speculation": DRAFT_K3 | {"method": "eagle3"}}, DeploymentError, _DRAFT, "full model"),
        ({"speculation": {"method": "eagle3"}}, DeploymentError, _DRAFT, "No drafter"),
        ({"speculation": {"method": "mtp"}}, DeploymentError, _DRAFT, "no multi-token"),
        ({"target": EAGLE3_K3["draft"]}, DeploymentError, "deployment.target", "drafter head"),
        ({"traffic": {"input_tokens": 20_000}}, DeploymentError, "traffic.input_tokens", "16,384"),
        ({"speculation": EAGLE3_K3, "evidence": {"profile_id": "p1"}}, EvidenceError, "evidence.profile_id", "p1"),
    ],
)  # fmt: skip
def test_wrong_input_is_told_with_its_place(parts, error, place, words):
    """Each refusal names the field and says what was expected or is known nearby."""
    with pytest.raises(error) as refused:
        ask(**parts)
    assert (refused.value.field or "").startswith(place)
    assert words in str(refused.value)


def test_a_sample_that_was_read_before_goes_without_prompts():
    """The command line hands over a sample that it read; the numbers are those of the same prompts inline."""
    from profiler.prompts import prompts_from_objects

    inline = body(speculation=EAGLE3_K3)
    without = {name: value for name, value in inline.items() if name != "prompts"}
    sample = prompts_from_objects(inline["prompts"])
    one = advise(RecommendationRequest.model_validate(inline))
    other = advise(RecommendationRequest.model_validate(without), sample=sample)
    assert one.model_dump(exclude={"id"}) == other.model_dump(exclude={"id"})


def test_a_drafter_that_halves_the_cache_does_not_halve_the_time_per_token():
    """With tpot as objective, sequences that a drafter's memory keeps waiting never turn into a gain."""
    for output_tokens in (2, 300):
        answer = ask(
            speculation=DRAFT_K3, gpu="L4", max_model_len=4096, policy={"objective": "tpot"},
            traffic={"concurrency": 1000, "input_tokens": 1000, "output_tokens": output_tokens},
        )  # fmt: skip
        assert answer.memory.concurrency < 0.5 * answer.memory.concurrency_without
        memory = [reason for reason in answer.reasons if reason.factor == "memory"]
        assert all(abs(reason.effect) < 0.35 * answer.speedup.tpot.value for reason in memory)
        at_limit = max(point.tpot.value for point in answer.curve)
        assert answer.speedup.tpot.value <= 1.05 * at_limit
    assert answer.verdict == "enable"
    assert "objectives_disagree" in codes(answer)
    assert answer.speedup.end_to_end.value < 1
