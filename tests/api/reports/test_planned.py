"""`specworth plan --report`: the plan's numbers, its inputs by their hash, and the command that gives it again."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from api.report.review.html import html
from api.report.review.planned import review_plan
from tests.api.reports.conftest import Parsed, provenance, sample_of
from tests.api.reports.test_commands import refused, told_command

ASKED = (
    "plan", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H200=4.0", "--gpu", "L40S=1.2",
    "--structure", "chat=0.7", "--structure", "code=0.3", "--input-tokens", "600", "--output-tokens", "200",
    "--temperature", "0", "--tpot-p95-ms", "40", "--peak-to-mean", "1.3",
)  # fmt: skip
CURVE = "hour,requests\n" + "".join(f"{hour},{5 + hour}\n" for hour in range(24))


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> dict[str, Any]:
    """One plan with its report, by the command line."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "curve.csv").write_text(CURVE)
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    from api.main import run

    assert run([*ASKED, "--demand", "curve.csv", "--output", "short.md", "--report", "review.md"]) == 0
    patch.undo()
    return {"folder": folder, "report": (folder / "review.md").read_text(encoding="utf-8")}


def test_the_command_that_is_told_gives_the_same_plan(planned, in_process, tmp_path):
    """GPUs are given several times, the curve is a file that is told by its hash."""
    words = told_command(planned["report"])
    assert words[:2] == ["specworth", "plan"]
    assert words.count("--gpu") == 2
    assert not {"--report", "--output"} & set(words)
    assert hashlib.sha256(CURVE.encode()).hexdigest() in planned["report"]
    (tmp_path / "curve.csv").write_text(CURVE)
    again = json.loads(in_process(*words[1:], "--json").stdout)
    for gpu in again["gpus"]:
        for arm in (gpu["without"], gpu["speculative"]):
            assert f"{arm['cost']['expected']:,.2f}" in planned["report"]
            assert f"{arm['saturated_requests_per_s']:,.2f}" in planned["report"]
    assert again["text"][1:] in planned["report"]
    hours = re.findall(r"^\| \d+ \| [\d.,]+ \|", planned["report"], re.MULTILINE)
    assert len(hours) == 24


def test_a_plan_is_one_file_too(planned):
    """With a chart of the costs and one of the hours, each beside its numbers; nothing is loaded."""
    from advisor.plan import PlanRequest, plan_capacity

    request = PlanRequest.model_validate({
        "classes": {"chat": {"input_tokens": 600, "output_tokens": 200, "temperature": 0.0}},
        "demand": {"csv": CURVE.replace("requests", "chat")}, "slo": {"tpot_p95_ms": 40},
        "gpus": [{"gpu": "H200", "price_per_hour": 4.0}],
        "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct"},
    })  # fmt: skip
    page = Parsed(html(review_plan(plan_capacity(request), request, provenance(sample_of("x")))))
    charts = [attributes for attributes in page.of("svg") if attributes.get("class") == "chart"]
    assert len(charts) == 2
    assert not {"script", "img", "link"} & {tag for tag, _ in page.tags}
    assert "none were read" in planned["report"]


def test_a_place_that_cannot_be_written_is_refused_before_the_work(in_process):
    """As everywhere."""
    line = refused(in_process(*ASKED, "--request-rate", "5", "--report", "none/plan.html"))
    assert "--report" in line
    assert "got no folder none" in line
