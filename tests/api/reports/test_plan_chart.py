"""The chart of a capacity plan shows names as they are."""

from advisor.plan import PlanRequest, plan_capacity
from api.report.plan_chart import draw_plan


def test_a_dollar_sign_in_a_name_begins_no_formula(tmp_path):
    """Half of one, which no formula can be, was a failure without a word of what was wrong."""
    gpu = {"name": "$x_{$ <b>", "memory_gib": 48, "bandwidth_gb_per_s": 1200, "bf16_tflops": 300}
    asked = PlanRequest.model_validate({
        "deployment": {"target": "Qwen/Qwen3-8B", "speculation": {"method": "ngram", "num_speculative_tokens": 3}},
        "slo": {"tpot_p95_ms": 60}, "demand": {"requests_per_s": {"chat": 1}},
        "classes": {"chat": {"input_tokens": 400, "output_tokens": 200}},
        "gpus": [{"gpu": gpu, "price_per_hour": 1}],
    })  # fmt: skip
    draw_plan(plan_capacity(asked), tmp_path / "plan.svg")
    assert "$x_{$ &lt;b&gt;" in (tmp_path / "plan.svg").read_text()
