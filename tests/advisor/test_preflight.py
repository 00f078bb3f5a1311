"""Warnings before switching on, each from facts alone."""

import pytest

from advisor.preflight import beyond_measured
from tests.advisor.deployments import DRAFT_K3, EAGLE3, EAGLE3_K3, LLAMA_1B, LLAMA_8B, NGRAM_K4, ask, codes

LLAMA_3B = LLAMA_8B | {
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
}
TINY = LLAMA_1B | {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
                   "num_key_value_heads": 4}  # fmt: skip


def drafted(config, **changes):
    return DRAFT_K3 | {"draft": {"name": "draft", "config": config}} | changes


def text_of(answer, code):
    """The one warning of that code."""
    (text,) = [warning.text for warning in answer.warnings if warning.code == code]
    return text


def test_vocabularies_that_differ_need_an_option_where_the_engine_has_it():
    """From 0.25 on vLLM can draft the common tokens: the option is configured, nothing is decisive."""
    answer = ask(speculation=drafted(LLAMA_1B | {"vocab_size": 32000}), policy={"min_speedup": 0.1})
    assert {"vocabularies_differ", "needs_use_heterogeneous_vocab"} <= codes(answer)
    assert answer.configuration.speculative_config["use_heterogeneous_vocab"] is True
    assert not answer.decisive


def test_vocabularies_that_differ_block_an_older_engine():
    """Without the option the engine refuses the pair: disabled, whatever the speedup would be."""
    answer = ask(
        speculation=drafted(LLAMA_1B | {"vocab_size": 32000}), engine_version="0.20.0", policy={"min_speedup": 0.1}
    )
    assert "vocabularies_differ" in codes(answer)
    assert (answer.verdict, answer.probability, answer.decisive) == ("disable", 0.0, True)
    assert (answer.crossover_reason, answer.enable_ranges) == ("none", [])


def test_a_head_of_another_target():
    """An EAGLE-3 head with another vocabulary was made for another model."""
    head = {"method": "eagle3", "draft": {"name": "head", "config": EAGLE3 | {"vocab_size": 32000}}}
    answer = ask(speculation=head)
    assert "another target" in text_of(answer, "vocabularies_differ")
    assert answer.verdict == "disable"


def test_a_drafter_that_is_not_cheap_enough():
    """A 3B draft of an 8B target reads 40 % of what the target reads."""
    assert "times cheaper" in text_of(ask(speculation=drafted(LLAMA_3B)), "drafter_too_large")


def test_a_drafter_that_is_too_small():
    """A drafter more than 50 times cheaper is told to be accepted less."""
    assert "drafter_too_small" in codes(ask(speculation=drafted(TINY)))
    assert not {"drafter_too_large", "drafter_too_small"} & codes(ask(speculation=EAGLE3_K3))


def test_prompts_beyond_the_drafters_context():
    """A head with 2,048 positions under prompts of 6,000 tokens."""
    head = {"name": "head", "config": EAGLE3 | {"max_position_embeddings": 2048}}
    answer = ask(speculation=EAGLE3_K3 | {"draft": head}, traffic={"input_tokens": 6000})
    assert "2,048" in text_of(answer, "drafter_context")


def test_a_drafter_that_does_not_fit():
    """An 8B target fits a 24 GiB card, not with its 3B drafter beside it."""
    answer = ask(speculation=drafted(LLAMA_3B), gpu="L4", max_model_len=4096, gpu_memory_utilization=0.9)
    assert "drafter_does_not_fit" in codes(answer)
    assert answer.verdict == "disable"


def test_a_drafter_that_pushes_the_traffic_into_preemption():
    """What the cache holds without the drafter it does not hold with it: told with both figures."""
    served = {"gpu": "L4", "max_model_len": 2048, "gpu_memory_utilization": 0.95, "max_num_seqs": 64}
    traffic = {"input_tokens": 900, "output_tokens": 100}
    without = ask(speculation=NGRAM_K4, traffic=traffic | {"concurrency": 1}, **served).memory.concurrency_without
    answer = ask(speculation=drafted(LLAMA_1B), traffic=traffic | {"concurrency": without}, **served)
    assert f"instead of {without}" in text_of(answer, "preemption")
    assert any(reason.factor == "memory" for reason in answer.reasons)
    assert "little_kv_cache" in codes(answer)


def test_methods_and_options_that_the_engine_lacks():
    """Draft models came back with 0.15, probabilistic drafts with 0.21."""
    answer = ask(speculation=DRAFT_K3, engine_version="0.12.0")
    assert "0.15" in text_of(answer, "method_not_in_version")
    assert answer.verdict == "disable"
    probabilistic = ask(speculation=DRAFT_K3 | {"draft_sample_method": "probabilistic"}, engine_version="0.18.0")
    assert "draft_sample_method" in text_of(probabilistic, "option_not_in_version")


def test_an_engine_that_nobody_has_read():
    """A version beyond the known ones is said to be unknown, and nothing is decisive."""
    answer = ask(speculation=EAGLE3_K3, engine_version="0.99.0")
    assert {"engine_version_unknown", "not_measured_here"} <= codes(answer)
    assert not answer.decisive


@pytest.mark.parametrize(("speculation", "lost"), [(DRAFT_K3, True), (NGRAM_K4, True), (EAGLE3_K3, False)])
def test_asynchronous_scheduling(speculation, lost):
    """vLLM 0.26 gives it up for draft models and n-gram, not for EAGLE-3."""
    assert ("async_scheduling_lost" in codes(ask(speculation=speculation))) == lost


def test_sampling_that_speculation_ignores():
    """min_p and logit_bias are counted; a value that asks for nothing is not."""
    prompts = [
        {"prompt": "a", "min_p": 0.1},
        {"prompt": "b", "logit_bias": {"50": -100}},
        {"prompt": "c", "min_p": 0.0},
        {"prompt": "d", "min_p": 0.2},
    ]
    texts = [w.text for w in ask(prompts=prompts).warnings if w.code == "sampling_ignored"]
    assert len(texts) == 2
    assert any(text.startswith("2 of the prompts set min_p") for text in texts)


@pytest.mark.parametrize(("count", "few"), [(1, True), (24, True), (25, False)])
def test_few_prompts_do_not_stand_for_the_traffic(count, few):
    """Up to 24 prompts a share may be off by more than ten points, which no interval says."""
    answer = ask(prompts=[f"Why is {i} not prime?" for i in range(count)])
    assert ("few_prompts" in codes(answer)) == few


def test_tensor_parallel_sizes_that_do_not_go_together():
    """A draft model runs at its target's tensor parallelism or not at all."""
    answer = ask(speculation=DRAFT_K3 | {"draft_tensor_parallel_size": 1}, tensor_parallel_size=2)
    assert "must be 2" in text_of(answer, "tensor_parallel_mismatch")
    assert answer.verdict == "disable"


def test_a_target_with_nothing_to_gain():
    """A target that reads its weights faster than its layers are launched."""
    assert "small_target" in codes(ask(target={"name": "tiny", "config": TINY}, speculation=NGRAM_K4))
    assert "small_target" not in codes(ask(speculation=NGRAM_K4))


def test_what_takes_the_cache_is_told_by_its_cause():
    """A method without weights takes cache by its buffers, which grow with max_num_seqs; nothing else is blamed."""
    answer = ask(
        speculation={"method": "suffix", "num_speculative_tokens": 4}, gpu="L4", max_num_seqs=1024, max_model_len=4096,
        traffic={"concurrency": 2},
    )  # fmt: skip
    text = text_of(answer, "little_kv_cache")
    assert "buffers for verifying drafts take" in text
    assert "weights" not in text
    assert "layers" not in text


def test_why_a_candidate_cannot_run_is_the_first_reason():
    """A speedup that cannot be had is told as such, so that verdict and numbers do not contradict each other."""
    answer = ask(speculation=EAGLE3_K3, engine_version="0.8.0")
    assert answer.verdict == "disable"
    assert answer.reasons[0].factor == "cannot_run"
    assert "it cannot run here: vLLM 0.8.0 has no method eagle3" in answer.reasons[0].text
    assert f"{answer.speedup.end_to_end.value:.2f}x would be expected" in answer.reasons[0].text


def test_what_a_config_leaves_open_is_told():
    """An image tower that cannot be counted takes memory that the plan does not know of."""
    config = {
        "model_type": "some_vl", "architectures": ["SomeForConditionalGeneration"], "text_config": LLAMA_8B,
        "vision_config": {"model_type": "nobody_knows", "hidden_size": 1024},
    }  # fmt: skip
    text = text_of(ask(target={"name": "some-vl", "config": config}, speculation=NGRAM_K4), "config_reservation")
    assert "some-vl: the image tower (nobody_knows) is not counted" in text
    assert "config_reservation" not in codes(ask(speculation=NGRAM_K4))


def test_ranges_beyond_every_measurement_are_said():
    """A range that pays above 256 requests, where nobody measured, is told to be the model's; one below is not."""
    assert [w.code for w in beyond_measured([(1, 81), (155, 1024)])] == ["extrapolated_concurrency"]
    assert not list(beyond_measured([(1, 256)]))
    assert not list(beyond_measured([]))
