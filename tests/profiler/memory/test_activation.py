"""Peak activation and graph memory, term by term."""

import pytest

from profiler.catalog import find_model
from profiler.memory.activation import layer_width, sampler_bytes
from profiler.memory.graphs import capture_sizes, graph_bytes

ROWS = {"rows": 1024, "vocab_size": 151_936, "probabilistic_drafts": False}
FP32 = 1024 * 151_936 * 4


def test_widest_moment_of_a_dense_layer():
    """Llama-3.1-8B is widest in its MLP: the residual and three times its inner width."""
    assert layer_width(find_model("Llama-3.1-8B"), tensor_parallel_size=1) == 4096 + 3 * 14336
    assert layer_width(find_model("Llama-3.1-8B"), tensor_parallel_size=2) == 4096 + 3 * 14336 / 2


def test_widest_moment_of_experts():
    """Qwen3-30B-A3B is widest in its experts' cache: 8 chosen, each max(2 x 768, 2048) and 768 wide."""
    assert layer_width(find_model("Qwen3-30B-A3B"), tensor_parallel_size=1) == pytest.approx(2048 + 8 * (2048 + 768))


@pytest.mark.parametrize(
    ("speculative", "runner", "version", "buffers"),
    [(False, 1, (0, 26, 0), 3.5), (True, 1, (0, 26, 0), 7.5), (True, 1, (0, 17, 0), 6.5), (True, 2, (0, 26, 0), 0.5),
     (False, 1, (0, 10, 2), 10.0)],
)  # fmt: skip
def test_sampling_buffers(speculative, runner, version, buffers):
    """How many fp32 rows x vocabulary live at once, by runner and version."""
    assert sampler_bytes(speculative=speculative, runner=runner, version=version, **ROWS) == pytest.approx(
        buffers * FP32
    )


def test_capture_sizes():
    """vLLM's default list: 51 sizes up to 512; few for few sequences; more where drafts widen a step."""
    sizes = capture_sizes(max_num_seqs=1024, num_speculative_tokens=0, max_num_batched_tokens=8192)
    assert len(sizes) == 51
    assert sizes[:5] == (1, 2, 4, 8, 16)
    assert sizes[-1] == 512
    assert capture_sizes(max_num_seqs=8, num_speculative_tokens=0, max_num_batched_tokens=8192) == (1, 2, 4, 8, 16)
    assert max(capture_sizes(max_num_seqs=8, num_speculative_tokens=3, max_num_batched_tokens=8192)) == 64


def test_graphs_of_nothing():
    """No sizes, no memory."""
    assert graph_bytes((), hidden_size=4096) == 0
