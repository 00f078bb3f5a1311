"""`--report` of advise and profile: the file is whole, repeats itself, and is refused in one line before the work."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api.reports.conftest import Parsed

SERVE = Path(__file__).resolve().parents[2] / "fake_serve.py"
ASKED = ("--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H200", "--concurrency", "4", "--temperature", "0")


def told_command(report: str) -> list[str]:
    """The command under 'How to repeat it', as a shell would read it."""
    found = re.search(r"Command:\n\n```sh\n(.*?)\n```", report, re.DOTALL)
    assert found is not None
    return shlex.split(found[1].replace("\\\n", ""))


def refused(result: Any) -> str:
    """The one line that refused it, before anything was answered."""
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return str(result.stderr)


def test_advise_writes_html_beside_its_answer(in_process, prompts, tmp_path):
    """The terminal shows what it always does; the file has the same verdict."""
    result = in_process("advise", prompts, *ASKED, "--report", "review.html")
    assert result.returncode == 0, result.stderr
    assert result.stderr.endswith("report written to review.html\n")
    text = " ".join(Parsed((tmp_path / "review.html").read_text(encoding="utf-8")).text.split())
    assert result.stdout.partition("\n")[0] in text


def test_the_command_that_is_told_gives_the_same_numbers_again(in_process, prompts, tmp_path):
    """Options of every kind come back as they were given, but those that say where an answer goes."""
    given = (
        *ASKED, "--no-enable-prefix-caching", "--enforce-eager", "--min-speedup", "1.2", "--objective", "tpot",
        "--sample-size", "2", "--seed", "7", "--method", "draft_model", "--draft", "meta-llama/Llama-3.2-1B-Instruct",
        "-k", "3", "--evidence", '{"drafts": 412, "accepted_tokens": 931, "temperature": 0}',
    )  # fmt: skip
    first = json.loads(in_process("advise", prompts, *given, "--json", "--report", "review.md").stdout)
    report = (tmp_path / "review.md").read_text(encoding="utf-8")
    words = told_command(report)
    assert words[:2] == ["specworth", "advise"]
    assert not {"--json", "--report"} & set(words)
    again = json.loads(in_process(*words[1:], "--json").stdout)
    assert again | {"id": ""} == first | {"id": ""}
    assert "2 prompts" in report
    assert "drawn of 3 (--sample-size 2) with seed 7" in report


def test_files_that_were_read_are_told_by_their_hash(in_process, prompts, tmp_path):
    """Counts in a file, as everything that the answer rests on."""
    counts = tmp_path / "counts.json"
    counts.write_text('{"drafts": 412, "accepted_tokens": 931, "temperature": 0}')
    in_process(
        "advise", prompts, *ASKED, "--method", "ngram", "-k", "4", "--evidence", "counts.json", "--report", "r.md"
    )
    report = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "**Counts counts.json**" in report
    assert re.search(r"Counts counts\.json\*\*\n\n- SHA-256 [0-9a-f]{64}", report)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("review.pdf", "expected FILE.html or FILE.md; got the suffix .pdf"),
        ("review", "got no suffix"),
        ("none/review.html", "got no folder none"),
        ("folder.md", "got a folder"),
        ("/proc/review.html", "cannot write /proc/review.html"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_the_work(in_process, prompts, tmp_path, where, said):
    """One line with what was expected; `profile` refuses the same before it starts a server."""
    (tmp_path / "folder.md").mkdir()
    for words in (("advise", prompts, *ASKED), ("profile", prompts, "--speculative-url", "http://127.0.0.1:9")):
        line = refused(in_process(*words, "--report", where))
        assert "--report" in line
        assert said in line


def test_a_report_for_which_the_disk_has_no_room_costs_the_answer_nothing(in_process, prompts, tmp_path):
    """The answer is out, the failure is one line and an exit code."""
    (tmp_path / "full.md").symlink_to("/dev/full")
    result = in_process("advise", prompts, *ASKED, "--report", "full.md")
    assert result.returncode == 1
    assert "specworth: --report: full.md cannot be written: no space left on device\n" in result.stderr
    assert "Numbers" in result.stdout


@pytest.fixture
def profiled(tmp_path: Path) -> Any:
    """Runs `specworth profile` on stand-in servers, with a key among their arguments."""
    lines = [
        json.dumps({"prompt": f"Write story {i} about the cat", "max_tokens": 13, "temperature": 0}) for i in range(60)
    ]
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines))
    knobs = json.dumps({"ttft_s": 0.01, "step_s": 0.02, "speculative": {"tokens_per_step": 3}})

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        words = [
            str(Path(sys.executable).with_name("specworth")), "profile", "prompts.jsonl", "--target", "fake-8b",
            "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}',
            "--python", f"{sys.executable} {SERVE}",
            "--serve-arguments", f"--knobs '{knobs}' --api-key hunter2 --env HF_TOKEN=hunter2",
            "--concurrency", "4", "--budget", "6", "--no-look-around", "--quiet", *more,
        ]  # fmt: skip
        return subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path)

    return run


def test_profile_writes_a_report_of_what_it_measured_and_no_key(profiled, tmp_path):
    """The decision of profile.json, in both forms; keys of the servers are in none."""
    result = profiled("--report", "review.md")
    assert result.returncode == 0, result.stderr
    profile = json.loads((tmp_path / "profile.json").read_text())
    report = (tmp_path / "review.md").read_text(encoding="utf-8")
    assert f"{profile['points'][0]['end_to_end']['value']:.2f}x" in report
    assert "hunter2" not in report
    words = told_command(report)
    assert words[words.index("--serve-arguments") + 1].endswith("--api-key ... --env HF_TOKEN=...")
    assert words[words.index("--budget") + 1] == "6.0"
    assert "--no-look-around" in words
