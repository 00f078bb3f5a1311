"""What a plan says, and that its numbers hang together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from advisor.plan import CapacityPlan, PlanRequest, plan_capacity
from profiler.errors import InputError
from tests.advisor.deployments import EAGLE3_K3, LLAMA_8B

DATA = Path(__file__).resolve().parents[3] / "data"
TARGET = {"name": "llama-8b", "config": LLAMA_8B}
CHAT = {"structure": {"chat": 1.0}, "input_tokens": 500, "input_tokens_p95": 1200, "output_tokens": 250,
        "temperature": 0.0}  # fmt: skip
H200 = {"gpu": "H200", "price_per_hour": 4.0}


def body(**parts: Any) -> dict[str, Any]:
    """A request with one class, one GPU and a head; any part replaced."""
    return {
        "classes": {"chat": CHAT},
        "demand": {"requests_per_s": {"chat": 60.0}, "peak_to_mean": 1.2},
        "slo": {"ttft_p95_ms": 500.0, "tpot_p95_ms": 30.0},
        "gpus": [H200],
        "deployment": {"target": TARGET, "max_model_len": 16384, "engine_version": "0.26.0", "speculation": EAGLE3_K3},
    } | parts


def ask(**parts: Any) -> CapacityPlan:
    return plan_capacity(PlanRequest.model_validate(body(**parts)))


def day(*rates: float) -> str:
    """A curve of one class; the last rate goes on."""
    values = [*rates, *[rates[-1]] * (24 - len(rates))]
    return "hour,chat\n" + "\n".join(f"{hour},{rate}" for hour, rate in enumerate(values)) + "\n"


@pytest.fixture(scope="module")
def plan() -> CapacityPlan:
    return ask(demand={"csv": day(2.0, 120.0, 60.0), "growth": 1.5, "peak_to_mean": 1.2})


def test_replicas_follow_from_what_one_takes(plan):
    """Whole replicas for the busiest minutes of the grown demand, in each case; cost is their hours by the price."""
    for arm in (plan.gpus[0].without, plan.gpus[0].speculative):
        capacity = arm.requests_per_s_of_replica
        for hour in arm.hours:
            for case in ("pessimistic", "expected", "optimistic"):
                wanted = max(1, math.ceil(hour.requests_per_s * 1.2 / getattr(capacity, case) - 1e-9))
                assert getattr(hour.replicas, case) == wanted
                assert getattr(hour.cost, case) == pytest.approx(4.0 * wanted)
            busy = hour.requests_per_s * 1.2
            assert hour.headroom == pytest.approx(hour.replicas.expected * capacity.expected / busy - 1.0)
            assert hour.utilisation == pytest.approx(
                hour.requests_per_s / (hour.replicas.expected * arm.saturated_requests_per_s)
            )
        assert [hour.requests_per_s for hour in arm.hours[:3]] == pytest.approx([3.0, 180.0, 90.0])
        assert arm.peak_replicas.expected == arm.hours[1].replicas.expected
        assert arm.cost.expected == pytest.approx(sum(hour.cost.expected for hour in arm.hours))
        assert arm.cost_at_peak.expected == pytest.approx(24 * 4.0 * arm.peak_replicas.expected)


def test_the_pessimistic_case_costs_most_and_the_optimistic_least(plan):
    """In both arms, and a replica takes least and most."""
    for arm in (plan.gpus[0].without, plan.gpus[0].speculative):
        rates, cost = arm.requests_per_s_of_replica, arm.cost
        assert rates.pessimistic < rates.expected < rates.optimistic < arm.saturated_requests_per_s * 2
        assert cost.pessimistic >= cost.expected >= cost.optimistic
        assert cost.pessimistic > cost.optimistic


def test_the_saving_is_that_of_the_cost(plan):
    """Whole replicas with speculation over whole replicas without; where both need as many, nothing is saved."""
    gpu = plan.gpus[0]
    assert gpu.saving.value == pytest.approx(1.0 - gpu.speculative.cost.expected / gpu.without.cost.expected)
    assert gpu.saving.low <= gpu.saving.value <= gpu.saving.high
    small = ask(demand={"requests_per_s": {"chat": 1.0}}).gpus[0]
    assert (small.without.peak_replicas.expected, small.speculative.peak_replicas.expected) == (1, 1)
    assert (small.saving.value, small.saving.high, small.probability) == (0.0, 0.0, 0.0)
    assert small.verdict == "do not speculate"


def test_an_slo_that_speculation_alone_keeps_is_planned_with_it():
    """Between what one request alone takes without and with: the k is that of few requests at once."""
    deployment = {"target": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 16384, "engine_version": "0.26.0"}
    gpu = ask(deployment=deployment, demand={"requests_per_s": {"chat": 2.0}}, slo={"tpot_p95_ms": 3.2}).gpus[0]
    assert gpu.without.requests_per_s_of_replica.expected is None
    assert gpu.without.least_tpot_p95_ms > 3.2
    assert gpu.speculative.requests_per_s_of_replica.expected > 0.5
    assert gpu.speculative.num_speculative_tokens > 1
    assert gpu.verdict == "speculate"
    assert "is the SLO kept at all" in gpu.text


def test_every_hour_keeps_the_slo_with_the_replicas_it_has(plan):
    """At the busiest minutes, by the same queue; with one replica less it would not."""
    for arm in (plan.gpus[0].without, plan.gpus[0].speculative):
        assert all(hour.ttft_p95_ms <= 500.0 * 1.001 for hour in arm.hours)
        assert all(hour.tpot_p95_ms <= 30.0 * 1.001 for hour in arm.hours)
        several = [hour for hour in arm.hours if hour.replicas.expected > 1]
        assert several
        for hour in several:
            assert (1.0 + hour.headroom) * (hour.replicas.expected - 1) / hour.replicas.expected < 1.0


def test_break_even_acceptance_is_where_both_arms_take_as_much(plan):
    """Below it a replica with speculation takes less, and a saving has the sign of what lies above it."""
    gpu = plan.gpus[0]
    assert 1.0 < gpu.break_even_acceptance_length < 4.0
    assert (gpu.saving.value > 0) == (gpu.acceptance_length.value > gpu.break_even_acceptance_length)
    assert gpu.saving.low < gpu.saving.value < gpu.saving.high


def test_break_even_concurrency_has_its_three_cases(plan):
    """With a slower speculative arm it pays up to fewer requests at once."""
    found = plan.gpus[0].break_even_concurrency
    assert (found.pessimistic or 0) <= found.expected <= found.optimistic


def test_verdict_and_decision_follow_the_policy(plan):
    """Speculate from one half on; decisive where the probability reaches the confidence and all is measured."""
    gpu = plan.gpus[0]
    assert (gpu.verdict == "speculate") == (gpu.probability >= 0.5)
    assert gpu.decisive == (max(gpu.probability, 1 - gpu.probability) >= 0.8)
    sure = ask(policy={"confidence": 0.5, "min_saving": 0.0})
    strict = ask(policy={"confidence": 0.9999, "min_saving": 0.0})
    assert sure.gpus[0].decisive
    assert not strict.gpus[0].decisive
    assert "not decisive" in strict.text
    assert strict.gpus[0].probability == sure.gpus[0].probability
    assert ask(policy={"min_saving": 0.6}).gpus[0].probability < sure.gpus[0].probability


@pytest.mark.parametrize(
    ("parts", "gap"),
    [
        ({"gpus": [{"gpu": "H100 SXM", "price_per_hour": 2.0}]}, "no measurement on this GPU"),
        (
            {"deployment": {**body()["deployment"], "engine_version": "0.20.0"}},
            "no measurement with this engine version",
        ),
        ({"deployment": {**body()["deployment"], "speculation": {"method": "suffix"}}}, "of this method's step cost"),
    ],
)
def test_what_no_measurement_covers_is_never_decisive_and_says_why(parts, gap):
    """Whatever the confidence asked for, with wider cases."""
    found = ask(**parts, policy={"confidence": 0.5, "min_saving": 0.0})
    assert not found.decisive
    assert not found.gpus[0].decisive
    assert any(gap in warning.text and warning.code == "not_measured_here" for warning in found.warnings)
    assert "measure before you rely on it" in found.gpus[0].text


def test_a_gpu_that_does_not_hold_the_target_is_told_beside_those_that_do():
    """Its reason is the memory plan's, with what would do."""
    small = {"name": "small", "memory_gib": 12, "bandwidth_gb_per_s": 300, "bf16_tflops": 60}
    found = ask(gpus=[{"gpu": small, "price_per_hour": 0.4}, H200])
    misfit = found.gpus[0]
    assert misfit.verdict == "impossible"
    assert misfit.without is None
    assert "does not fit the GPU small" in misfit.text
    assert "tensor_parallel_size" in misfit.text
    assert found.cheapest.gpu == "H200"


def test_more_gpus_of_a_replica_cost_as_many_prices():
    """Two H200s hold a replica: its hour costs twice the price."""
    found = ask(gpus=[H200 | {"tensor_parallel_size": 2}])
    assert found.gpus[0].gpus_per_replica == 2
    one = found.gpus[0].without
    assert one.cost.expected == pytest.approx(8.0 * one.replica_hours.expected)
    assert not found.decisive  # tensor parallelism was never measured


def test_the_cheapest_keeps_the_slo_in_the_pessimistic_case_where_one_does():
    """A GPU that may break it is not chosen for a lower expected cost; the text names it."""
    slow = {"name": "slow", "memory_gib": 48, "bandwidth_gb_per_s": 900, "bf16_tflops": 360}
    found = ask(gpus=[{"gpu": slow, "price_per_hour": 0.01}, H200], slo={"tpot_p95_ms": 14.0})
    assert found.gpus[0].speculative.cost.expected < found.cheapest.cost.expected
    assert found.gpus[0].speculative.cost.pessimistic is None
    assert found.cheapest.gpu == "H200"
    assert "slow may cost less" in found.text
    assert any(warning.code == "slo_at_risk" for warning in found.warnings)


def test_classes_keep_their_own_acceptance_and_the_slo_each():
    """Documents beside chat make the first token of both later, and a replica takes fewer."""
    documents = {"structure": {"question_answering": 1.0}, "input_tokens": 4000, "output_tokens": 120}
    both = ask(classes={"chat": CHAT, "documents": documents},
               demand={"requests_per_s": {"chat": 40.0, "documents": 20.0}})  # fmt: skip
    alone = ask()
    fewer, more = (one.gpus[0].without.requests_per_s_of_replica.expected for one in (both, alone))
    assert fewer < more
    assert both.gpus[0].without.least_ttft_p95_ms > alone.gpus[0].without.least_ttft_p95_ms
    assert any("documents: input_tokens: all prompts taken as long as their mean" in line for line in both.estimated)


def test_a_schedule_gives_small_batches_more_draft_tokens():
    """Where the engine has the option and k may vary; the configuration carries it."""
    deployment = {"target": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 16384}
    found = ask(deployment=deployment, gpus=[{"gpu": "L40S", "price_per_hour": 1.0}], slo={"tpot_p95_ms": 60.0})
    arm = found.gpus[0].speculative
    if arm.schedule is not None:  # it is the model that decides; what it gives must hold together
        ks = [k for _, _, k in arm.schedule]
        assert ks == sorted(ks, reverse=True)
        assert arm.speculative_config["num_speculative_tokens_per_batch_size"] == [list(t) for t in arm.schedule]
    assert arm.speculative_config["method"] == arm.method


def test_prompts_tell_what_is_not_stated():
    """Lengths and work are read from them, as advice does."""
    found = ask(classes={"chat": {"prompts": ["Write a poem about rain.", "Fix this SQL query: select 1"] * 4,
                                  "output_tokens": 120}})  # fmt: skip
    assert found.classes["chat"].output_tokens == 120
    assert found.classes["chat"].input_tokens < 30
    assert any(line.startswith("chat: structure") for line in found.estimated)


def test_an_slo_that_no_number_of_replicas_meets_is_refused_with_the_closest():
    """On the GPU and with the arm that come nearest to it."""
    with pytest.raises(InputError) as caught:
        ask(slo={"tpot_p95_ms": 0.5, "ttft_p95_ms": 400.0})
    line = caught.value.line()
    assert line.startswith(
        "No number of replicas keeps this SLO; expected a TTFT p95 of 400 ms and a TPOT p95 of 0.5 ms"
    )
    assert "got at the closest, on H200 with eagle3, k = 3, TTFT p95" in line
    assert caught.value.field == "slo.tpot_p95_ms"
    with pytest.raises(InputError) as caught:
        ask(slo={"ttft_p95_ms": 1.0})
    assert caught.value.field == "slo.ttft_p95_ms"


def test_gpus_of_which_none_holds_the_target_are_refused():
    """With the first one's reason, at its place."""
    small = {"name": "small", "memory_gib": 12, "bandwidth_gb_per_s": 300, "bf16_tflops": 60}
    with pytest.raises(InputError, match="does not fit the GPU small") as caught:
        ask(gpus=[{"gpu": small, "price_per_hour": 1.0}])
    assert caught.value.field.startswith("gpus[0]")


@pytest.mark.parametrize(
    ("parts", "field", "message"),
    [
        ({"gpus": [{"gpu": "H201", "price_per_hour": 1.0}]}, "gpus[0].gpu", "H200"),
        (
            {"classes": {"chat": CHAT | {"input_tokens_p95": 3000}}},
            "classes.chat.input_tokens_p95",
            "expected input_tokens_p95 from the mean, 500, to 3.87 times as much",
        ),
        (
            {"classes": {"chat": CHAT | {"input_tokens": 20000, "input_tokens_p95": None}}},
            "classes.chat.input_tokens",
            "expected at most max_model_len = 16,384 tokens of prompt and answer; got 20,000 + 250",
        ),
        ({"classes": {"chat": {"prompts": []}}}, "classes.chat.prompts", "The class 'chat'"),
        ({"demand": {"csv": day(0.0)}}, "demand.csv", "holds no demand"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_its_place(parts, field, message):
    """One line that names the field and says what was expected."""
    with pytest.raises(InputError) as caught:
        ask(**parts)
    assert caught.value.field == field
    assert message in caught.value.line()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"gpus": [{"gpu": "H200", "price_per_hour": -1.0}]}, "expected a number above 0 to 1,000,000, got -1.0"),
        ({"gpus": []}, "at least 1 item"),
        ({"slo": {}}, "expected ttft_p95_ms, tpot_p95_ms or both; got neither"),
        ({"slo": {"ttft_p95_ms": -5}}, "expected a number above 0"),
        ({"demand": {}}, "expected requests_per_s or csv, got neither"),
        ({"demand": {"requests_per_s": {"chat": 1.0}, "csv": "x"}}, "got requests_per_s and csv"),
        ({"demand": {"requests_per_s": {"chat": -1.0}}}, "expected a number from 0 to 1,000,000, got -1.0"),
        ({"demand": {"requests_per_s": {"chat": 0.0}}}, "got none: there is nothing to plan"),
        ({"demand": {"requests_per_s": {"code": 1.0}}}, "expected rates of the classes chat; got 'code'"),
        (
            {"classes": {"chat": CHAT, "code": CHAT}},
            "expected a rate for each class; got none for 'code'",
        ),
        ({"demand": {"requests_per_s": {"chat": 1.0}, "growth": 0}}, "expected a number above 0"),
        ({"demand": {"requests_per_s": {"chat": 1.0}, "peak_to_mean": 0.5}}, "expected a number from 1 to 20"),
        ({"classes": {}}, "at least 1 item"),
        ({"classes": {"chat": {"input_tokens": 100}}}, "expected output_tokens, or prompts; got neither"),
        ({"classes": {"chat": CHAT | {"prompts": ["a"]}}}, "expected prompts, features or structure, got prompts and"),
        ({"classes": {"chat": CHAT | {"structure": {"chta": 1}}}}, "did you mean 'chat'?"),
        ({"classes": {"chat": CHAT | {"structure": {"chat": 0}}}}, "expected at least one share above 0"),
        ({"deployment": {"target": TARGET, "gpu": "H200"}}, "expected GPU types in gpus, each with its price"),
        ({"slos": {}}, "unknown field 'slos'; did you mean 'slo'?"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(parts, message):
    """Before anything is predicted."""
    with pytest.raises(ValidationError) as caught:
        PlanRequest.model_validate(body(**parts))
    assert message in str(caught.value)


def test_the_example_that_is_shipped_is_read():
    """Its classes are the columns of its curve."""
    import tomllib

    fields = tomllib.loads((DATA / "example_plan.toml").read_text(encoding="utf-8"))
    fields["demand"]["csv"] = (DATA / "example_demand.csv").read_text(encoding="utf-8")
    request = PlanRequest.model_validate(fields)
    from advisor.plan.curve import read_curve

    assert read_curve(fields["demand"]["csv"], list(request.classes)).rates.shape == (24, 3)
