"""What is compared."""

import pytest

from advisor.candidates import find_candidates
from advisor.deployment import resolve_deployment
from advisor.request import DeploymentSpec
from profiler.errors import DeploymentError, EvidenceError
from tests.advisor.deployments import DRAFT_K3, EAGLE3_K3, LLAMA_8B, ask, counts

TARGET = "meta-llama/Llama-3.1-8B-Instruct"
MTP = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 1024,
    "intermediate_size": 4096, "moe_intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 16, "q_lora_rank": 384, "kv_lora_rank": 512, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64,
    "v_head_dim": 64, "n_routed_experts": 32, "n_shared_experts": 1, "num_experts_per_tok": 4,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 32000, "max_position_embeddings": 8192,
    "num_nextn_predict_layers": 1, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def candidates(target=TARGET, speculation=None, **deployment):
    spec = DeploymentSpec.model_validate({"target": target, "gpu": "H200", "speculation": speculation} | deployment)
    return find_candidates(resolve_deployment(spec), spec.speculation)


def test_all_that_applies_with_one_to_eight_draft_tokens():
    """Known draft models, n-gram and suffix decoding, smaller than their target, each with k from 1 to 8."""
    found = candidates()
    assert {"draft_model", "ngram", "suffix"} <= {c.method for c in found}
    assert "mtp" not in {c.method for c in found}
    assert all(c.ks == tuple(range(1, 9)) for c in found)
    target = resolve_deployment(DeploymentSpec.model_validate({"target": TARGET, "gpu": "H200"})).target
    assert all(c.draft.parameters < target.parameters for c in found if c.draft is not None)


def test_a_target_with_its_own_prediction_layers():
    """Multi-token prediction applies where the config declares such layers, and needs no draft."""
    found = candidates({"name": "small-deepseek", "config": MTP})
    assert {"mtp", "ngram", "suffix"} == {c.method for c in found}
    assert candidates({"name": "small-deepseek", "config": MTP}, {"method": "mtp"})[0].draft is None


def test_a_named_k_is_the_only_one():
    """What is named is decided on."""
    assert candidates(speculation={"method": "ngram", "num_speculative_tokens": 5})[0].ks == (5,)


def test_the_draft_tells_its_method():
    """An EAGLE-3 head drafts for eagle3, a model is a draft model."""
    assert candidates(speculation={"draft": EAGLE3_K3["draft"]})[0].method == "eagle3"
    assert candidates(speculation={"draft": DRAFT_K3["draft"]})[0].method == "draft_model"


def test_a_draft_as_large_as_its_target_is_refused():
    """A model does not draft for itself."""
    with pytest.raises(DeploymentError, match="not smaller than its target"):
        candidates(speculation={"draft": {"name": "same", "config": LLAMA_8B}})


def test_evidence_must_be_of_one_drafter():
    """Where several draft models are known, counts must say of which they are."""
    with pytest.raises(EvidenceError, match="several are known") as refused:
        ask(
            target=TARGET,
            speculation={"method": "draft_model", "num_speculative_tokens": 3},
            evidence=counts(2.4),
        )
    assert refused.value.field == "deployment.speculation.draft"


def test_figures_of_a_gpu_override_the_catalog():
    """A GPU by name with one figure of the user's own keeps the others."""
    spec = DeploymentSpec.model_validate({"target": TARGET, "gpu": {"name": "H200", "memory_gib": 100}})
    own, known = resolve_deployment(spec).gpu, resolve_deployment(spec.model_copy(update={"gpu": _h200()})).gpu
    assert own.memory_bytes == 100 * 2**30
    assert own.bandwidth_bytes_per_s == known.bandwidth_bytes_per_s


def _h200():
    return DeploymentSpec.model_validate({"target": TARGET, "gpu": "H200"}).gpu
