"""What each engine version can do."""

from dataclasses import replace

import pytest

from profiler.catalog import find_gpu, find_model
from profiler.compatibility import (
    async_scheduling_lost,
    asynchronous_scheduling,
    batch_defaults,
    default_gpu_memory_utilization,
    draft_tensor_parallel_sizes,
    is_known_version,
    method_name,
    method_problem,
    model_runner,
    option_problem,
    parse_version,
    supports,
    supports_option,
    version_statement,
)
from profiler.deployment import METHODS
from profiler.errors import DeploymentError, UnknownNameError


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("0.26.0", (0, 26, 0)), ("v0.26", (0, 26, 0)), ("0.32.0+cpu", (0, 32, 0)), ("0.11.2.post2", (0, 11, 2)),
     ("0.26.0rc1", (0, 26, 0)), ("0.16.0.dev12", (0, 16, 0)), (" 1.0 ", (1, 0, 0))],
)  # fmt: skip
def test_versions_are_read(text, parsed):
    """The forms in which vLLM states its version are read."""
    assert parse_version(text) == parsed


@pytest.mark.parametrize("text", ["latest", "", "0", "26", "0.26.x", "0.26; rm"])
def test_text_that_is_no_version(text):
    """Anything else is refused with an example and the field."""
    with pytest.raises(DeploymentError) as caught:
        parse_version(text)
    assert "0.26.0" in caught.value.line()
    assert caught.value.field == "deployment.engine_version"


@pytest.mark.parametrize(
    ("method", "version", "there"),
    [("draft_model", "0.9.2", True), ("draft_model", "0.10.2", False), ("draft_model", "0.14.1", False),
     ("draft_model", "0.15.0", True), ("draft_model", "0.26.0", True), ("suffix", "0.10.2", False),
     ("suffix", "0.11.1", True), ("ngram_gpu", "0.17.1", False), ("ngram_gpu", "0.18.0", True),
     ("eagle3", "0.8.5", True), ("ngram", "0.26.0", True), ("mtp", "0.26.0", True)],
)  # fmt: skip
def test_methods(method, version, there):
    """Methods are there from the version that brought them, and gone in those that dropped them."""
    assert supports(method, version) is there
    assert (method_problem(method, version) is None) is there


@pytest.mark.parametrize("version", ["0.7.3", "0.33.0", "1.0"])
def test_unknown_versions(version):
    """A version that nobody has read is neither granted nor refused anything, and that is said."""
    assert not is_known_version(version)
    assert supports("ngram", version) is None
    assert method_problem("ngram", version) is None
    assert asynchronous_scheduling("eagle3", version) is None
    assert not async_scheduling_lost("draft_model", version)
    assert "0.8 to 0.32" in version_statement(version)
    assert version_statement("0.26.0") is None


def test_what_came_later_was_not_there_before():
    """A version before the first known one lacks what that one lacked, too; of later ones nothing is said."""
    assert supports("eagle3", "0.7.3") is False
    assert "from 0.8.5 on" in method_problem("eagle3", "0.7.3")
    assert supports("eagle3", "0.33.0") is None


def test_mtp_has_the_name_that_the_version_takes():
    """Before 0.11.1 each family's MTP had a name of its own; no other method ever had another name."""
    target = find_model("deepseek-ai/DeepSeek-V3")
    assert method_name("mtp", target, "0.9.2") == "deepseek_mtp"
    assert method_name("mtp", target, "0.26.0") == "mtp"
    assert method_name("ngram", target, "0.9.2") == "ngram"


def test_unknown_method():
    """An unknown method is refused with its neighbours."""
    with pytest.raises(UnknownNameError) as caught:
        supports("eagle-3", "0.26.0")
    assert "eagle3" in caught.value.line()
    assert caught.value.field == "deployment.speculation.method"


def test_every_method_of_ours_is_known():
    """Every method that predictions are made for is in the table, and the default version has it."""
    for method in METHODS:
        assert supports(method, "0.26.0") is True


@pytest.mark.parametrize(
    ("option", "first"),
    [("num_speculative_tokens_per_batch_size", "0.24"), ("use_heterogeneous_vocab", "0.25"),
     ("draft_sample_method", "0.21")],
)  # fmt: skip
def test_options(option, first):
    """Options are refused before the version that brought them, with the version in the sentence."""
    assert supports_option(option, first) is True
    assert supports_option(option, "0.20.0") is False
    assert first in option_problem(option, "0.20.0")
    assert option_problem(option, first) is None


def test_dropped_option():
    """disable_by_batch_size is gone."""
    assert "before 0.17" in option_problem("disable_by_batch_size", "0.26.0")


@pytest.mark.parametrize(
    ("method", "version", "lost"),
    [("draft_model", "0.26.0", True), ("ngram", "0.26.0", True), ("suffix", "0.26.0", True),
     ("eagle3", "0.26.0", False), ("mtp", "0.26.0", False), ("draft_model", "0.28.0", False), ("ngram", "0.32.0", True),
     ("draft_model", "0.12.0", False)],  # nothing runs asynchronously by default there
)  # fmt: skip
def test_asynchronous_scheduling(method, version, lost):
    """Which methods make the engine wait for the host."""
    assert async_scheduling_lost(method, version) is lost


def test_batch_defaults():
    """An H200 gets 1,024 sequences and 8,192 tokens, small cards and A100s less, the largest more from 0.28 on."""
    assert batch_defaults(find_gpu("H200"), "0.26.0").max_num_seqs == 1024
    assert batch_defaults(find_gpu("H200"), "0.26.0").max_num_batched_tokens == 8192
    assert batch_defaults(find_gpu("L40S"), "0.26.0").max_num_seqs == 256
    assert batch_defaults(find_gpu("A100 80GB"), "0.26.0").max_num_batched_tokens == 2048
    assert batch_defaults(find_gpu("B200"), "0.26.0").max_num_batched_tokens == 8192
    assert batch_defaults(find_gpu("B200"), "0.28.0").max_num_batched_tokens == 16384
    assert default_gpu_memory_utilization("0.19.1") == 0.9
    assert default_gpu_memory_utilization("0.26.0") == 0.92


def test_model_runner():
    """0.26 serves dense targets with runner 2, but for methods that it lacks and for mixtures of experts with 1."""
    dense, experts = find_model("Llama-3.1-8B"), find_model("Qwen3-30B-A3B")
    assert model_runner(dense, None, "0.26.0") == 2
    assert model_runner(dense, "eagle3", "0.26.0") == 2
    assert model_runner(dense, "draft_model", "0.26.0") == 1
    assert model_runner(experts, None, "0.26.0") == 1
    assert model_runner(experts, None, "0.29.0") == 2
    assert model_runner(dense, None, "0.20.0") == 1
    assert model_runner(dense, None, "0.23.0") == 1
    assert model_runner(find_model("Qwen3-8B"), None, "0.23.0") == 2
    assert model_runner(replace(find_model("Qwen3-8B"), quantization="fp8"), None, "0.23.0") == 1
    assert model_runner(dense, "draft_model", "0.32.0") == 2


def test_draft_tensor_parallelism():
    """A draft model runs at its target's tensor parallelism only."""
    assert draft_tensor_parallel_sizes("draft_model", 4) == (4,)
    assert draft_tensor_parallel_sizes("eagle3", 4) == (1, 4)
