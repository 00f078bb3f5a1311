"""Small configs that the tests of this folder change; numbers are chosen so that counts can be checked by hand."""

from __future__ import annotations

from typing import Any

TINY: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

# Per layer: q and o 64 x 64 each, k and v 64 x 32 each, MLP 3 x 64 x 128.
ATTENTION = 2 * 64 * 64 + 2 * 64 * 32
MLP = 3 * 64 * 128
TABLE = 1000 * 64

EXPERTS: dict[str, Any] = TINY | {
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 32,
    "num_experts": 16,
    "num_experts_per_tok": 2,
}
