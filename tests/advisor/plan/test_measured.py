"""A plan rests on what was measured of a class: its acceptance, and times and speedups near the load they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from advisor.plan import CapacityPlan
from profiler.errors import EvidenceError
from tests.advisor.deployments import EAGLE3_K3, NGRAM_K4
from tests.advisor.plan.test_plan import CHAT, H200, TARGET, ask
from tests.advisor.profiles import point, profile

COUNTS = {"drafts": 4000, "accepted_per_position": [3000, 2200, 1600], "decode_tokens": 11000, "temperature": 0.0}
HEAD = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
L40S = {"gpu": "L40S", "price_per_hour": 1.0}
OPEN = {"target": TARGET, "max_model_len": 16384, "engine_version": "0.26.0"}  # nothing said of speculation


def with_evidence(evidence: dict[str, Any] | None, **parts: Any) -> CapacityPlan:
    return ask(classes={"chat": CHAT if evidence is None else CHAT | {"evidence": evidence}}, **parts)


def width(plan: CapacityPlan) -> float:
    """Of the interval of the acceptance length, in the logarithm."""
    found = plan.gpus[0].acceptance_length
    return float(np.log(found.high / found.low))


@pytest.fixture(scope="module")
def plain() -> CapacityPlan:
    return with_evidence(None)


def test_counted_acceptance_takes_the_place_of_the_predicted_one(plain):
    """The plan's length is the counted 1 + 6800 / 4000, and the interval is that of 4,000 drafts."""
    found = with_evidence(COUNTS)
    assert found.gpus[0].acceptance_length.value == pytest.approx(2.7, abs=0.01)
    assert width(found) < 0.3 * width(plain)
    assert (plain.classes["chat"].acceptance, found.classes["chat"].acceptance) == ("predicted", "measured")
    assert found.gpus[0].without.cost == plain.gpus[0].without.cost


def test_a_class_without_evidence_stays_predicted():
    """Of two classes one is counted: the other accepts what it did."""
    rates = {"requests_per_s": {"chat": 30.0, "code": 30.0}}
    code = CHAT | {"structure": {"code": 1.0}}
    before, counted, other = (
        ask(classes={"chat": CHAT | chat, "code": code | its}, demand=rates)
        for chat, its in (({}, {}), ({"evidence": COUNTS}, {}), ({}, {"evidence": COUNTS}))
    )
    lengths = [plan.gpus[0].acceptance_length.value for plan in (before, counted, other)]
    assert len(set(lengths)) == 3
    assert width(counted) < width(before)
    assert counted.classes["code"].acceptance == "predicted"


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_a_probed_speedup_at_the_plans_load_moves_what_a_replica_takes(share):
    """Probed at the load, lengths and k of a replica: most of what was measured, since the load moves on from there."""
    counted = with_evidence({"profile": profile()})
    load = round(max(hour.concurrency for hour in counted.gpus[0].speculative.hours))
    alike = {"input_tokens": CHAT["input_tokens"], "output_tokens": CHAT["output_tokens"]}
    rates = []
    for ratio in (1.0, share):
        probed = with_evidence({"profile": profile(point(load, ratio, **alike))}).gpus[0]
        assert probed.probed_concurrency == [load]
        assert probed.without == counted.gpus[0].without
        rates.append(probed.speculative.requests_per_s_of_replica.expected)
    assert 0.5 < np.log(rates[1] / rates[0]) / np.log(share) < 1.1


def test_measured_times_slow_both_arms_alike(plain):
    """Half as fast as predicted without speculation: both arms need more, and the speedup between them stays."""
    timed = point(8, 1.4)
    known = with_evidence({"profile": profile(timed)})
    base = {"waves": 4, "output_tokens_per_s": 900.0, "mean_in_flight": 8.0, "ttft_ms": None, "tpot_ms": None,
            "end_to_end_ms": {"mean": 3000.0, "median": 3000.0, "p95": 3300.0}}  # fmt: skip
    slow = with_evidence({"profile": profile(timed | {"baseline": base})})
    for arm in ("without", "speculative"):
        fast, slowed = getattr(known.gpus[0], arm), getattr(slow.gpus[0], arm)
        assert slowed.saturated_requests_per_s < 0.7 * fast.saturated_requests_per_s
    gains = [p.gpus[0].speculative.saturated_requests_per_s / p.gpus[0].without.saturated_requests_per_s
             for p in (known, slow)]  # fmt: skip
    assert gains[1] == pytest.approx(gains[0], rel=0.02)


def test_what_is_left_open_is_taken_from_the_profile():
    """Lengths, temperature, kind of work, and how the server speculated."""
    content = profile(point(16, 1.2))
    content["prompts"] |= {"structure": {"code": 48, "chat": 16}}
    content["speculation"] |= {"draft": HEAD}
    served = OPEN | {"target": "meta-llama/Llama-3.1-8B-Instruct"}
    found = ask(classes={"chat": {"evidence": {"profile": content}}}, deployment=served)
    its = found.classes["chat"]
    assert (its.input_tokens, its.output_tokens, its.temperature) == (900.0, 200.0, 0.0)
    assert found.gpus[0].speculative.method == "eagle3"
    assert found.gpus[0].speculative.draft == HEAD
    assert not any("structure" in line for line in found.estimated)


def test_times_of_another_gpu_stay_there():
    """Two GPU types and a profile of one: acceptance counts on both, times on the one."""
    found = with_evidence({"profile": profile(point(32, 0.7))}, gpus=[H200, L40S])
    assert [gpu.probed_concurrency for gpu in found.gpus] == [[32.0], []]
    assert [gpu.acceptance_length.value for gpu in found.gpus] == pytest.approx([2.5, 2.5], abs=0.01)
    told = [warning.text for warning in found.warnings if warning.code == "profile_of_another_gpu"]
    assert told == [
        "L40S: chat: the profile was measured on NVIDIA H200, not on L40S: its acceptance is used, its speedup is not"
    ]


@pytest.mark.parametrize(
    ("evidence", "deployment", "message"),
    [
        (COUNTS, OPEN, "expected the method and the k that were measured"),
        (COUNTS | {"accepted_per_position": [3000, 2200]}, OPEN | {"speculation": EAGLE3_K3}, "k = 3 counts"),
        ({"drafts": 10, "accepted_tokens": 31}, OPEN | {"speculation": EAGLE3_K3}, "at most 30 can be"),
    ],
)
def test_counts_of_nothing_and_impossible_ones_are_refused(evidence, deployment, message):
    """As advice refuses them, with the class's place where it is the counts that are wrong."""
    with pytest.raises(ValidationError, match=message) as caught:
        with_evidence(evidence, deployment=deployment)
    place = caught.value.errors()[0]["loc"]
    assert place[:3] == ("classes", "chat", "evidence") or place[0] == "deployment"


@pytest.mark.parametrize(
    ("evidence", "deployment", "field", "message"),
    [
        ({"profile": profile(point(8, 1.2))}, OPEN | {"speculation": NGRAM_K4}, "deployment.speculation.method",
         "The class 'chat': The profile is of another method"),
        ({"profile_id": "0" * 32}, OPEN | {"speculation": EAGLE3_K3}, "classes.chat.evidence.profile_id",
         "The class 'chat': No profile of this id is stored"),
    ],
)  # fmt: skip
def test_evidence_of_something_else_is_refused(evidence, deployment, field, message):
    """With the class, and where it stands."""
    with pytest.raises(EvidenceError, match=message) as caught:
        with_evidence(evidence, deployment=deployment)
    assert caught.value.field == field


def test_a_profile_that_tells_no_lengths_leaves_them_to_be_stated():
    """A class of nothing but a profile without points."""
    with pytest.raises(EvidenceError, match="how long the requests were") as caught:
        ask(classes={"chat": {"evidence": {"profile": profile()}}})
    assert caught.value.field == "classes.chat.evidence.profile"
    assert caught.value.remedy == "state input_tokens and output_tokens"
