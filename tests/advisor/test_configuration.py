"""What is given to vLLM."""

import json

import pytest

from tests.advisor.deployments import DRAFT_K3, EAGLE3_K3, NGRAM_K4, ask, counts


def test_an_enabled_configuration_has_vllms_names():
    """Method, drafter and k as SpeculativeConfig calls them, and the same object in the arguments of `vllm serve`."""
    answer = ask(speculation=EAGLE3_K3, evidence=counts(2.5), traffic={"concurrency": 1}, max_num_seqs=32)
    config = answer.configuration.speculative_config
    assert config == {"method": "eagle3", "model": "head", "num_speculative_tokens": 3}
    arguments = answer.configuration.serve_arguments
    assert arguments[:5] == ["llama-8b", "--max-model-len", "16384", "--max-num-seqs", "32"]
    assert json.loads(arguments[arguments.index("--speculative-config") + 1]) == config


def test_disable_has_no_speculative_config_at_all():
    """A drafter that is loaded but idle is not free."""
    answer = ask(speculation=DRAFT_K3, evidence=counts(2.4))
    assert answer.configuration.speculative_config is None
    assert answer.configuration.schedule is None
    assert "--speculative-config" not in answer.configuration.serve_arguments


def test_settings_of_the_deployment_are_kept():
    """What the request says of the deployment is what it is served with."""
    arguments = ask(
        speculation=NGRAM_K4 | {"prompt_lookup_max": 4, "prompt_lookup_min": 2},
        policy={"min_speedup": 0.1},
        gpu_memory_utilization=0.85,
        tensor_parallel_size=2,
        enable_prefix_caching=False,
        enforce_eager=True,
        kv_cache_dtype="fp8",
    ).configuration.serve_arguments
    text = " ".join(arguments)
    wanted = (
        "--gpu-memory-utilization 0.85",
        "--tensor-parallel-size 2",
        "--no-enable-prefix-caching",
        "--enforce-eager",
        "--kv-cache-dtype fp8",
        '"prompt_lookup_max": 4',
        '"prompt_lookup_min": 2',
    )
    assert [part for part in wanted if part not in text] == []


@pytest.mark.parametrize(
    ("given", "served"),
    [({}, (2, 5)), ({"prompt_lookup_max": 4}, (4, 4)), ({"prompt_lookup_min": 3, "prompt_lookup_max": 8}, (3, 8))],
)
def test_lookup_is_advised_as_it_is_priced(given, served):
    """n-gram's matches are named in the flags: those that the prediction rests on, or what vLLM makes of the given."""
    config = ask(speculation=NGRAM_K4 | given, policy={"min_speedup": 0.1}).configuration.speculative_config
    assert (config["prompt_lookup_min"], config["prompt_lookup_max"]) == served


def test_a_schedule_where_k_should_fall_with_the_batch():
    """Where k + 1 tokens a sequence outgrow the captured graphs, a smaller k is faster: told in vLLM's form, and only
    to a version that knows it. Beyond, where no k keeps within the graphs, the larger one may win again."""
    parts = {"speculation": EAGLE3_K3, "evidence": counts(2.5), "traffic": {"concurrency": 1}}
    answer = ask(**parts)
    schedule = answer.configuration.schedule
    assert schedule[0][0] == 1
    assert [first for first, _, _ in schedule[1:]] == [last + 1 for _, last, _ in schedule[:-1]]
    assert schedule[1][2] < schedule[0][2]
    config = answer.configuration.speculative_config
    assert config["num_speculative_tokens_per_batch_size"] == [list(tier) for tier in schedule]
    assert ask(**parts, engine_version="0.20.0").configuration.schedule is None


def test_the_model_is_served_by_its_full_name():
    """A short name that the catalog knows is no name that vLLM could load."""
    arguments = ask(target="llama-3.1-8b", gpu="H200").configuration.serve_arguments
    assert arguments[0] == "meta-llama/Llama-3.1-8B-Instruct"
    arguments = ask(target={"name": "qwen3-8b", "quantization": "fp8"}, gpu="H200").configuration.serve_arguments
    assert arguments[:3] == ["Qwen/Qwen3-8B", "--quantization", "fp8"]
