"""Step cost: agrees with the measured table, keeps to physics where nothing was measured, and admits what is not."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from models.step_cost import BASELINE, StepCostInputs, StepCostModel, gap_names, step_cost_inputs
from models.step_cost.model import pass_ms
from profiler.architecture import read_architecture
from profiler.catalog import find_gpu
from profiler.deployment import METHODS, Deployment, Gpu, Speculation
from profiler.errors import DeploymentError

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 128256, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 131072,
}  # fmt: skip
LLAMA_1B = LLAMA_8B | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
                       "tie_word_embeddings": True}  # fmt: skip
HEAD = LLAMA_8B | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 32000}
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "max_position_embeddings": 32768,
}  # fmt: skip

MODEL = StepCostModel.from_priors()
TARGET = read_architecture(LLAMA_8B, name="Llama-3.1-8B")
H200 = find_gpu("H200")
DEPLOYMENT = Deployment(TARGET, H200)
EAGLE3 = Speculation("eagle3", 3, read_architecture(HEAD, name="head"))
DRAFT = Speculation("draft_model", 3, read_architecture(LLAMA_1B, name="Llama-3.2-1B"))
NGRAM = Speculation("ngram", 4)


def rows(speculation, concurrency, prompt=128, deployment=DEPLOYMENT, **others):
    return step_cost_inputs(
        deployment, speculation, concurrency=concurrency, context_tokens=np.asarray(prompt) + 64,
        prefill_tokens=prompt, **others,
    )  # fmt: skip


def speedup(speculation, length, concurrency, prompt=128, **others):
    """End to end, one burst of 128 output tokens, as the table was measured."""
    inputs = rows(speculation, concurrency, prompt, **others)
    cost = MODEL.predict(inputs)
    without = inputs.concurrency * cost.prefill_ms + 127 * cost.base_step_ms
    return without / (inputs.concurrency * cost.speculative_prefill_ms + 127 * cost.step_ms / length)


def test_eagle3_pays_alone_and_not_at_128():
    """AL 2.5, k = 3, 128 tokens in and out on an H200: measured 1.82 at concurrency 1 and 0.97 at 128."""
    alone, crowd = speedup(EAGLE3, 2.5, [1, 128])
    assert alone == pytest.approx(1.82, rel=0.05)
    assert crowd == pytest.approx(0.97, rel=0.1)
    assert crowd < 1.05 < alone


def test_a_1b_draft_model_never_pays_on_vllm_0_26():
    """AL 2.4, k = 3: measured 0.66 at concurrency 1 and 0.52 at 128."""
    assert (speedup(DRAFT, 2.4, [1, 128]) < [0.75, 0.6]).all()


def test_lookup_that_never_drafts_is_not_free():
    """n-gram without any match at 16 x 1,000: measured 0.78."""
    assert speedup(NGRAM, 1.0, 16, 1000, draft_share=0.0) == pytest.approx(0.78, rel=0.05)


@pytest.mark.parametrize(
    ("speculation", "length", "measured", "mean_error"),
    [
        (EAGLE3, 2.5, [1.82, 1.84, 1.64, 1.65, 1.66, 1.37, 1.12, 1.05, 1.36, 1.21, 1.08, 0.97, 1.01], 0.03),
        (DRAFT, 2.4, [0.66, 0.51, 0.57, 0.51, 0.48, 0.65, 0.77, 0.86, 0.58, 0.59, 0.76, 0.52, 0.81], 0.065),
        (NGRAM, 2.0, [1.42, 1.26, 1.29, 1.31, 1.26, 1.19, 1.07, 1.04, 1.08, 0.83, 0.86, 0.63, 0.92], 0.04),
    ],
)
def test_the_measured_table_is_met_on_average(speculation, length, measured, mean_error):
    """Over the 13 cells of the table of speeds the mean error stays within what the fit reported."""
    concurrency = [1, 2, 4, 8, 16, 16, 16, 16, 32, 64, 64, 128, 128]
    prompt = [128, 500, 1000, 500, 128, 1000, 4000, 12000, 500, 128, 1000, 128, 1000]
    errors = np.log(speedup(speculation, length, concurrency, prompt) / np.array(measured))
    assert np.abs(errors).mean() < mean_error


def test_the_baseline_s_step_is_the_measured_one():
    """4.9 ms for the 8B on one H200; without speculation the two arms are one and their ratio is certain."""
    cost = MODEL.predict(rows(None, 1))
    assert cost.base_step_ms == pytest.approx(4.9, rel=0.02)
    assert cost.step_ms == cost.base_step_ms
    assert cost.log_sd_ratio == 0.0
    assert cost.prefill_ms == cost.speculative_prefill_ms


def test_a_step_grows_with_everything_that_it_does():
    """More sequences, longer contexts and more draft tokens never make a step cheaper."""
    for speculation in (EAGLE3, DRAFT, NGRAM):
        for inputs in (
            rows(speculation, [1, 4, 16, 64, 256]),
            rows(speculation, 16, [100, 1000, 10000]),
            rows(speculation, 16, num_speculative_tokens=np.arange(1, 9)),
            rows(speculation, 16, draft_share=[0.0, 0.3, 0.7, 1.0]),
        ):
            assert (np.diff(MODEL.predict(inputs).step_ms) > 0).all()


def test_a_draft_model_s_pass_costs_what_the_host_needs():
    """However small the drafter, each pass costs 3 to 7 ms (vLLM 0.26), so k passes cost k times that."""
    steps = MODEL.predict(rows(DRAFT, 1, num_speculative_tokens=[1, 2, 3])).step_ms
    assert ((np.diff(steps) > 3.0) & (np.diff(steps) < 7.0)).all()


def test_medusa_drafts_in_one_pass_whatever_k():
    """Its heads all run on one hidden state: k changes the verification alone."""
    medusa = Speculation("medusa", 4, EAGLE3.draft)
    inputs = rows(medusa, 1, num_speculative_tokens=[0, 1, 2, 4, 8])
    assert inputs.draft_passes.tolist() == [0, 1, 1, 1, 1]


def test_the_roofline_has_two_sides():
    """Far from its corner a pass is bytes over bandwidth, or FLOPs over peak, plus the layers' overhead."""
    common = {
        "layers": 10.0, "bandwidth": 1e12, "peak": 1e15, "o_layer_ms": 0.01, "e_bw": 0.8, "e_kv": 0.5, "e_f": 0.4,
    }  # fmt: skip
    memory = pass_ms(weight_bytes=8e9, kv_bytes=5e9, flops=1e6, **common)
    compute = pass_ms(weight_bytes=1.0, kv_bytes=0.0, flops=4e13, **common)
    assert memory == pytest.approx(0.1 + 10.0 + 10.0)
    assert compute == pytest.approx(0.1 + 100.0)


def test_experts_make_verification_read_more_weights():
    """A mixture of experts touches more experts with more tokens; a dense model reads the same."""
    mixture = Deployment(read_architecture(MIXTRAL, name="Mixtral-8x7B"), H200)
    inputs = rows(NGRAM, 1, deployment=mixture)
    assert inputs.step_weight_bytes > 1.5 * inputs.base_weight_bytes
    dense = rows(NGRAM, 1)
    assert dense.step_weight_bytes == dense.base_weight_bytes
    assert "experts" in gap_names(int(inputs.gaps[0]))


def test_tensor_parallelism_splits_work_and_adds_all_reduces():
    """Two GPUs halve bytes and FLOPs, reduce twice a layer, and take more than half of one GPU's time."""
    two = replace(DEPLOYMENT, tensor_parallel_size=2)
    one_gpu, two_gpus = rows(EAGLE3, 16), rows(EAGLE3, 16, deployment=two)
    np.testing.assert_allclose(two_gpus.base_weight_bytes * 2, one_gpu.base_weight_bytes)
    np.testing.assert_allclose(two_gpus.kv_bytes * 2, one_gpu.kv_bytes)
    np.testing.assert_allclose(two_gpus.prefill_flops * 2, one_gpu.prefill_flops)
    assert two_gpus.reduces.tolist() == [64.0]
    whole, split = MODEL.predict(one_gpu), MODEL.predict(two_gpus)
    assert whole.base_step_ms / 2 < split.base_step_ms < whole.base_step_ms
    assert not split.covered[0]


def test_kv_heads_are_replicated_beyond_their_number():
    """16 ranks share 8 KV heads: each reads an eighth of the cache, not a sixteenth."""
    eight, sixteen = (rows(None, 1, deployment=replace(DEPLOYMENT, tensor_parallel_size=n)) for n in (8, 16))
    np.testing.assert_allclose(eight.kv_bytes, sixteen.kv_bytes)


def test_an_unknown_interconnect_is_not_guessed_but_doubted():
    """Without its rate the traffic costs nothing in the value, and the spread grows."""
    two = replace(DEPLOYMENT, tensor_parallel_size=2)
    blind = replace(two, gpu=replace(H200, interconnect_bytes_per_s=None))
    known = MODEL.predict(rows(EAGLE3, 16, deployment=two))
    unknown = MODEL.predict(rows(EAGLE3, 16, deployment=blind))
    assert unknown.base_step_ms < known.base_step_ms
    assert unknown.log_sd_ratio > known.log_sd_ratio
    assert "interconnect" in gap_names(int(unknown.gaps[0]))


@pytest.mark.parametrize(
    ("change", "gap"),
    [
        ({"gpu": Gpu("L40S", 48 * 2**30, 864e9, 362e12, 733e12)}, "gpu"),
        ({"gpu": Gpu("GB200", 186 * 2**30, 8e12, 2.5e15, 5e15)}, "gpu"),
        ({"engine_version": "0.11.0"}, "engine"),
        ({"engine_version": "0.32.1"}, "engine"),
        ({"enforce_eager": True}, "eager"),
        ({"kv_cache_dtype": "fp8"}, "quantization"),
    ],
)
def test_what_was_not_measured_is_not_covered_and_wider(change, gap):
    """Another GPU, engine, mode or cache type is named, not covered, and never surer than what was measured."""
    known, other = (
        MODEL.predict(rows(EAGLE3, 32)),
        MODEL.predict(rows(EAGLE3, 32, deployment=replace(DEPLOYMENT, **change))),
    )
    assert known.covered[0]
    assert known.gaps[0] == 0
    assert not other.covered[0]
    assert gap_names(int(other.gaps[0])) == (gap,)
    assert other.log_sd_step[0] > known.log_sd_step[0]


@pytest.mark.parametrize("method", METHODS)
def test_methods_without_a_measurement_say_so(method):
    """EAGLE-3, draft models and n-gram are measured; the rest is priced by physics, not covered and wider."""
    draft = None if method in ("ngram", "suffix") else EAGLE3.draft
    cost = MODEL.predict(rows(Speculation(method, 3, draft), 16))
    assert cost.covered[0] == (method in ("eagle3", "draft_model", "ngram"))
    assert cost.step_ms > cost.base_step_ms
    assert cost.log_sd_ratio > 0.03


def test_eager_mode_is_bound_by_the_host():
    """Without CUDA graphs an 8B step takes tens of milliseconds instead of five."""
    cost = MODEL.predict(rows(None, 1, deployment=replace(DEPLOYMENT, enforce_eager=True)))
    assert 10 < cost.base_step_ms < 60


def test_cached_tokens_cost_their_attention_alone():
    """Prefill prices what is computed: a cached prefix is attended to, not recomputed."""
    whole, half, none = (
        MODEL.predict(rows(None, 1, prompt, cached_tokens=cached)).prefill_ms[0]
        for prompt, cached in ((4000, 0), (2000, 2000), (0, 4000))
    )
    assert none == 0.0
    assert 0.5 * whole < half < 0.6 * whole


def test_a_tier_without_drafts_still_costs():
    """A schedule's k = 0 tier with a loaded head costs 7 to 22 % (vLLM issue 49986)."""
    cost = MODEL.predict(rows(EAGLE3, 64, num_speculative_tokens=0, draft_share=1.0))
    assert 1.07 < cost.step_ms / cost.base_step_ms < 1.22


def test_tables_concatenate_row_by_row():
    """Pricing many candidates in one table gives what each alone gives."""
    tables = [rows(None, [1, 8]), rows(EAGLE3, [1, 64]), rows(DRAFT, 4), rows(NGRAM, [2, 128], draft_share=0.3)]
    together = MODEL.predict(StepCostInputs.concatenate(tables))
    for name in (field.name for field in fields(together)):
        apart = np.concatenate([np.atleast_1d(getattr(MODEL.predict(table), name)) for table in tables])
        np.testing.assert_allclose(getattr(together, name), apart, rtol=1e-6, atol=1e-6)
    assert together.covered.all()
    assert StepCostInputs.concatenate(tables).method[0] == BASELINE


def test_mtp_drafts_with_the_target_s_own_module():
    """Without a drafter of its own mtp prices one layer and the output head of the target, k times."""
    mimo = LLAMA_8B | {"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "num_nextn_predict_layers": 1}
    deployment = Deployment(read_architecture(mimo, name="with MTP"), H200)
    inputs = rows(Speculation("mtp", 2), 1, deployment=deployment)
    assert inputs.draft_passes.tolist() == [2.0]
    assert 0.05 < inputs.draft_weight_bytes / inputs.base_weight_bytes < 0.15
    with pytest.raises(DeploymentError, match="needs a drafter"):
        rows(Speculation("mtp", 2), 1)


def test_a_method_that_needs_a_drafter_is_refused_without_one():
    """No drafter, no price."""
    with pytest.raises(DeploymentError, match="needs a drafter"):
        rows(Speculation("eagle3", 3), 1)
