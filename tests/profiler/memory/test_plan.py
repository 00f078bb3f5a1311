"""The memory plan against logged cases, and its refusals."""

from dataclasses import replace

import pytest

from profiler.catalog import find_gpu, find_model
from profiler.deployment import Deployment, Gpu, Speculation
from profiler.errors import DeploymentError
from profiler.memory import plan_memory

GIB = 2**30

H200_CASE = Deployment(
    target=find_model("Qwen3-4B"), gpu=find_gpu("H200"), max_model_len=4096, max_num_batched_tokens=8192
)
DRAFT = Speculation("draft_model", 4, find_model("Qwen3-0.6B"))


def card(memory_gib: float, name: str = "card") -> Gpu:
    """A GPU that shows that much memory; its rates do not matter here."""
    return Gpu(name, round(memory_gib * GIB), 2e12, 3e14, None)


def test_logged_case():
    """An H200's start-up with a draft model (vLLM 0.26, logged once) is derived term by term, the cache within 2 %."""
    plan = plan_memory(H200_CASE, DRAFT, request_tokens=1000)
    assert plan.requested_bytes / GIB == pytest.approx(128.62, abs=0.01)
    assert (plan.weight_bytes + plan.drafter_weight_bytes) / GIB == pytest.approx(8.67, rel=0.01)
    assert plan.activation_bytes / GIB == pytest.approx(4.50, rel=0.01)
    assert plan.non_torch_bytes / GIB == pytest.approx(0.24, abs=0.005)
    assert 0.10 <= plan.graph_bytes / GIB <= 0.12
    assert plan.kv_bytes / GIB == pytest.approx(115.08, rel=0.002)
    assert plan.kv_tokens == pytest.approx(471_360, rel=0.002)
    assert plan.kv_bytes_per_token == 262_144


def logged(name, total_gib, *, version="0.8.0", max_model_len=8192, **settings):
    """A deployment as a public start-up log states it."""
    return Deployment(
        find_model(name), card(total_gib), max_model_len=max_model_len, engine_version=version, **settings
    )


# Public start-up logs: total memory, utilization and settings as logged, else the defaults of that version; the cache
# as logged and how far off the derived one may be. Until 0.16 the sampler sorted, whose buffers are known less well.
PUBLIC_LOGS = [
    pytest.param(logged("Llama-3.1-8B", 79.25, version="0.31.0", max_model_len=131072, max_num_batched_tokens=16384),
                 56.21, 0.002, id="Llama-3.1-8B on one 80 GB card, runner 2"),
    pytest.param(logged("Meta-Llama-3-8B", 79.14, gpu_memory_utilization=0.9, max_num_seqs=256,
                        max_num_batched_tokens=8192), 54.93, 0.01, id="Llama-3-8B on one 80 GB card"),
    pytest.param(logged("Qwen2.5-1.5B", 14.56, gpu_memory_utilization=0.5, max_num_seqs=256, max_model_len=32768,
                        max_num_batched_tokens=32768), 2.36, 0.03, id="Qwen2.5-1.5B on a T4"),
    pytest.param(logged("Qwen3-8B", 21.48, tensor_parallel_size=4, gpu_memory_utilization=0.93, max_num_seqs=256,
                        max_model_len=65536, max_num_batched_tokens=8192, enforce_eager=True), 14.49, 0.03,
                 id="Qwen3-8B's shape on four 22 GB cards"),
    pytest.param(logged("Qwen2.5-32B", 44.42, tensor_parallel_size=2, gpu_memory_utilization=0.9, max_num_seqs=256,
                        max_model_len=10000, max_num_batched_tokens=10000), 7.71, 0.04, id="Qwen2.5-32B on two L40S"),
]  # fmt: skip


@pytest.mark.parametrize(("deployment", "kv_gib", "within"), PUBLIC_LOGS)
def test_public_logs(deployment, kv_gib, within):
    """Start-up logs that others published are derived, too."""
    plan = plan_memory(deployment, None, request_tokens=1000)
    assert plan.kv_bytes / GIB == pytest.approx(kv_gib, rel=within)


def test_tokens_of_a_public_log():
    """The token count that vLLM printed beside 56.21 GiB follows from them."""
    plan = plan_memory(PUBLIC_LOGS[0].values[0], None, request_tokens=1000)
    assert plan.kv_tokens == pytest.approx(460_496, rel=0.002)


@pytest.mark.parametrize("speculation", [None, DRAFT, Speculation("ngram", 4)])
def test_terms_add_up(speculation):
    """The cache is what is requested less every other term, and whole blocks of 16 tokens."""
    plan = plan_memory(H200_CASE, speculation, request_tokens=1000)
    others = (plan.weight_bytes + plan.drafter_weight_bytes + plan.activation_bytes + plan.non_torch_bytes
              + plan.graph_bytes)  # fmt: skip
    assert plan.kv_bytes == plan.requested_bytes - others
    assert plan.kv_tokens % 16 == 0
    assert plan.kv_tokens * plan.kv_bytes_per_token <= plan.kv_bytes
    assert plan.concurrency * plan.sequence_bytes <= plan.kv_bytes < (plan.concurrency + 1) * plan.sequence_bytes


def test_what_each_method_takes():
    """n-gram takes no weights and no cache, a draft model both, a head its one layer."""
    target = find_model("Llama-3.1-8B")
    case = replace(H200_CASE, target=target)
    alone = plan_memory(case, None, request_tokens=1000)
    ngram = plan_memory(case, Speculation("ngram", 4), request_tokens=1000)
    head = find_model("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B")
    eagle = plan_memory(case, Speculation("eagle3", 3, head), request_tokens=1000)
    draft = plan_memory(case, Speculation("draft_model", 4, find_model("Llama-3.2-1B")), request_tokens=1000)
    assert ngram.drafter_weight_bytes == 0
    assert ngram.kv_bytes_per_token == alone.kv_bytes_per_token == 131_072
    assert eagle.drafter_weight_bytes == pytest.approx(head.weight_bytes, rel=0.01)
    assert eagle.kv_bytes_per_token == 131_072 + 2 * 8 * 128 * 2
    assert draft.kv_bytes_per_token == 131_072 + 32_768
    assert draft.kv_tokens < eagle.kv_tokens < alone.kv_tokens


def test_multi_token_prediction():
    """A target's own module takes its weights and a layer of cache."""
    case = replace(H200_CASE, target=find_model("MiMo-7B-RL"))
    alone = plan_memory(case, None, request_tokens=1000)
    mtp = plan_memory(case, Speculation("mtp", 1), request_tokens=1000)
    assert mtp.drafter_weight_bytes > 0.3e9
    assert mtp.kv_bytes_per_token == alone.kv_bytes_per_token * 37 // 36


def test_probabilistic_drafts_keep_their_probabilities():
    """Probabilistic drafts cost one more buffer of rows x vocabulary."""
    greedy = plan_memory(H200_CASE, DRAFT, request_tokens=1000)
    sampled = plan_memory(H200_CASE, replace(DRAFT, draft_sample_method="probabilistic"), request_tokens=1000)
    assert sampled.activation_bytes - greedy.activation_bytes == pytest.approx(1024 * 151_936 * 4, rel=0.001)


def test_tensor_parallelism_splits_heads_until_one_is_left():
    """Four ranks hold a quarter of the cache's bytes each, sixteen of an 8-head target an eighth; MLA is not split."""
    llama = replace(H200_CASE, target=find_model("Llama-3.1-70B"), tensor_parallel_size=4)
    assert plan_memory(llama, None, request_tokens=1000).kv_bytes_per_token == 327_680 // 4
    wide = replace(llama, tensor_parallel_size=16)
    assert plan_memory(wide, None, request_tokens=1000).kv_bytes_per_token == 327_680 // 8
    mla = replace(H200_CASE, target=find_model("DeepSeek-V2-Lite"), tensor_parallel_size=4)
    assert (
        plan_memory(mla, None, request_tokens=1000).kv_bytes_per_token
        == find_model("DeepSeek-V2-Lite").kv_bytes_per_token()
    )


def test_weights_are_split():
    """Two ranks hold about half of the weights each."""
    one = plan_memory(H200_CASE, None, request_tokens=1000)
    two = plan_memory(replace(H200_CASE, tensor_parallel_size=2), None, request_tokens=1000)
    assert two.weight_bytes == pytest.approx(one.weight_bytes / 2, rel=0.01)


def test_sliding_windows_cap_a_sequence():
    """Of a long sequence, sliding layers keep only their window."""
    target = find_model("gpt-oss-20b")
    case = replace(H200_CASE, target=target, max_model_len=131072)
    plan = plan_memory(case, None, request_tokens=65_536)
    everything = target.kv_bytes_per_token() * 65_536 * 2  # as if all 24 layers kept every token
    assert plan.sequence_bytes < 0.52 * everything


def test_eight_bit_cache_holds_twice_as_much():
    """An fp8 cache takes half the bytes for each token."""
    half = plan_memory(replace(H200_CASE, kv_cache_dtype="fp8"), None, request_tokens=1000)
    assert half.kv_bytes_per_token * 2 == plan_memory(H200_CASE, None, request_tokens=1000).kv_bytes_per_token


def test_eager_mode_takes_no_graphs():
    """Without graphs nothing is set aside for them; before 0.21 nothing ever was."""
    assert plan_memory(replace(H200_CASE, enforce_eager=True), DRAFT, request_tokens=1000).graph_bytes == 0
    assert plan_memory(replace(H200_CASE, engine_version="0.20.0"), DRAFT, request_tokens=1000).graph_bytes == 0


def test_preemption():
    """More sequences than the cache holds are preempted, as many are not, and the spare bytes say so."""
    plan = plan_memory(H200_CASE, DRAFT, request_tokens=2000)
    assert not plan.preempts(plan.concurrency)
    assert plan.preempts(plan.concurrency + 1)
    assert plan.spare_kv_bytes(plan.concurrency) >= 0 > plan.spare_kv_bytes(plan.concurrency + 1)


def test_two_servers_on_one_card():
    """Two servers at 0.45 each share an RTX PRO 6000: the 1B drafter takes a good part of the cache of one."""
    case = Deployment(find_model("Llama-3.1-8B"), find_gpu("RTX PRO 6000 Blackwell"), gpu_memory_utilization=0.45,
                      max_model_len=8192)  # fmt: skip
    alone = plan_memory(case, None, request_tokens=1000)
    drafted = plan_memory(case, Speculation("draft_model", 4, find_model("Llama-3.2-1B")), request_tokens=1000)
    assert 0.5 < drafted.kv_tokens / alone.kv_tokens < 0.75


def test_target_that_does_not_fit():
    """A 70B target on one H200 is refused with the number of GPUs that would do, and that number does."""
    case = Deployment(find_model("Llama-3.3-70B"), find_gpu("H200"), max_model_len=8192)
    with pytest.raises(DeploymentError) as caught:
        plan_memory(case, None, request_tokens=1000)
    assert "tensor_parallel_size 2 (2 of these GPUs) would do" in caught.value.line()
    assert caught.value.field == "deployment.tensor_parallel_size"
    assert plan_memory(replace(case, tensor_parallel_size=2), None, request_tokens=1000).concurrency > 100


def test_target_that_never_fits():
    """Where no number of such GPUs would do, that is said."""
    case = Deployment(find_model("DeepSeek-V3"), find_gpu("T4"), max_model_len=163_840)
    with pytest.raises(DeploymentError, match="no number of these GPUs"):
        plan_memory(case, None, request_tokens=1000)


def test_cache_without_room_for_one_sequence():
    """A cache smaller than one sequence of max_model_len is refused with the length that fits, and that length does."""
    case = Deployment(find_model("Llama-3.1-8B"), find_gpu("L4"))
    with pytest.raises(DeploymentError) as caught:
        plan_memory(case, None, request_tokens=1000)
    line = caught.value.line()
    assert "131,072" in line
    assert caught.value.field == "deployment.max_model_len"
    shorter = int(line.split("at most ")[1].split(" or ")[0].rstrip(",").replace(",", ""))
    assert plan_memory(replace(case, max_model_len=shorter), None, request_tokens=1000).concurrency >= 1
    with pytest.raises(DeploymentError):
        plan_memory(replace(case, max_model_len=shorter + 16), None, request_tokens=1000)


def test_drafter_that_does_not_fit():
    """A drafter that leaves no cache is named in the refusal."""
    case = Deployment(find_model("Llama-3.1-8B"), card(18.6), max_model_len=1024, max_num_seqs=8)
    plan_memory(case, None, request_tokens=500)
    with pytest.raises(DeploymentError, match=r"Llama-3\.2-1B"):
        plan_memory(case, Speculation("draft_model", 4, find_model("Llama-3.2-1B")), request_tokens=500)


def test_ranks_that_do_not_divide_the_heads():
    """A tensor_parallel_size that does not divide the heads is refused with those that do."""
    with pytest.raises(DeploymentError) as caught:
        plan_memory(replace(H200_CASE, tensor_parallel_size=3), None, request_tokens=1000)
    assert "1, 2, 4, 8" in caught.value.line()
    assert caught.value.field == "deployment.tensor_parallel_size"


@pytest.mark.parametrize("tokens", [0, -5, float("nan"), float("inf")])
def test_requests_without_a_length(tokens):
    """A request length that is no positive number is refused."""
    with pytest.raises(DeploymentError):
        plan_memory(H200_CASE, None, request_tokens=tokens)
