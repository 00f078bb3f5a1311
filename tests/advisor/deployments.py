"""Requests that several tests ask: Llama-3.1-8B on an H200, with configs given so that no catalog decides."""

from __future__ import annotations

from typing import Any

from advisor.advise import advise
from advisor.recommendation import Recommendation
from advisor.request import RecommendationRequest

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
}
LLAMA_1B = LLAMA_8B | {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
EAGLE3 = LLAMA_8B | {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": 32000,
}
EAGLE3_K3 = {"method": "eagle3", "draft": {"name": "head", "config": EAGLE3}, "num_speculative_tokens": 3}
DRAFT_K3 = {"method": "draft_model", "draft": {"name": "llama-1b", "config": LLAMA_1B}, "num_speculative_tokens": 3}
NGRAM_K4 = {"method": "ngram", "num_speculative_tokens": 4}
PROMPTS = ["Write a Python function that merges overlapping intervals.", "Return the invoice as JSON."]


def counts(acceptance_length: float, *, k: int = 3, drafts: int = 1000, steps: int = 1000, temperature: float = 0.0):
    """Evidence of that acceptance length, `drafts` drafts in `steps` decode steps."""
    accepted = round(drafts * (acceptance_length - 1))
    return {
        "drafts": drafts,
        "drafted_tokens": drafts * k,
        "accepted_tokens": accepted,
        "decode_tokens": steps + accepted,
        "temperature": temperature,
    }


def body(
    *,
    speculation: dict[str, Any] | None = None,
    evidence: dict[str, Any] | None = None,
    prompts: list[Any] | None = None,
    traffic: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    **deployment: Any,
) -> dict[str, Any]:
    """A request as JSON would carry it; 128 tokens in and out at temperature 0 and concurrency 16 where not said."""
    served = {"target": {"name": "llama-8b", "config": LLAMA_8B}, "gpu": "H200", "max_model_len": 16384}
    served |= {"engine_version": "0.26.0"} | deployment
    if speculation is not None:
        served["speculation"] = speculation
    load = {"concurrency": 16, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128} | (traffic or {})
    whole: dict[str, Any] = {
        "prompts": PROMPTS if prompts is None else prompts,
        "deployment": served,
        "traffic": {name: value for name, value in load.items() if value is not None},
    }
    if evidence is not None:
        whole["evidence"] = evidence
    if policy is not None:
        whole["policy"] = policy
    return whole


def ask(**parts: Any) -> Recommendation:
    """The answer to `body(**parts)`."""
    return advise(RecommendationRequest.model_validate(body(**parts)))


def codes(answer: Recommendation) -> set[str]:
    """Codes of the answer's warnings."""
    return {warning.code for warning in answer.warnings}
