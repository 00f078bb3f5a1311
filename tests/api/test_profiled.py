"""`advise --profile` and `evidence.profile`: the same file by both ways, and one line for what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.advisor.profiles import point, profile


@pytest.fixture
def measured() -> dict[str, Any]:
    """n-gram lookup on Llama-3.1-8B and an H200, measured at 16 requests at once."""
    content = profile(point(16, 1.31), target="meta-llama/Llama-3.1-8B-Instruct")
    content["speculation"] = {"method": "ngram", "num_speculative_tokens": 3, "draft": None, "config": {}}
    content["environment"] |= {"serve_arguments": ["--max-model-len", "4096", "--max-num-seqs=64"]}
    return content


def written(folder: Path, content: Any) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps(content))
    return path


def test_a_profile_alone_is_a_whole_question(specworth, prompts, tmp_path, measured) -> None:
    """Target, GPU, method, k, limits and traffic are those that were measured."""
    done = specworth("advise", prompts, "--profile", written(tmp_path, measured), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["basis"] == "measured"
    assert answer["verdict"] == "enable"
    assert answer["decisive"]
    assert answer["speedup"]["end_to_end"]["value"] == pytest.approx(1.31, rel=0.03)
    assert answer["candidate"] == {"method": "ngram", "draft": None, "num_speculative_tokens": 3}
    assert answer["workload"]["concurrency"] == 16
    assert answer["memory"]["max_model_len"] == 4096
    assert answer["memory"]["max_num_seqs"] == 64


def test_options_win_over_the_profile(in_process, prompts, tmp_path, measured) -> None:
    """What is given is asked; the measurement is extrapolated to it."""
    path = written(tmp_path, measured)
    answer = json.loads(in_process("advise", prompts, "--profile", path, "--concurrency", "48", "--json").stdout)
    assert answer["workload"]["concurrency"] == 48
    assert answer["basis"] == "mixed"


def test_the_report_says_that_it_was_measured(in_process, prompts, tmp_path, measured) -> None:
    """A reader of the report knows what the numbers rest on."""
    shown = in_process("advise", prompts, "--profile", written(tmp_path, measured)).stdout
    assert "measured" in shown.split("Numbers")[0]


def test_over_http_the_same_profile_gives_the_same_answer(client, specworth, prompts, tmp_path, measured) -> None:
    """The profile stands in the request's evidence; the speculation is taken from it."""
    by_command = json.loads(specworth("advise", prompts, "--profile", written(tmp_path, measured), "--json").stdout)
    lines = [json.loads(line) for line in prompts.read_text().splitlines()]
    deployment = {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200", "max_model_len": 4096,
                  "max_num_seqs": 64, "engine_version": "0.26.0"}  # fmt: skip
    asked = {"prompts": lines, "deployment": deployment, "evidence": {"profile": measured}}
    reply = client.post("/v1/recommendations", json=asked)
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    for name in ("verdict", "basis", "speedup", "curve", "candidate"):
        assert answer[name] == by_command[name], name


def test_http_refuses_another_version_with_its_place(client, body, measured) -> None:
    """422, and the field is the profile's."""
    reply = client.post("/v1/recommendations", json=body | {"evidence": {"profile": measured | {"schema_version": 9}}})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["field"].startswith("evidence.profile")
    assert "schema version 1" in reply.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"kind": "other"}, "no profile"),
        ({"kind": "specworth.profile", "schema_version": 2}, "schema version 1"),
        ({"kind": "specworth.profile", "schema_version": 1}, "damaged at"),
        ([1], "profile.json"),
    ],
)
def test_a_file_that_is_no_profile_is_one_line(in_process, prompts, tmp_path, content: Any, said: str) -> None:
    """Another file, another version, a damaged one."""
    done = in_process("advise", prompts, "--profile", written(tmp_path, content))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_wrong_uses_of_a_profile_are_one_line(in_process, prompts, tmp_path, measured) -> None:
    """A missing file, two evidences, a profile of a CPU without a GPU."""
    on_cpu = measured | {"environment": measured["environment"] | {"platform": "cpu", "gpus": []}}
    for words, said in (
        (("--profile", tmp_path / "none.json"), "cannot be read"),
        (("--profile", written(tmp_path, measured), "--evidence", "{}"), "got both"),
        (("--profile", written(tmp_path, on_cpu)), "'--gpu'"),
    ):
        done = in_process("advise", prompts, *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
