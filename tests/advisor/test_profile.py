"""Advice with a profile rests on what was measured, says so, and refuses what it was not measured of."""

import copy
from typing import Any

import numpy as np
import pytest

from advisor.advise import advise
from advisor.probing import plan_probes
from advisor.request import RecommendationRequest
from profiler.errors import EvidenceError, InputError
from profiler.prompts import prompts_from_objects
from tests.advisor.deployments import EAGLE3_K3, NGRAM_K4, PROMPTS, body
from tests.advisor.profiles import point, profile, ratio

OPEN = {"concurrency": None, "input_tokens": None, "output_tokens": None, "temperature": None}


def ask(content: dict[str, Any], **changes: Any) -> Any:
    """The answer for the profiled deployment."""
    given: dict[str, Any] = {"speculation": EAGLE3_K3, "evidence": {"profile": content}, "traffic": OPEN} | changes
    return advise(RecommendationRequest.model_validate(body(**given)))


@pytest.mark.parametrize(("value", "verdict"), [(1.4, "enable"), (1.12, "enable"), (0.98, "disable"), (0.6, "disable")])
def test_the_advice_at_the_probed_load_is_what_was_measured(value: float, verdict: str) -> None:
    """With the traffic left open it is the probe's; value, verdict and decisiveness are the measurement's."""
    answer = ask(profile(point(16, value)))
    assert answer.verdict == verdict
    assert answer.decisive
    assert answer.basis == "measured"
    assert answer.speedup.end_to_end.value == pytest.approx(value, rel=0.03)
    assert answer.workload.concurrency == 16
    assert answer.workload.input_tokens == 900
    assert answer.workload.output_tokens == 200
    assert answer.acceptance.basis == "measured"
    assert answer.acceptance.length.value == pytest.approx(2.5)


def test_elsewhere_the_measurement_is_extrapolated_and_the_basis_is_mixed() -> None:
    """Slower than predicted at 16 means slower at 64, by less, and with a wider interval."""
    plain = ask(profile(), traffic={"concurrency": 64, "input_tokens": 900, "output_tokens": 200, "temperature": 0})
    near, far = (
        ask(profile(point(16, 0.9)), traffic={"concurrency": c, "input_tokens": 900, "output_tokens": 200})
        for c in (16, 64)
    )
    assert far.basis == "mixed"
    assert far.speedup.end_to_end.value < plain.speedup.end_to_end.value
    width = [np.log(a.speedup.end_to_end.high / a.speedup.end_to_end.low) for a in (near, far)]
    assert width[0] < width[1]


def test_curve_ranges_and_verdict_agree() -> None:
    """The corrected curve crosses where the ranges end, and at the asked load it is the verdict's speedup."""
    answer = ask(profile(point(8, 1.3), point(64, 0.9)))
    for at in answer.curve:
        inside = any(first <= at.concurrency <= last for first, last in answer.enable_ranges)
        assert inside == (at.end_to_end.value >= 1.05)
    asked = next(at for at in answer.curve if at.concurrency == 8)
    assert asked.end_to_end.value == answer.speedup.end_to_end.value
    assert answer.crossover_concurrency is not None
    assert 8 <= answer.crossover_concurrency < 64


def test_an_unmeasured_gpu_is_decisive_once_it_is_profiled() -> None:
    """A GPU of the request's own is not covered by any measurement; the profile is one."""
    gpu = {"name": "lab card", "memory_gib": 80, "bandwidth_gb_per_s": 1500, "bf16_tflops": 300}
    content = profile(point(8, 1.4))
    content["environment"] |= {"gpus": ["Lab Card 80GB"]}
    answer = ask(content, gpu=gpu)
    assert answer.decisive
    assert "not_measured_here" not in {w.code for w in answer.warnings}


@pytest.mark.parametrize(("gpus", "platform"), [(["NVIDIA L4"], "gpu"), ([], "cpu")])
def test_a_speedup_of_another_gpu_is_left_out_and_said(gpus: list[str], platform: str) -> None:
    """Acceptance is the model's and stays; times are the GPU's and do not."""
    content = profile(point(8, 0.5))
    content["environment"] |= {"gpus": gpus, "platform": platform}
    answer = ask(content)
    assert answer.basis == "mixed"
    assert answer.acceptance.basis == "measured"
    assert answer.speedup.end_to_end.value > 0.9
    assert "profile_of_another_gpu" in {w.code for w in answer.warnings}


def test_without_counters_the_speedup_alone_is_used() -> None:
    """A server without /metrics tells no acceptance; its speedup still decides."""
    answer = ask(profile(point(8, 1.5), acceptance=None))
    assert answer.basis == "mixed"
    assert answer.acceptance.basis == "predicted"
    assert answer.speedup.end_to_end.value == pytest.approx(1.5, rel=0.04)


def test_tokens_accepted_beyond_an_answers_end_are_no_contradiction() -> None:
    """Short answers: more is accepted than is sent, which the engine counts all the same."""
    counted = {"drafts": 300, "drafted_tokens": 900, "accepted_tokens": 600, "accepted_per_position": [250, 200, 150],
               "decode_tokens": 700}  # fmt: skip
    assert ask(profile(point(8, 1.5), acceptance=counted)).acceptance.length.value == pytest.approx(3.0)


def test_what_differs_is_warned_of() -> None:
    """Another target's name, a partial session, answers that were cut."""
    content = profile(point(8, 1.5), target="someone/else-7b", status="partial", ended="the server died")
    content["prompts"] |= {"max_tokens": 32, "cut_share": 0.9}
    assert {"profile_of_another_target", "profile_partial", "answers_cut"} <= {w.code for w in ask(content).warnings}


def test_the_speculation_is_taken_from_the_profile() -> None:
    """A request that names none gets what was probed."""
    content = profile(point(8, 1.2))
    content["speculation"] = {"method": "ngram", "num_speculative_tokens": 3, "draft": None,
                              "config": {"prompt_lookup_max": 4, "prompt_lookup_min": 2}}  # fmt: skip
    answer = ask(content, speculation=None)
    assert answer.candidate.method == "ngram"
    assert answer.candidate.num_speculative_tokens == 3
    assert answer.speedup.end_to_end.value == pytest.approx(1.2, rel=0.03)


def test_a_server_that_names_no_match_looked_up_as_vllm_does() -> None:
    """n-gram without lookup settings ran with vLLM's default, five tokens, and is advised as it was probed."""
    content = profile(point(8, 1.2))
    content["speculation"] = {"method": "ngram", "num_speculative_tokens": 3, "draft": None, "config": {}}
    config = ask(content, speculation=None).configuration.speculative_config
    assert (config["prompt_lookup_min"], config["prompt_lookup_max"]) == (5, 5)


def test_a_profile_of_another_method_is_refused() -> None:
    """What was measured of one method says nothing of another."""
    with pytest.raises(EvidenceError, match="another method"):
        ask(profile(point(8, 1.2)), speculation=NGRAM_K4)


def test_a_profile_that_does_not_know_its_method_asks_for_it() -> None:
    """A server that ran already tells its counters, not its method."""
    content = profile(point(8, 1.2))
    content["speculation"] = {"method": None, "num_speculative_tokens": None, "draft": None, "config": None}
    with pytest.raises(EvidenceError) as told:
        ask(content, speculation=None)
    assert told.value.field == "deployment.speculation.method"
    assert ask(content).speedup.end_to_end.value == pytest.approx(1.2, rel=0.03)


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"kind": "other"},
        {"points": [point(8, 1.2) | {"end_to_end": ratio(1.2) | {"value": -1.0}}]},
        {"surprise": 1},
    ],
)
def test_a_profile_that_cannot_be_read_is_refused(change: dict[str, Any]) -> None:
    """Another version, another file, impossible numbers, unknown fields."""
    with pytest.raises(ValueError, match=r"profile|evidence"):
        RecommendationRequest.model_validate(body(evidence={"profile": profile(point(8, 1.2)) | change}))


def test_counts_beside_a_profile_are_refused() -> None:
    """One evidence, not two."""
    with pytest.raises(ValueError, match="got both"):
        RecommendationRequest.model_validate(body(evidence={"profile": profile(), "drafts": 10}))


def test_a_probe_is_sent_where_the_answer_is_least_clear() -> None:
    """Measured values move the crossover, and the next probe goes near it; where all is clear none is sent."""
    request = RecommendationRequest.model_validate(
        body(speculation=EAGLE3_K3, traffic={"input_tokens": 900, "output_tokens": 200, "temperature": 0.0})
    )
    plan = plan_probes(request, sample=prompts_from_objects(PROMPTS), asked=8, most=256)
    seen: dict[int, float | None] = {8: 1.3}
    for _ in range(8):
        following = plan(seen)
        if following is None:
            break
        assert following not in seen
        seen[following] = 1.05 * (40 / following) ** 0.3
    between = [c for c in seen if 24 <= c <= 64]
    assert between, seen
    assert plan({8: 3.0, 1: 3.0, 64: 3.0, 256: 3.0, 128: 3.0}) is None


def test_probes_cannot_be_planned_for_what_cannot_be_predicted() -> None:
    """The caller falls back on doubling and halving, with the reason."""
    request = RecommendationRequest.model_validate(body(speculation=EAGLE3_K3))
    unknown = request.deployment.model_copy(update={"target": request.deployment.target.model_copy(
        update={"name": "no/such-model", "config": None})})  # fmt: skip
    with pytest.raises(InputError):
        plan_probes(request.model_copy(update={"deployment": unknown}), sample=prompts_from_objects(PROMPTS),
                    asked=8, most=64)  # fmt: skip


ODD = (None, -1, 0, 1e-9, 1e12, float("nan"), "x", [], {}, True)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Places of all that is no container."""
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for i, inner in enumerate(value) for leaf in leaves(inner, (*path, i))]
    return [path]


def test_no_odd_value_in_a_profile_is_a_crash() -> None:
    """Each place of a profile with each odd value is an answer or a refusal, never another error."""
    content = profile(point(8, 1.3))
    content["speculation"] = {"method": "ngram", "num_speculative_tokens": 3, "draft": None,
                              "config": {"prompt_lookup_max": 4, "draft_sample_method": "greedy"}}  # fmt: skip
    used = [leaf for leaf in leaves(content) if leaf[0] in ("speculation", "points", "acceptance", "environment")]
    for number, leaf in enumerate(used):
        for odd in (ODD[number % len(ODD)], ODD[(number + 3) % len(ODD)], ODD[(number + 6) % len(ODD)]):
            changed = copy.deepcopy(content)
            inner = changed
            for step in leaf[:-1]:
                inner = inner[step]
            inner[leaf[-1]] = odd
            try:
                request = RecommendationRequest.model_validate(body(evidence={"profile": changed}, traffic=OPEN))
                answer = advise(request)
            except (ValueError, InputError):
                continue
            assert np.isfinite(answer.probability), (leaf, odd)
            assert answer.speedup.end_to_end.low > 0, (leaf, odd)
