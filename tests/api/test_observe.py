"""`specworth observe` and what `advise --traffic` takes from it, at a server whose load is known."""

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.commands.observed import with_observed
from profiler.observe import Levels, Observation, ObservedSpeculation, Rates, Spread, Totals
from tests.fake_vllm import Knobs, fake_vllm

SCRIPT = Path(sys.executable).with_name("specworth")
TARGET, GPU = ("--target", "meta-llama/Llama-3.1-8B-Instruct"), ("--gpu", "H200")


def observation(**changed):
    """Two engines with 12 requests running, and an n-gram drafter with k = 3."""
    speculation = ObservedSpeculation(
        method=None, drafts=1000, drafted_tokens=3000, accepted_tokens=1500, accepted_per_position=(800, 500, 200),
        decode_tokens=4000, num_speculative_tokens=3.0, acceptance_length=2.5, acceptance_rate=0.5,
    )  # fmt: skip
    seen = {
        "url": "http://127.0.0.1:8000", "observed_at": datetime(2026, 1, 1, tzinfo=UTC), "seconds": 60.0,
        "readings": 61, "engine_version": "0.26.0", "model": "m", "engines": ("0", "1"), "adapters": (),
        "restarted": False, "rates": Rates(), "running": Levels(mean=8.0, p95=14.0, most=15.0, busy_mean=12.0),
        "waiting": None, "kv_usage": None, "kv_tokens": None,
        "input_tokens": Spread(count=40, mean=512.5), "output_tokens": Spread(count=40, mean=96.0),
        "since_start": Totals(), "ttft_ms": None, "tpot_ms": None, "end_to_end_ms": None,
        "prefix_hit_share": 0.25, "preemptions": 0, "speculation": speculation,
    }  # fmt: skip
    return Observation(**(seen | changed))


NGRAM = {"deployment": {"speculation": {"method": "ngram", "num_speculative_tokens": 3}}}


def test_traffic_is_taken_for_one_engine():
    """Twelve requests over two engines are six in each; lengths and prefix share are as seen, and all of it is said."""
    fields, said = with_observed({"deployment": {}}, observation())
    assert fields["traffic"] == {
        "concurrency": 6, "input_tokens": 512.5, "output_tokens": 96.0, "cached_prefix_share": 0.25,
    }  # fmt: skip
    assert [line.split(":")[0] for line in said] == [*fields["traffic"], "evidence"]


def test_what_the_command_line_states_is_not_taken():
    """A stated length stays; a stated request rate stands in place of the observed concurrency."""
    fields, _ = with_observed({"traffic": {"request_rate": 3.0, "input_tokens": 100.0}}, observation())
    assert fields["traffic"] == {
        "request_rate": 3.0, "input_tokens": 100.0, "output_tokens": 96.0, "cached_prefix_share": 0.25,
    }  # fmt: skip


def test_counts_of_the_same_drafter_are_evidence():
    """Method and k are those asked about: the counts are used, and whose word the method is, is said."""
    fields, said = with_observed(NGRAM, observation())
    assert fields["evidence"] == {
        "drafts": 1000, "drafted_tokens": 3000, "accepted_tokens": 1500, "decode_tokens": 4000,
        "accepted_per_position": [800, 500, 200],
    }  # fmt: skip
    assert "taken from --method" in said[-1]


@pytest.mark.parametrize(
    ("speculation", "changed", "said"),
    [
        ({}, {}, "name both with --method and -k"),
        ({"method": "ngram", "num_speculative_tokens": 5}, {}, "drafts up to 3 tokens, not 5"),
        ({"method": "ngram", "num_speculative_tokens": 2}, {}, "drafts up to 3 tokens, not 2"),
        ({"method": "eagle3", "num_speculative_tokens": 3}, {"method": "ngram"}, "speculates by ngram, not eagle3"),
        ({"method": "ngram", "num_speculative_tokens": 3}, {"drafts": 0}, "nothing was drafted"),
        ({"method": "ngram", "num_speculative_tokens": 3}, {"accepted_tokens": None}, "after a rejection"),
    ],
)
def test_counts_of_another_drafter_are_no_evidence(speculation, changed, said):
    """Why the observed acceptance is not used stands in the answer."""
    seen = observation()
    seen = observation(speculation=seen.speculation.model_copy(update=changed))
    fields, lines = with_observed({"deployment": {"speculation": speculation}}, seen)
    assert "evidence" not in fields
    assert said in lines[-1]


def test_an_idle_server_gives_no_concurrency():
    """Nothing ran: concurrency stays open, and so do lengths that nobody knows."""
    seen = observation(
        running=Levels(mean=0.0, p95=0.0, most=0.0), input_tokens=None, output_tokens=None, speculation=None
    )
    fields, said = with_observed({}, seen)
    assert fields["traffic"] == {"cached_prefix_share": 0.25}
    assert len(said) == 1


def test_what_the_window_does_not_tell_comes_from_the_servers_past():
    """Nothing ended or was drafted inside the window: lengths, share and counts are those since the start."""
    speculating = observation().speculation
    past = Totals(
        input_tokens=Spread(count=900, mean=300.0), output_tokens=Spread(count=900, mean=80.0), prefix_hit_share=0.5,
        speculation=speculating,
    )  # fmt: skip
    idle = speculating.model_copy(update={"drafts": 0, "drafted_tokens": 0, "accepted_tokens": 0})
    seen = observation(input_tokens=None, output_tokens=None, prefix_hit_share=None, speculation=idle, since_start=past)
    fields, said = with_observed(NGRAM, seen)
    assert fields["traffic"] == {
        "concurrency": 6, "input_tokens": 300.0, "output_tokens": 80.0, "cached_prefix_share": 0.5,
    }  # fmt: skip
    assert fields["evidence"]["drafts"] == 1000
    assert sum("since the server's start" in line for line in said) == 4


def test_advice_under_observed_traffic_says_what_it_took(in_process, prompts, tmp_path):
    """The answer's workload has the observed numbers and names them; the acceptance is measured."""
    (tmp_path / "observed.json").write_text(observation().text())
    answer = in_process(
        "advise", prompts, *TARGET, *GPU, "--traffic", "observed.json", "--method", "ngram", "-k", "3", "--json"
    )
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert (told["workload"]["concurrency"], told["workload"]["input_tokens"]) == (6, 512.5)
    assert told["workload"]["cached_prefix_share"] == 0.25
    assert told["acceptance"]["basis"] == "measured"
    assert "concurrency: 6 observed" in " ".join(told["workload"]["estimated"])
    assert "observed" in in_process("advise", prompts, *TARGET, *GPU, "--traffic", "observed.json").stdout


def test_a_live_server_is_watched_saved_and_shown(in_process, tmp_path):
    """The command prints a table, and saves what --json prints."""
    with fake_vllm(Knobs(model="fake")) as server:
        shown = in_process("observe", server.url, "--for", "200ms", "--every", "100ms", "--out", "seen.json")
        printed = in_process("observe", server.url, "--for", "100ms", "--json")
    assert shown.returncode == 0, shown.stderr
    assert "It does not speculate." in shown.stdout
    assert "seen.json" in shown.stderr
    assert json.loads((tmp_path / "seen.json").read_text()).keys() == json.loads(printed.stdout).keys()


def test_ctrl_c_ends_the_window_and_keeps_what_was_read(tmp_path):
    """An hour's window that is interrupted after some readings is saved and shown, and says that it was cut."""
    with fake_vllm() as server:
        command = [SCRIPT, "observe", server.url, "--for", "1h", "--every", "50ms", "--out", "seen.json"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 30
        while server.scrapes < 4:
            assert time.monotonic() < until, "the server was never read"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "ended early" in out
    assert json.loads((tmp_path / "seen.json").read_text())["readings"] >= 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("observe",), "Missing argument 'URL'"),
        (("observe", "http://127.0.0.1:9"), "does not answer"),
        (("observe", "gopher://x"), "no address of a server"),
        (("observe", "http://127.0.0.1:9", "--for", "soon"), "--for: no such time"),
        (("observe", "http://127.0.0.1:9", "--for", "0"), "--for: no such time"),
        (("observe", "http://127.0.0.1:9", "--for", "900h"), "from 50ms to 24h"),
        (("observe", "http://127.0.0.1:9", "--every", "-1s"), "--every: no such time"),
        (("observe", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY"), "the environment has no NO_SUCH_KEY"),
        (("observe", "http://127.0.0.1:9", "--method", "telepathy"), "unknown method"),
        (("observe", "http://127.0.0.1:9", "--out", "nowhere/x.json"), "--out: cannot write"),
        (("advise", "FILE", *TARGET, *GPU, "--traffic", "nowhere.json"), "nowhere.json cannot be read"),
        (("advise", "FILE", *TARGET, *GPU, "--traffic", "FILE"), "holds no observation"),
        (("sweep",), "Missing argument 'GRID.yaml'"),
        (("sweep", "nowhere.yaml", "--out", "out"), "cannot read 'nowhere.yaml'"),
        (("sweep", "FILE", "--out", "out"), "FILE"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(in_process, prompts, arguments, said):
    """The line says what was expected, and nothing is sent or written."""
    done = in_process(*(prompts if argument == "FILE" else argument for argument in arguments))
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert said.replace("FILE", prompts.name) in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_window_that_is_ended_after_one_reading_is_read_once_more(tmp_path, number):
    """--every longer than patience: what the server did until the signal is told, and saved."""
    with fake_vllm(Knobs()) as server:
        command = [SCRIPT, "observe", server.url, "--for", "1h", "--every", "1h", "--out", "seen.json"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not server.scrapes:
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "ended early" in out
    assert json.loads((tmp_path / "seen.json").read_text())["readings"] == 2


def test_a_full_disk_costs_no_observation(in_process, tmp_path):
    """The window is past when the file turns out not to fit: it is printed, and the exit code says so."""
    with fake_vllm(Knobs()) as server:
        told = in_process("observe", server.url, "--for", "100ms", "--every", "50ms", "--out", "/dev/full")
    assert told.returncode == 1
    assert "no space left" in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1
    assert json.loads(told.stdout)["observation"] == "specworth.observation/1"


@pytest.mark.parametrize(
    "words", [("observe", "http://127.0.0.1:9"), ("profile", "PROMPTS", "--speculative-url", "http://127.0.0.1:9")]
)
def test_a_place_that_cannot_be_written_to_is_told_before_the_measurement(in_process, prompts, words):
    """Not after minutes of it: nobody can make files in /proc."""
    words = [str(prompts) if word == "PROMPTS" else word for word in words]
    told = in_process(*words, "--out", "/proc/seen.json")
    assert told.returncode == 2
    assert "--out: cannot write /proc/seen.json" in told.stderr
