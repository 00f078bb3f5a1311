"""`specworth gate` on all three kinds of evidence: exit codes, files for CI systems, and what is refused."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from junitparser import Error, Failure, JUnitXml

from tests.advisor.profiles import point, profile
from tests.api.canaries import traffic, two_servers
from tests.fake_vllm import Knobs, fake_vllm

SCRIPT = Path(sys.executable).with_name("specworth")


@pytest.fixture
def policy(tmp_path):
    """Writes a policy; gives its path."""

    def write(text):
        path = tmp_path / "policy.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


SPEEDUP = '[rules]\nmin_speedup = 1.1\nmethods = ["eagle3"]\n'


@pytest.fixture
def measured(tmp_path):
    """A profile at 4 requests at once, written now."""

    def write(speedup=1.5, **changes):
        path = tmp_path / "profile.json"
        known = {"created": datetime.now(UTC).isoformat()} | changes
        path.write_text(json.dumps(profile(point(4, speedup), **known)), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(("speedup", "code", "word"), [(1.5, 0, "Pass"), (0.9, 20, "Fail"), (1.11, 21, "Not yet")])
def test_the_exit_code_is_the_verdict(in_process, policy, measured, speedup, code, word):
    """0, 20 and 21 for pass, fail and not yet, each with its sentence."""
    done = in_process("gate", "--policy", policy(SPEEDUP), "--profile", measured(speedup))
    assert done.returncode == code
    assert done.stdout.startswith(word)
    assert f"min_speedup {speedup:.2f}x" in done.stdout


def test_a_recommendation_goes_through_a_pipe(specworth, policy, prompts):
    """What advise prints is judged as it comes, and is minutes old at most."""
    target = ("--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H200", "--method", "eagle3", "-k", "3")
    answer = specworth("advise", prompts, *target, "--concurrency", "4", "--json")
    rules = policy(SPEEDUP + 'max_age = "10m"\nmin_kv_headroom = 0.1\n')
    done = specworth("gate", "--policy", rules, "--recommendation", "-", "--json", stdin=answer.stdout)
    verdict = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert [rule["outcome"] for rule in verdict["rules"]] == ["pass"] * 4
    assert verdict["kind"] == "recommendation"


def test_ci_systems_get_their_files(in_process, policy, measured, tmp_path, monkeypatch):
    """JUnit XML has a case a rule, broken ones failures and open ones errors; the summary is Markdown, and appended to
    GitHub's."""
    steps = tmp_path / "steps.md"
    steps.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(steps))
    rules = policy('[rules]\nmin_speedup = 2.0\nmin_kv_headroom = 0.1\nmethods = ["eagle3"]\n')
    done = in_process("gate", "--policy", rules, "--profile", measured(), "--junit", "g.xml", "--summary", "g.md")
    assert done.returncode == 20
    document = JUnitXml.fromfile(str(tmp_path / "g.xml"))
    cases = {case.name: [type(one) for one in case.result] for suite in document for case in suite}
    assert cases == {"min_speedup": [Failure], "min_kv_headroom": [Error], "methods": []}
    assert (document.tests, document.failures, document.errors) == (3, 1, 1)
    text = (tmp_path / "g.md").read_text(encoding="utf-8")
    assert "| min\\_speedup | FAIL | 1.50x (" in text
    assert steps.read_text(encoding="utf-8") == "before\n" + text + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[rules]\nmin_speedup = 1.1\nmin_sped = 2\n",
            r"line 3: rules.min_sped; expected a known field; got unknown field",
        ),
        ("[rules\n", "is not valid TOML.*line 1"),
        ('[rules]\nmax_age = "1d"\nmax_age = "2d"\n', "is not valid TOML.*line 3"),
        ("[rules]\nmin_speedup = 1.2\nmax_slower_share = 0.6\n", "line 3: rules.max_slower_share.*asks for a gain"),
        ('objective = "tpot"\n[rules]\nmax_age = "1d"\n', "line 1: objective; expected no contradiction"),
        ("[rules]\nmin_speedup = '1.1'\n", "line 2: rules.min_speedup; expected a number from 0.5 to 20; got '1.1'"),
        ("confidence = 0.9\n", "policy.toml: rules; expected a value: this field is required"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_its_line(in_process, policy, measured, text, message):
    """Exit code 2, and one line with file, line, rule, what was expected and what came."""
    done = in_process("gate", "--policy", policy(text), "--profile", measured())
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.search(message, done.stderr), done.stderr


def test_evidence_older_than_the_policy_allows_is_not_yet(in_process, policy, measured):
    """Said with its age, its limit and what to do, with exit code 21."""
    rules = policy(SPEEDUP + 'max_age = "14d"\n')
    done = in_process("gate", "--policy", rules, "--profile", measured(created="2026-01-01T00:00:00+00:00"))
    assert done.returncode == 21
    assert "days old, at most 14d; measure again: specworth profile" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "what is to be judged; expected one of --recommendation, --profile, or --control and --canary; got none"),
        (("--control", "http://127.0.0.1:1"), "--control without --canary"),
        (("--canary", "http://127.0.0.1:1"), "--canary without --control"),
        (("--profile", "p", "--recommendation", "r"), "got --recommendation and --profile"),
        (("--profile", "p", "--window", "10m"), "--window is for live servers"),
        (("--control", "a", "--canary", "b", "--method", "eagle4"), "--method: unknown method"),
        (("--control", "a", "--canary", "b", "--window", "soon"), "--window: no such time"),
        (("--control", "a", "--canary", "b", "--api-key-env", "NO_SUCH"), "the environment has no NO_SUCH"),
        (("--recommendation", "none.json"), "--recommendation: none.json cannot be read"),
        (("--profile", "none.json", "--junit", "no/such/place.xml"), "--junit: cannot write no/such/place.xml"),
    ],
)
def test_options_that_do_not_go_together_are_refused(in_process, policy, arguments, message):
    """Exit code 2 and a line that names the option."""
    done = in_process("gate", "--policy", policy(SPEEDUP), *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_what_is_no_recommendation_is_refused(in_process, policy, measured):
    """A profile given as a recommendation: said so, with the place."""
    done = in_process("gate", "--policy", policy(SPEEDUP), "--recommendation", measured())
    assert done.returncode == 2
    assert "is no recommendation; expected what specworth advise --json printed; got at" in done.stderr


def live(*servers, window="8s"):
    return ("--control", servers[0].url, "--canary", servers[1].url, "--window", window, "--every", "100ms")


def test_a_canary_that_gains_passes_before_its_window_ends(in_process, policy):
    """Twice as fast under equal traffic: exit code 0 long before the hour is over, with method and means told."""
    rules = policy('objective = "tpot"\n[rules]\nmin_speedup = 1.3\nmax_age = "1h"\nmethods = ["ngram"]\n')
    with two_servers() as servers, traffic(*servers, gain=2.0):
        done = in_process("gate", "--policy", rules, *live(*servers, window="1h"), "--method", "ngram", "--json")
    verdict = json.loads(done.stdout)
    assert done.returncode == 0
    assert verdict["rules"][0]["low"] > 1.3
    assert verdict["rules"][0]["figure"] == pytest.approx(2.0, rel=0.1)


def test_a_canary_that_loses_fails(in_process, policy):
    """Half as fast: exit code 20."""
    rules = policy("[rules]\nmin_speedup = 1.0\nmax_tpot_p95_regression = 0.2\n")
    with two_servers() as servers, traffic(*servers, gain=0.5):
        done = in_process("gate", "--policy", rules, *live(*servers, window="1h"))
    assert done.returncode == 20
    assert done.stdout.startswith("Fail: ")


def test_a_window_without_traffic_is_not_yet(in_process, policy):
    """Exit code 21, and what is missing."""
    with two_servers() as servers:
        done = in_process("gate", "--policy", policy("[rules]\nmin_speedup = 1.1\n"), *live(*servers, window="300ms"))
    assert done.returncode == 21
    assert "0 and 0 requests" in " ".join(done.stdout.split())


def test_headroom_is_watched_to_the_end(in_process, policy):
    """A pass that needs it comes with the end of the window, since a peak may still come."""
    with two_servers() as servers:
        rules = policy("[rules]\nmin_kv_headroom = 0.5\n")
        done = in_process("gate", "--policy", rules, *live(*servers, window="700ms"), "--json")
        assert servers[1].scrapes >= 8
    assert done.returncode == 0
    assert json.loads(done.stdout)["rules"][0]["figure"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("canary", "load", "message"),
    [
        ({"model": "other", "root": "/models/other"}, {}, "the two servers serve different models"),
        ({"num_speculative_tokens": 0}, {}, "does not speculate: its /metrics has no vllm:spec_decode counters"),
        ({"with_metrics": False}, {}, "has no vLLM /metrics"),
        ({"owned_by": "someone", "version": None, "with_metrics": False}, {}, "is no vLLM server"),
        ({}, {"prompts": 4.0}, "see different traffic: their prompts differ in length"),
        ({}, {"share": 0.2}, "see different traffic: one is under more load"),
    ],
)
def test_two_servers_that_cannot_be_compared_are_refused(in_process, policy, canary, load, message):
    """Exit code 2 and one line that says why."""
    with two_servers(**canary) as servers, traffic(*servers, **load):
        done = in_process("gate", "--policy", policy("[rules]\nmin_speedup = 1.1\n"), *live(*servers))
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_one_server_twice_is_refused(in_process, policy):
    """Under two spellings of its address."""
    with fake_vllm(Knobs(histograms=True)) as one:
        other = one.url.replace("127.0.0.1", "localhost")
        done = in_process("gate", "--policy", policy(SPEEDUP), "--control", one.url, "--canary", other)
    assert done.returncode == 2
    assert "both addresses are of the same server" in done.stderr


def test_a_control_that_speculates_is_refused(in_process, policy):
    """The arms are the wrong way round."""
    with two_servers() as servers:
        done = in_process("gate", "--policy", policy(SPEEDUP), *live(*reversed(servers)))
    assert done.returncode == 2
    assert "speculates: its /metrics has vllm:spec_decode counters" in done.stderr


def test_a_server_that_restarts_inside_the_window_is_refused(in_process, policy):
    """Its counters fall: nothing of the window is judged."""
    rules = policy("[rules]\nmin_speedup = 1.0\n")
    with two_servers() as servers, traffic(*servers, after=servers[1].restart):
        done = in_process("gate", "--policy", rules, *live(*servers))
    assert done.returncode == 2
    assert f"the canary {servers[1].url} restarted inside the window" in done.stderr


def test_a_server_that_stops_answering_is_refused(in_process, policy):
    """Three readings in a row that fail end the watch: what was seen until then is not judged."""

    def silence():
        servers[1].knobs.with_metrics = False

    with two_servers() as servers, traffic(*servers, after=silence):
        done = in_process("gate", "--policy", policy("[rules]\nmin_speedup = 1.0\n"), *live(*servers, window="1h"))
    assert done.returncode == 2
    assert "does not answer any more" in done.stderr
    assert "3 readings in a row that failed" in done.stderr


def test_a_server_that_is_gone_is_told(in_process, policy):
    """Nothing listens there: the address is named."""
    with fake_vllm(Knobs(histograms=True)) as one:
        gone = "http://127.0.0.1:9"
        done = in_process("gate", "--policy", policy(SPEEDUP), "--control", one.url, "--canary", gone)
    assert done.returncode == 2
    assert f"{gone} does not answer" in done.stderr


def test_help_tells_the_exit_codes():
    """0, 20 and 21 with what they mean, without loading what judges."""
    done = subprocess.run([SCRIPT, "gate", "--help"], capture_output=True, text=True, timeout=30, check=True)
    assert "0 for pass, 20 for fail and 21 for not yet" in " ".join(done.stdout.split())
