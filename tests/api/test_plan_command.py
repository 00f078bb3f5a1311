"""`specworth plan`: one table, one chart, the service's JSON, Markdown, and what it says of wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.advisor.profiles import point, profile

DATA = Path(__file__).resolve().parents[2] / "data"
PLAN = """
[deployment]
target = "meta-llama/Llama-3.1-8B-Instruct"
max_model_len = 8192
speculation = { method = "eagle3", num_speculative_tokens = 3 }
[slo]
ttft_p95_ms = 600
tpot_p95_ms = 30
[demand]
requests_per_s = { chat = 20.0 }
[classes.chat]
structure = { chat = 1.0 }
input_tokens = 400
output_tokens = 200
temperature = 0.0
[[gpus]]
gpu = "H200"
price_per_hour = 3.5
"""
HEAD = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
ONE = ("--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H200=3.50", "--request-rate", "20", "--input-tokens",
       "400", "--output-tokens", "200", "--structure", "chat=1", "--temperature", "0", "--tpot-p95-ms", "30",
       "--ttft-p95-ms", "600", "--max-model-len", "8192", "--method", "eagle3", "-k", "3", "--draft", HEAD)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A folder with the plan and a curve of one class."""
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    rows = "\n".join(f"{hour},{5 + hour}" for hour in range(24))
    (tmp_path / "curve.csv").write_text(f"hour,chat\n{rows}\n", encoding="utf-8")
    return tmp_path


def test_the_shipped_example_gives_one_table_and_one_chart(in_process, tmp_path):
    """What a capacity review asks for: both GPU types, both arms, every hour; the chart names the arms."""
    chart, report = tmp_path / "plan.svg", tmp_path / "plan.md"
    done = in_process(
        "plan", DATA / "example_plan.toml", "--demand", DATA / "example_demand.csv", "--chart", chart, "-o", report
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "What it takes" in lines
    for start in ("  H200 without", "  H200 EAGLE-3", "  L40S without", "  L40S EAGLE-3"):
        assert any(line.startswith(start) for line in lines), start
    assert sum(line.startswith(f"  {hour:02d} ") for hour in range(24) for line in lines) == 24
    assert "not_measured_here" in done.stdout
    drawn = chart.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    assert "EAGLE-3" in drawn
    told = report.read_text(encoding="utf-8")
    assert told.count("## Hour by hour on") == 2
    assert f"chart written to {chart}" in done.stderr


def test_json_is_the_services_answer(in_process, client, folder):
    """The same request over HTTP gives the same plan, but for its id."""
    import tomllib

    said = json.loads(in_process("plan", folder / "plan.toml", "--json").stdout)
    served = client.post("/v1/capacity-plans", json=tomllib.loads(PLAN)).json()
    for one in (said, served):
        del one["id"]
    assert said == served


def test_options_state_one_class_as_a_file_does(in_process, folder):
    """Whether a class comes from the file or from options, it is planned alike."""
    by_file = json.loads(in_process("plan", folder / "plan.toml", "--json").stdout)
    by_options = json.loads(in_process("plan", *ONE, "--json").stdout)
    for one in (by_file, by_options):
        assert one["gpus"][0]["speculative"]["method"] == "eagle3"
    assert by_file["gpus"][0]["without"]["cost"] == by_options["gpus"][0]["without"]["cost"]


def test_options_go_before_the_file(in_process, folder):
    """Growth, prices and a curve of one's own."""
    found = json.loads(
        in_process(
            "plan", folder / "plan.toml", "--demand", folder / "curve.csv", "--growth", "2", "--gpu", "H200=7", "--json"
        ).stdout
    )
    assert len(found["demand"]) == 24
    assert found["demand"][0]["requests_per_s"] == {"chat": 10.0}
    assert found["gpus"][0]["price_per_hour"] == 7.0


def test_prompts_of_a_file_are_a_class(in_process, folder, prompts):
    """By option, and named in the TOML file, beside which it is looked for."""
    stated = [value for value in ONE if value not in ("--structure", "chat=1", "--input-tokens", "400")]
    by_option = json.loads(in_process("plan", *stated, "--prompts", prompts, "--json").stdout)
    assert by_option["classes"]["requests"]["input_tokens"] < 50
    text = PLAN.replace("structure = { chat = 1.0 }\ninput_tokens = 400", f'prompts_file = "{prompts.name}"')
    (folder / "other.toml").write_text(text, encoding="utf-8")
    by_file = json.loads(in_process("plan", folder / "other.toml", "--json").stdout)
    assert by_file["classes"]["chat"]["input_tokens"] == by_option["classes"]["requests"]["input_tokens"]


OF_HEAD = PLAN.replace("num_speculative_tokens = 3", f'num_speculative_tokens = 3, draft = "{HEAD}"')
MEASURED = {"drafts": 4000, "accepted_per_position": [3000, 2200, 1600], "decode_tokens": 11000, "temperature": 0.0}


def test_what_was_measured_of_a_class_is_told_by_option_by_file_and_over_http(in_process, client, folder):
    """Counts and a profile; beside the TOML file, as options, and as a stored profile's id: the same plans."""
    import tomllib

    document = profile(point(32, 1.2, input_tokens=400.0), target="meta-llama/Llama-3.1-8B-Instruct")
    document["speculation"] |= {"draft": HEAD}
    (folder / "counts.json").write_text(json.dumps(MEASURED), encoding="utf-8")
    (folder / "profile.json").write_text(json.dumps(document), encoding="utf-8")
    stored = client.post("/v1/profiles:import", json=document).json()["id"]
    for kind, evidence, plain in (
        ("evidence", MEASURED, MEASURED), ("profile", {"profile": document}, {"profile_id": stored}),
    ):  # fmt: skip
        name = {"evidence": "counts", "profile": "profile"}[kind]
        text = OF_HEAD.replace("[classes.chat]", f'[classes.chat]\n{kind}_file = "{name}.json"')
        (folder / "measured.toml").write_text(text, encoding="utf-8")
        by_file = json.loads(in_process("plan", folder / "measured.toml", "--json").stdout)
        by_option = json.loads(in_process("plan", *ONE, f"--{kind}", folder / f"{name}.json", "--json").stdout)
        assert by_file["classes"]["chat"]["acceptance"] == "measured"
        found = by_file["gpus"][0]["speculative"]["requests_per_s_of_replica"]
        assert by_option["gpus"][0]["speculative"]["requests_per_s_of_replica"]["expected"] == found["expected"]
        for given in (evidence, plain):
            asked = tomllib.loads(OF_HEAD)
            asked["classes"]["chat"]["evidence"] = given
            served = client.post("/v1/capacity-plans", json=asked).json()
            assert served["gpus"] == by_file["gpus"]
    assert by_file["gpus"][0]["probed_concurrency"] == [32.0]


def test_a_profile_alone_tells_target_speculation_and_requests(in_process, folder):
    """What is left to say: GPU types with prices, how many requests, and the SLO."""
    document = profile(point(32, 1.2), target="meta-llama/Llama-3.1-8B-Instruct")
    document["speculation"] |= {"draft": HEAD}
    (folder / "profile.json").write_text(json.dumps(document), encoding="utf-8")
    asked = ("plan", "--profile", folder / "profile.json", "--gpu", "H200=3.5", "--request-rate", "20")
    done = in_process(*asked, "--tpot-p95-ms", "30")
    assert done.returncode == 0, done.stderr
    assert "The acceptance of requests is measured." in done.stdout
    assert "corrected by what was measured at 32 requests at once" in done.stdout
    review = folder / "review.md"
    assert in_process(*asked, "--tpot-p95-ms", "30", "--report", review).returncode == 0
    assert "Times and speedups on H200 are corrected by what was measured at 32 requests at once" in review.read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('profile_file = "nowhere.json"', "classes.chat.profile_file: {}/nowhere.json cannot be read"),
        ('profile_file = "curve.csv"', "classes.chat.profile_file: {}/curve.csv"),
        ("profile_file = 3", "classes.chat.profile_file; expected a path; got 3"),
        ('evidence_file = "nowhere.json"', "nowhere.json is no file; expected a JSON file with counts"),
        ("evidence = { drafts = 3 }", "classes.chat.evidence.accepted_tokens"),
        ('evidence = { drafts = 3, accepted_tokens = 2 }\nevidence_file = "x"', "expected evidence once"),
    ],
)
def test_evidence_that_cannot_be_used_is_told_with_its_class(in_process, folder, change, message):
    """One line, exit code 2."""
    text = PLAN.replace("[classes.chat]", f"[classes.chat]\n{change}")
    (folder / "wrong.toml").write_text(text, encoding="utf-8")
    done = in_process("plan", folder / "wrong.toml")
    assert done.returncode == 2
    assert message.format(folder) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_png_is_drawn_too(in_process, folder):
    """By the suffix."""
    assert in_process("plan", folder / "plan.toml", "--chart", folder / "plan.png").returncode == 0
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        ("", "--demand: {}: the demand curve: is empty"),
        ("hour,chat\n0,-1\n", "line 2; expected requests per second, 0 or more; got '-1' for chat"),
        ("hour,chat\n0,1\n", "expected the hours 0 to 23, each once; got none for the hours 1, 2"),
        ("hour,chat,x\n0,1,1\n", "got the unknown column 'x'"),
    ],
)
def test_a_wrong_curve_is_told_with_its_file(in_process, folder, curve, message):
    """And exits with 2."""
    path = folder / "wrong.csv"
    path.write_text(curve, encoding="utf-8")
    done = in_process("plan", folder / "plan.toml", "--demand", path)
    assert done.returncode == 2
    assert message.format(path) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("price_per_hour = 3.5", "price_per_hour = -3.5"),
            "line 18: gpus[0].price_per_hour; expected a number above 0",
        ),
        (("ttft_p95_ms = 600", "ttft_p59_ms = 600"), "slo.ttft_p59_ms; expected a known field"),
        (("structure = { chat", "structure = { chta"), "did you mean 'chat'?"),
        (
            ("tpot_p95_ms = 30", "tpot_p95_ms = 0.4"),
            "slo.tpot_p95_ms: No number of replicas keeps this SLO; expected a",
        ),
        (('gpu = "H200"', 'gpu = "H2000"'), "gpus[0].gpu: Unknown GPU"),
        (("chat = 20.0", "chat = 0.0"), "demand.requests_per_s"),
        (("[slo]", "[slo"), "is not valid TOML"),
        (("[classes.chat]", "[classes]\nchat = 3\n[classes.x]"), "classes.chat"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(in_process, folder, change, message):
    """One line with the file's name, exit code 2."""
    path = folder / "wrong.toml"
    path.write_text(PLAN.replace(*change), encoding="utf-8")
    done = in_process("plan", path)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the plan is not complete; expected --target (deployment.target), --gpu NAME=PRICE (gpus), --demand"),
        (("plan.toml", "--gpu", "H200"), "--gpu; expected NAME=PRICE, as H200=3.60; got 'H200'"),
        (("plan.toml", "--gpu", "H200=cheap"), "--gpu; expected NAME=PRICE"),
        (("plan.toml", "--evidence", "{}"), "--evidence; expected the classes of the file alone"),
        (("--profile", "nowhere.json"), "--profile: nowhere.json cannot be read"),
        (("--profile", "p.json", "--evidence", "{}"), "--evidence and --profile: expected one of them, got both"),
        (
            (*ONE[:-6], "--evidence", '{"drafts": 3, "accepted_tokens": 2}'),
            "deployment.speculation; expected the method and the k",
        ),
        (("plan.toml", "--input-tokens", "3"), "--input-tokens; expected the classes of the file alone"),
        (("plan.toml", "--demand", "curve.csv", "--request-rate", "3"), "--request-rate; expected a rate or a curve"),
        (("plan.toml", "--demand", "nowhere.csv"), "--demand: nowhere.csv cannot be read"),
        (("nowhere.toml",), "the plan: nowhere.toml cannot be read"),
        (("plan.toml", "--growth", "-1"), "demand.growth"),
        (
            ("plan.toml", "--chart", "plan.pdf"),
            "--chart: plan.pdf: unknown kind of picture; expected FILE.svg or FILE.png",
        ),
        (("plan.toml", "--output", "no/plan.md"), "--output: cannot write no/plan.md"),
        ((*ONE, "--structure", "code=much"), "--structure; expected KIND=SHARE"),
        ((*ONE, "--min-replicas", "0"), "--min-replicas; expected a whole number from 1"),
        ((*ONE, "--tpot-p95-ms", "0.3"), "--tpot-p95-ms: No number of replicas keeps this SLO"),
    ],
)
def test_wrong_options_are_told_with_their_name(in_process, folder, arguments, message):
    """One line, exit code 2."""
    done = in_process("plan", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"gpus": [{"gpu": "H200", "price_per_hour": -1}]}, 422, "gpus[0].price_per_hour"),
        ({"demand": {"csv": "hour,chat\n0,1\n"}}, 422, "demand.csv"),
        ({"slo": {"tpot_p95_ms": 0.2}}, 422, "slo.tpot_p95_ms"),
        ({"gpus": [{"gpu": "T4", "price_per_hour": 1}]}, 422, "gpus[0]"),
        ({"unknown": 1}, 422, "unknown"),
    ],
)
def test_the_service_answers_wrong_plans_with_a_problem(client, change, status, message):
    """RFC 9457, with the field."""
    import tomllib

    answer = client.post("/v1/capacity-plans", json=tomllib.loads(PLAN) | change)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert message in json.dumps(answer.json())


def test_the_documents_example_is_the_shipped_one():
    """docs/plan.md shows a file that is read, field by field."""
    import tomllib

    from advisor.plan import PlanRequest

    text = (DATA.parent / "docs" / "plan.md").read_text(encoding="utf-8")
    example = text.split("```toml\n")[1].split("```")[0]
    fields = tomllib.loads(example)
    fields.setdefault("demand", {}).setdefault("csv", "hour\n")
    assert set(PlanRequest.model_validate(fields).classes) == {"chat", "documents"}
