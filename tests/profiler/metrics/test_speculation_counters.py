"""Acceptance is read right from the counters of every engine version."""

import pytest

from profiler.errors import EndpointError
from profiler.metrics import read_gauges, read_scrape, read_window, speculation_counters

V1 = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 60
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 40
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.79e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 180
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="m"} 120
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 100
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="m"} 50
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 50
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m",position="0"} 30
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 50
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m",position="1"} 20
vllm:generation_tokens_total{engine="0",model_name="m"} 400
"""
V0 = """\
vllm:spec_decode_efficiency{model_name="m"} 0.598
vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 8547
vllm:spec_decode_num_draft_tokens_total{model_name="m"} 13311
vllm:spec_decode_num_emitted_tokens_total{model_name="m"} 10616
"""


def test_counts_are_summed_over_engines_and_timestamps_are_left_alone() -> None:
    """Two engines' counts add; a `_created` twin is no count."""
    counters = speculation_counters(read_scrape(V1))
    assert counters is not None
    assert (counters.drafts, counters.drafted_tokens, counters.accepted_tokens) == (100, 300, 150)
    assert counters.acceptance_length == pytest.approx(2.5)
    assert counters.position_rates == pytest.approx((0.8, 0.7))


@pytest.mark.parametrize(
    "variant",
    [
        V1.replace("_total", ""),
        V1.replace("vllm:", "ray_vllm:"),
        V1.replace("\n", "\r\n"),
        V1 + V1.replace("_total", ""),
        V1.replace(" 60\n", " 6e+1 1790000000000\n"),
        V1 + 'vllm:num_requests_running{engine="0",mod',
    ],
    ids=["bare names", "Ray's prefix", "CRLF", "both names", "exponent and timestamp", "cut last line"],
)
def test_spellings_say_the_same(variant: str) -> None:
    """Names with and without `_total`, prefixes, line ends and number forms change nothing; none counts twice."""
    assert speculation_counters(read_scrape(variant)) == speculation_counters(read_scrape(V1))


def test_v0_counts_after_a_rejection_are_not_a_chain() -> None:
    """A V0 engine's AL comes from the emitted tokens, k from the efficiency gauge; 1 + accepted / drafts is 2.93."""
    counters = speculation_counters(read_scrape(V0))
    assert counters is not None
    assert counters.drafts == 4437
    assert counters.acceptance_length == pytest.approx(2.39, abs=0.005)
    assert counters.acceptance_rate is None


def test_v0_without_its_efficiency_needs_k() -> None:
    """Without the gauge the acceptance length is unknown until k is given."""
    scrape = read_scrape("\n".join(line for line in V0.splitlines() if "efficiency" not in line) + "\n")
    unknown, known = speculation_counters(scrape), speculation_counters(scrape, num_speculative_tokens=3)
    assert unknown is not None
    assert unknown.acceptance_length is None
    assert known is not None
    assert known.acceptance_length == pytest.approx(2.39, abs=0.005)


def test_no_drafts_is_unknown_not_zero() -> None:
    """A window in which nothing was drafted has no acceptance and one token per step."""
    later = V1.replace("} 400", "} 430")
    window = read_window(read_scrape(V1), read_scrape(later, at_s=5.0))
    assert window.speculation is not None
    assert window.speculation.acceptance_length is None
    assert window.speculation.acceptance_rate is None
    assert window.tokens_per_step == 1.0
    assert window.seconds == 5.0


def test_a_server_without_speculation_has_no_counters() -> None:
    """No speculation is None, not zero acceptance."""
    assert speculation_counters(read_scrape("vllm:num_requests_running 1\n")) is None


@pytest.mark.parametrize("start", ["", "process_start_time_seconds 100\n"])
def test_a_restart_leaves_only_what_came_after(start: str) -> None:
    """Counts that fell, or a later process start, void the first scrape and are said."""
    before = V1.replace("} 60", "} 600") + start
    after = V1 + start.replace("100", "900")
    window = read_window(read_scrape(before), read_scrape(after, at_s=9.0))
    assert window.restarted
    assert window.speculation is not None
    assert window.speculation.drafts == 100
    assert window.seconds is None


def test_deprecated_twins_count_once() -> None:
    """Where a gauge stands under its old and its new name it is read once; alone, the old name is read."""
    both = "vllm:gpu_prefix_cache_queries_total 32\nvllm:prefix_cache_queries_total 32\nvllm:gpu_cache_usage_perc 0.5\n"
    scrape = read_scrape(both)
    assert scrape.total("prefix_cache_queries") == 32
    assert read_gauges(scrape).kv_usage == 0.5


def test_idle_nan_is_unknown() -> None:
    """An idle engine's NaN neither poisons the others nor reads as zero."""
    text = 'vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:kv_cache_usage_perc{engine="1"} 0.25\n'
    assert read_gauges(read_scrape(text)).kv_usage == 0.25
    assert read_gauges(read_scrape('vllm:kv_cache_usage_perc{engine="0"} NaN\n')).kv_usage is None


def test_labels_may_hold_anything() -> None:
    """Quotes, commas and braces inside a label are part of it, and a model's counts are its own."""
    text = (
        'vllm:prompt_tokens_total{engine="0",model_name="x,y}{=\\"z"} 1.17e+010\n'
        'vllm:prompt_tokens_total { model_name="m" , engine="0" } 5\n'
        'vllm:num_requests_waiting_by_reason{model_name="m",reason="capacity"} 4\n'
        'vllm:num_requests_waiting{model_name="m"} 5\n'
    )
    scrape = read_scrape(text)
    assert scrape.models() == ('x,y}{="z', "m")
    assert scrape.total("prompt_tokens", model='x,y}{="z') == 1.17e10
    assert read_gauges(scrape, model="m").waiting == 5


def test_the_newest_adapter_line_is_the_current_one() -> None:
    """An info series keeps its history; the line with the largest timestamp says which adapters run."""
    text = (
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.2e9\n'
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="c",waiting_lora_adapters=""} 1.3e9\n'
    )
    assert read_gauges(read_scrape(text)).adapters == ("c",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty answer"),
        ("<html><body>502</body></html>", "an HTML page"),
        ('{"a": 1}', "JSON"),
        ("go_goroutines 12\n", "no vLLM series"),
    ],
)
def test_what_is_not_vllm_is_named(text: str, said: str) -> None:
    """A page, JSON or another service's metrics are refused with what they are."""
    with pytest.raises(EndpointError, match=said):
        read_scrape(text, url="http://127.0.0.1:9/metrics")


def test_quantiles_interpolate_inside_their_bucket() -> None:
    """Half of the samples below 10 ms and the rest below 20 ms: the 75th percentile is 15 ms."""
    text = "".join(
        f'vllm:request_time_per_output_token_seconds_bucket{{le="{le}"}} {n}\n'
        for le, n in (("0.01", 4), ("0.02", 8), ("+Inf", 8))
    )
    text += "vllm:request_time_per_output_token_seconds_sum 0.08\nvllm:request_time_per_output_token_seconds_count 8\n"
    tpot = read_window(None, read_scrape(text)).tpot_ms
    assert tpot is not None
    assert tpot.mean == pytest.approx(10.0)
    assert tpot.quantile(0.75) == pytest.approx(15.0)
