"""What is said of a live server is what its endpoint said over the window, and no more."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from profiler.errors import EndpointError, InputError, UnknownNameError
from profiler.observe import read_observation, summarise, watch
from profiler.observe.watch import server_root


def text(*, done=10, running=2.0, drafts=0, start=1000.0, engines=("0",), models=("m",), speculates=True):
    """A /metrics text after `done` requests of 100 + 20 tokens on each engine."""
    lines = [f"process_start_time_seconds {start}"]
    for model in models:
        for engine in engines:
            labels = f'engine="{engine}",model_name="{model}"'
            lines += [
                f"vllm:num_requests_running{{{labels}}} {running}",
                f"vllm:num_requests_waiting{{{labels}}} 0",
                f"vllm:kv_cache_usage_perc{{{labels}}} 0.25",
                f'vllm:cache_config_info{{{labels},num_gpu_blocks="100",block_size="16"}} 1.0',
                f'vllm:request_success_total{{{labels},finished_reason="stop"}} {done}',
                f"vllm:prompt_tokens_total{{{labels}}} {100 * done}",
                f"vllm:generation_tokens_total{{{labels}}} {20 * done}",
                f"vllm:num_preemptions_total{{{labels}}} 0",
                f"vllm:prefix_cache_queries_total{{{labels}}} {100 * done}",
                f"vllm:prefix_cache_hits_total{{{labels}}} {40 * done}",
            ]
            for name, each in (
                ("request_prompt_tokens", 100),
                ("request_generation_tokens", 20),
                ("time_to_first_token_seconds", 0.05),
                ("request_time_per_output_token_seconds", 0.01),
                ("e2e_request_latency_seconds", 0.24),
            ):
                lines += [
                    f"vllm:{name}_sum{{{labels}}} {each * done}",
                    f"vllm:{name}_count{{{labels}}} {done}",
                    f'vllm:{name}_bucket{{{labels},le="{2 * each}"}} {done}',
                    f'vllm:{name}_bucket{{{labels},le="+Inf"}} {done}',
                ]
            if speculates:
                lines += [
                    f"vllm:spec_decode_num_drafts_total{{{labels}}} {drafts}",
                    f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {2 * drafts}",
                    f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {drafts}",
                    f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="0"}} {0.6 * drafts}',
                    f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="1"}} {0.4 * drafts}',
                ]
    return "\n".join(lines) + "\n"


@contextmanager
def endpoint(*answers, key=None) -> Iterator[str]:
    """A server whose /metrics gives these answers one after the other, the last one for ever: a text or a status."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/metrics":
                return self._reply(404, "")
            if key and self.headers.get("Authorization") != f"Bearer {key}":
                return self._reply(401, "")
            answer = left.pop(0) if len(left) > 1 else left[0]
            return self._reply(answer, "") if isinstance(answer, int) else self._reply(200, answer)

        def _reply(self, status, body):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def observed(*answers, model=None, **known):
    with endpoint(*answers) as url:
        return summarise(watch(url, seconds=0.2, every_s=0.1, model=model), model=model, **known)


def test_counts_are_of_the_window_and_lengths_of_its_requests():
    """Ten requests before it are not in it; rates are counts over the seconds between first and last reading."""
    seen = observed(text(), text(done=12), text(done=14, drafts=40))
    assert seen.readings == 3
    assert seen.rates.requests_per_s == pytest.approx(4 / seen.seconds, rel=1e-2)
    assert seen.rates.output_tokens_per_s == pytest.approx(80 / seen.seconds, rel=1e-2)
    assert (seen.input_tokens.mean, seen.output_tokens.mean, seen.output_tokens.count) == (100, 20, 4)
    assert (seen.ttft_ms.mean, seen.tpot_ms.mean) == (50, 10)
    assert seen.tpot_ms.p95 == pytest.approx(19)
    assert seen.prefix_hit_share == pytest.approx(0.4)
    assert (seen.kv_usage.mean, seen.kv_tokens, seen.preemptions) == (0.25, 1600, 0)
    assert seen.since_start.requests == 14
    assert not seen.notes


def test_acceptance_is_of_the_window():
    """AL, rate and positions come from the drafts inside it; tokens per step counts the steps without a draft."""
    seen = observed(text(drafts=100), text(done=14, drafts=140), method="ngram").speculation
    assert (seen.method, seen.drafts, seen.drafted_tokens, seen.accepted_tokens) == ("ngram", 40, 80, 40)
    assert (seen.acceptance_length, seen.acceptance_rate, seen.num_speculative_tokens) == (2.0, 0.5, 2.0)
    assert seen.position_rates == pytest.approx((0.6, 0.4))
    assert seen.tokens_per_step == pytest.approx(76 / 36)  # 80 tokens, 4 of them a request's first; 40 accepted


def test_running_requests_are_levels_over_the_readings():
    """Mean and 95th percentile over the readings, and the mean of those at which anything ran."""
    running = observed(text(running=0), text(running=4), text(running=8)).running
    assert (running.mean, running.most, running.busy_mean) == (4, 8, 6)
    assert running.p95 == pytest.approx(7.6)


def test_a_server_that_does_not_speculate_has_no_acceptance():
    """No speculation is null, not zero acceptance."""
    assert observed(text(speculates=False), text(done=12, speculates=False)).speculation is None


def test_engines_behind_one_endpoint_are_summed_and_counted():
    """Requests and tokens add up; blocks are stated as a sum already; use is the fullest engine's."""
    two = ("0", "1")
    seen = observed(text(engines=two), text(done=12, engines=two))
    assert seen.engines == two
    assert seen.output_tokens.count == 4
    assert seen.running.mean == 4
    assert (seen.kv_tokens, seen.kv_usage.mean) == (1600, 0.25)


def test_one_of_several_models_must_be_named():
    """Counts of two models are not mixed: the error names both, and the one named is read alone."""
    both = ("team/a", "team/b")
    with pytest.raises(EndpointError, match="team/a, team/b"):
        observed(text(models=both))
    with pytest.raises(UnknownNameError, match="team/a"):
        observed(text(models=both), model="team/c")
    seen = observed(text(models=both), text(done=11, models=both), model="team/b")
    assert (seen.model, seen.output_tokens.count) == ("team/b", 1)


def test_a_restart_inside_voids_what_came_before_and_is_said():
    """Counts that fall back to zero are no negative rates: the window begins with the first reading after."""
    seen = observed(text(done=500, drafts=90), text(done=1, start=2000.0), text(done=3, drafts=20, start=2000.0))
    assert seen.restarted
    assert "restarted" in seen.notes[0]
    assert seen.output_tokens.count == 2
    assert seen.speculation.drafts == 20
    assert seen.rates.requests_per_s > 0


def test_a_restart_before_the_last_reading_leaves_its_counts_without_rates():
    """One reading after the restart: its counts stand, and no rate is made of them."""
    seen = observed(text(done=500), text(done=510), text(done=3, drafts=20, start=2000.0))
    assert seen.restarted
    assert (seen.seconds, seen.rates.requests_per_s, seen.output_tokens.count) == (None, None, 3)


def test_a_reading_that_fails_costs_only_itself():
    """A 502 between two good readings is said, and the window stands."""
    seen = observed(text(), 502, text(done=14))
    assert seen.output_tokens.count == 4
    assert "HTTP 502" in " ".join(seen.notes)


def test_an_idle_window_tells_no_lengths_but_the_servers_past_does():
    """No request ended inside: no lengths and rates of 0; what was counted since the start stands beside them."""
    seen = observed(text(drafts=50), text(drafts=50))
    assert (seen.output_tokens, seen.ttft_ms, seen.speculation.acceptance_length) == (None, None, None)
    assert seen.rates.output_tokens_per_s == 0
    assert len(seen.notes) == 2
    assert (seen.since_start.requests, seen.since_start.output_tokens.mean) == (10, 20)
    assert seen.since_start.speculation.acceptance_length == 2.0


def test_a_fresh_server_says_nothing_of_lengths():
    """Nothing served yet: no lengths, no acceptance, and both are said."""
    seen = observed(text(done=0, running=0), text(done=0, running=0))
    assert (seen.input_tokens, seen.speculation.acceptance_length, seen.running.busy_mean) == (None, None, None)
    assert seen.since_start.output_tokens is None
    assert len(seen.notes) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (404, "has no /metrics"),
        (500, "HTTP 500"),
        ("<html>hello</html>", "an HTML page"),
        ('{"a": 1}', "JSON"),
        ("go_goroutines 12\n", "no vLLM series"),
        ("", "an empty answer"),
        ("vllm:a 1\n" * 1_000_000, "sends more than 8,388,608 bytes where metrics are due"),
    ],
)
def test_an_endpoint_that_is_not_vllm_is_one_line(answer, said):
    """What it is instead is named at once, not after the window."""
    began = time.monotonic()
    with endpoint(answer) as url, pytest.raises(EndpointError, match=said) as told:
        watch(url, seconds=30)
    assert "\n" not in str(told.value)
    assert time.monotonic() - began < 5


def test_a_server_that_is_not_there_is_one_line():
    """A closed port is named with what to check."""
    with endpoint(text()) as url:
        pass
    with pytest.raises(EndpointError, match="does not answer") as told:
        watch(url, seconds=30)
    assert "\n" not in str(told.value)


def test_a_key_is_sent_and_a_wrong_one_is_named():
    """A proxy that asks for a key gets it; a refusal says how to give one."""
    with endpoint(text(), key="right") as url:
        assert watch(url, seconds=0.1, every_s=0.1, api_key="right").scrapes
        with pytest.raises(EndpointError, match="--api-key-env"):
            watch(url, seconds=0.1, api_key="wrong")


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "http://127.0.0.1:8000/", "http://127.0.0.1:8000/metrics", " http://127.0.0.1:8000/v1/ "],
)
def test_any_address_of_the_server_will_do(url):
    """Its root, its /v1 or its /metrics, with or without a scheme."""
    assert server_root(url) == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host",
        "http://",
        "http://host:port",
        "file:///etc/hosts",
        "http://[::1",
        "http://a..b",
        "http://" + 70 * "a",
    ],
)
def test_what_is_no_address_is_refused(url):
    """A slip in the address is told before anything is asked."""
    with pytest.raises(InputError, match="no address"):
        server_root(url)


def test_a_password_in_an_address_is_refused_without_telling_it():
    """Addresses stand in observations, profiles and messages, all of which are handed around."""
    with pytest.raises(InputError, match="--api-key-env") as told:
        server_root("http://me:sesame@127.0.0.1:8000")
    assert "sesame" not in told.value.line()


def test_what_is_saved_is_read_again(tmp_path):
    """The file holds all of the observation."""
    seen = observed(text(), text(done=14, drafts=40), method="ngram")
    (tmp_path / "observed.json").write_text(seen.text())
    assert read_observation(tmp_path / "observed.json") == seen


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"observation": "specworth.observation/9"}', "\x00"])
def test_a_file_that_is_no_observation_is_one_line(tmp_path, content):
    """Anything else is refused with what is expected."""
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(InputError, match="holds no observation") as told:
        read_observation(path)
    assert "\n" not in str(told.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_observation(tmp_path / "none.json")


def test_unknown_numbers_are_null_in_the_file(tmp_path):
    """JSON has no NaN: what is not known is null."""
    seen = observed("vllm:num_requests_running NaN\n")
    (tmp_path / "observed.json").write_text(seen.text())
    saved = json.loads((tmp_path / "observed.json").read_text())
    assert saved["running"] is None
    assert saved["prefix_hit_share"] is None
