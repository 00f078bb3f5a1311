"""The gate on two live servers under one load: the exit code is what a pipeline acts on, and the figures are real."""

import json
import subprocess
import sys
import threading

import pytest

from tests.real_vllm.load import prompts, send

MOST = 8  # requests at once on each server
SHORT = ("Red?", "Sun?", "Two?", "Sea?", "Ink?", "Oak?", "Rye?", "Zoo?")  # a block takes twenty of either server


@pytest.fixture
def gate(tmp_path):
    """Judges a policy on two servers while both are sent the same prompts; gives what came of it."""

    def run(control, canary, rules):
        policy = tmp_path / "policy.toml"
        policy.write_text(rules, encoding="utf-8")
        over = threading.Event()

        def split():
            """As a router that sends as much to one as to the other; in turn, since both have the same core."""
            while not over.is_set():
                for server in (control, canary):
                    send(server.url, prompts(*SHORT, max_tokens=2), concurrency=MOST)

        thread = threading.Thread(target=split)
        thread.start()
        try:
            return subprocess.run(
                [
                    sys.executable, "-m", "api.main", "gate", "--policy", policy, "--control", control.url,
                    "--canary", canary.url, "--window", "6m", "--every", "1s", "--method", "draft_model", "--json",
                ],
                capture_output=True, text=True, timeout=420,
            )  # fmt: skip
        finally:
            over.set()
            thread.join(60)

    return run


def test_a_pipeline_can_act_on_two_live_servers(baseline_server, draft_model_server, gate):
    """A drafter of half the target's size on a CPU is no gain of a half: 20, with the means that say so."""
    done = gate(baseline_server, draft_model_server, '[rules]\nmin_speedup = 1.5\nmethods = ["draft_model"]\n')
    assert done.returncode == 20, done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    rule = verdict["rules"][0]
    assert (rule["outcome"], verdict["rules"][1]["outcome"]) == ("fail", "pass")
    assert rule["low"] < rule["figure"] < rule["high"] < 1.5
    assert "blocks" in rule["evidence"]
    assert any("acceptance length was" in note for note in verdict["notes"])


def test_the_arms_the_wrong_way_round_are_refused(baseline_server, draft_model_server, gate):
    """A real control that speculates is seen by its counters: 2, and why."""
    done = gate(draft_model_server, baseline_server, "[rules]\nmin_speedup = 1.0\n")
    assert done.returncode == 2
    assert "speculates: its /metrics has vllm:spec_decode counters" in done.stderr
