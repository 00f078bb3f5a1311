"""What does a model family do that its configs leave unsaid? One row per family, from its published modelling code.

A config never says whether its MLP is gated or its queries are normalised: the class does. Each row states what the
family's class in transformers (models/<model_type>/modeling_*.py and configuration_*.py, release 5) or, where that is
not there, the repository's own modelling code builds. A model_type without a row is refused, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Family:
    """Traits that hold unless the config says otherwise.

    tied: default of tie_word_embeddings.
    norm: "rms" (a weight), "layer" (weight and bias), "none" (no parameters).
    layer_norms: norms of the hidden size in each layer.
    qk_norm: over each head ("head"), over all heads together ("full"), or absent; `qk_norm_key` switches it.
    qkv_bias, out_bias, mlp_bias: defaults; `bias_keys` are config keys that set qkv (and, unless `bias_qkv_only`, out).
    gated: MLP of three matrices, else two.
    expert_width_is_intermediate: experts are `intermediate_size` wide.
    window: what a bare `sliding_window` means: every layer, every layer but each n-th (a number), or nothing unless
        `use_sliding_window`.
    """

    tied: bool = False
    norm: Literal["rms", "layer", "none"] = "rms"
    layer_norms: int = 2
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["head", "full"] | None = None
    qk_norm_key: str | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    bias_keys: tuple[str, ...] = ("attention_bias",)
    bias_qkv_only: bool = False
    inverted_bias: bool = False
    gated: bool = True
    mlp_bias: bool = False
    mlp_bias_keys: tuple[str, ...] = ("mlp_bias",)
    head_bias: bool = False
    positions: int | None = None  # learned positions; the number is the offset of OPT's table
    ffn_factor: int | None = None  # width of the MLP over hidden size where the config gives none
    window: Literal["all", "flag", "none"] | int = "all"
    attention_gate: bool = False  # the query projection carries an output gate of the same size
    sinks: bool = False
    shared_gate: bool = False  # a one-column gate on the shared expert
    expert_width_is_intermediate: bool = False
    mla: bool = False
    special: str | None = None  # layers that need code of their own: see layers.py


def _like(base: Family, **changes: object) -> Family:
    from dataclasses import replace

    return replace(base, **changes)  # type: ignore[arg-type]


_LLAMA: Final = Family()
_QWEN2: Final = Family(qkv_bias=True, bias_keys=(), window="flag")
_QWEN3: Final = Family(qk_norm="head", window="flag")
_GATED_DELTA: Final = Family(qk_norm="head", attention_gate=True, shared_gate=True, window="flag")
_GPT2: Final = Family(
    tied=True, norm="layer", gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, bias_keys=(), mlp_bias_keys=(),
    positions=0, ffn_factor=4, window="none",
)  # fmt: skip
_DEEPSEEK: Final = Family(mla=True)
_GLM: Final = Family(qkv_bias=True, bias_qkv_only=True)
_GLM_MOE: Final = Family(bias_qkv_only=True, qk_norm="head", qk_norm_key="use_qk_norm")
_OLMO2: Final = Family(qk_norm="full")
_GEMMA4: Final = Family(tied=True, layer_norms=4, qk_norm="head", special="gemma4", window=6)
_MAMBA: Final = Family(tied=True, layer_norms=1, special="mamba")
_HUNYUAN: Final = Family(qk_norm="head", qk_norm_key="use_qk_norm")

FAMILIES: Final[dict[str, Family]] = {
    "llama": _LLAMA,
    "llama4_text": Family(special="llama4", expert_width_is_intermediate=True),
    "mllama_text_model": Family(special="mllama"),
    "mistral": _LLAMA,
    "ministral": _LLAMA,
    "ministral3": _LLAMA,
    "mixtral": Family(expert_width_is_intermediate=True),
    "pixtral": _LLAMA,
    "qwen": Family(qkv_bias=True, bias_keys=(), special="qwen", window="none"),
    "qwen2": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": Family(qkv_bias=True, bias_keys=("qkv_bias",), bias_qkv_only=True, shared_gate=True, window="flag"),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_next": _GATED_DELTA,
    "qwen3_5_text": _GATED_DELTA,
    "qwen3_5_moe_text": _GATED_DELTA,
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, layer_norms=4, window=2),
    "gemma3_text": Family(tied=True, layer_norms=4, qk_norm="head", window=6),
    "gemma3n_text": Family(tied=True, layer_norms=4, qk_norm="head", special="gemma3n", window=5),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "vaultgemma": Family(tied=True, window=2),
    "phi": Family(
        norm="layer", layer_norms=1, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, head_bias=True,
        bias_keys=(), mlp_bias_keys=(), window="none",
    ),
    "phi3": _LLAMA,
    "phi4mm": _LLAMA,
    "phi4_multimodal": _LLAMA,
    "phi4flash": Family(norm="layer", special="phi4flash", tied=True, qkv_bias=True, out_bias=True, bias_keys=()),
    "phimoe": Family(norm="layer", head_bias=False, expert_width_is_intermediate=True),
    "starcoder2": Family(
        tied=True, norm="layer", gated=False, qkv_bias=True, out_bias=True, bias_keys=("use_bias",), mlp_bias=True,
        mlp_bias_keys=("use_bias",),
    ),
    "granite": _LLAMA,
    "granitemoe": Family(expert_width_is_intermediate=True),
    "granitemoeshared": Family(expert_width_is_intermediate=True),
    "granitemoehybrid": Family(expert_width_is_intermediate=True),
    "olmo": Family(norm="none"),
    "olmo2": _OLMO2,
    "olmo3": Family(qk_norm="full", window=4),
    "olmo_hybrid": Family(qk_norm="full"),
    "olmoe": Family(qk_norm="full", expert_width_is_intermediate=True),
    "flex_olmo": Family(qk_norm="full", expert_width_is_intermediate=True),
    "cohere": Family(tied=True, layer_norms=1, qk_norm="full", qk_norm_key="use_qk_norm"),
    "cohere2": Family(tied=True, layer_norms=1, window=4),
    "stablelm": Family(
        norm="layer", bias_keys=("use_qkv_bias",), bias_qkv_only=True, special="stablelm", window="none",
    ),
    "internlm": Family(qkv_bias=True, out_bias=True, bias_keys=("bias",)),
    "internlm2": Family(bias_keys=("bias",)),
    "internlm3": Family(bias_keys=("qkv_bias", "bias")),
    "baichuan": _LLAMA,
    "orion": Family(norm="layer"),
    "xverse": _LLAMA,
    "minicpm": Family(tied=True),
    "minicpm3": Family(tied=True, mla=True, special="expanded_latent"),
    "chatglm": Family(bias_keys=("add_qkv_bias",), bias_qkv_only=True, mlp_bias_keys=("add_bias_linear",),
    window="none"),
    "glm": _GLM,
    "glm4": Family(qkv_bias=True, bias_qkv_only=True, layer_norms=4),
    "glm4v_text": Family(qkv_bias=True, bias_qkv_only=True, layer_norms=4),
    "glm4_moe": _GLM_MOE,
    "glm4v_moe_text": _GLM_MOE,
    "glm4_moe_lite": _DEEPSEEK,
    "glm_moe_dsa": _DEEPSEEK,
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "deepseek_v4": Family(special="deepseek_v4"),
    "kimi_k2": _DEEPSEEK,
    "kimi_linear": Family(mla=True),
    "mistral_large_3": _DEEPSEEK,
    "youtu": Family(tied=True, mla=True),
    "minimax": Family(expert_width_is_intermediate=True),
    "minimax_m2": Family(qk_norm="full", qk_norm_key="use_qk_norm", expert_width_is_intermediate=True),
    "ernie4_5": Family(tied=True, bias_keys=("use_bias",), mlp_bias_keys=("use_bias",)),
    "ernie4_5_moe": Family(tied=True, bias_keys=("use_bias",), mlp_bias_keys=("use_bias",)),
    "hunyuan_v1_dense": _HUNYUAN,
    "hunyuan_v1_moe": _HUNYUAN,
    "hunyuan": _HUNYUAN,
    "hy_v3": Family(qk_norm="head"),
    "smollm3": Family(tied=True, window="flag"),
    "lfm2": Family(tied=True, qk_norm="head", special="lfm2"),
    "lfm2_moe": Family(tied=True, qk_norm="head"),
    "falcon": Family(
        tied=True, norm="layer", gated=False, bias_keys=("bias",), mlp_bias_keys=("bias",), ffn_factor=4,
        special="falcon", window="none",
    ),
    "falcon_h1": Family(special="falcon_h1"),
    "falcon_mamba": _MAMBA,
    "mamba": _MAMBA,
    "mamba2": Family(layer_norms=1, special="mamba"),
    "bamba": _LLAMA,
    "jamba": Family(expert_width_is_intermediate=True),
    "nemotron": Family(norm="layer", gated=False),
    "nemotron_h": Family(layer_norms=1, gated=False),
    "nemotron-nas": Family(special="nas"),
    "deci": Family(special="nas"),
    "dbrx": Family(norm="rms", special="dbrx"),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gptj": Family(
        norm="layer", layer_norms=1, gated=False, mlp_bias=True, head_bias=True, bias_keys=(), mlp_bias_keys=(),
        ffn_factor=4, window="none",
    ),
    "codegen": Family(
        norm="layer", layer_norms=1, gated=False, mlp_bias=True, head_bias=True, bias_keys=(), mlp_bias_keys=(),
        ffn_factor=4, window="none",
    ),
    "gpt_neox": Family(
        norm="layer", gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, mlp_bias_keys=(), ffn_factor=4,
        window="none",
    ),
    "bloom": Family(
        tied=True, norm="layer", gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, bias_keys=(),
        mlp_bias_keys=(), embedding_norm=True, ffn_factor=4, window="none",
    ),
    "opt": Family(
        tied=True, norm="layer", gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, bias_keys=("enable_bias",),
        mlp_bias_keys=("enable_bias",), positions=2, window="none",
    ),
    "mpt": Family(
        tied=True, gated=False, bias_keys=("no_bias",), inverted_bias=True, mlp_bias_keys=(), ffn_factor=4,
        special="mpt",
        window="none",
    ),
    "exaone": _LLAMA,
    "exaone4": Family(qk_norm="head", window=4),
    "exaone_moe": Family(qk_norm="head", window=4),
    "seed_oss": Family(qkv_bias=True, bias_qkv_only=True),
    "mimo": _QWEN2,
    "mimo_v2_flash": Family(special="mimo_v2"),
    "arcee": Family(gated=False),
    "apertus": Family(gated=False, qk_norm="head"),
    "dots1": Family(qk_norm="head"),
    "bailing_moe": Family(bias_keys=("use_qkv_bias",), bias_qkv_only=True, qk_norm="head", qk_norm_key="use_qk_norm"),
    "bailing_moe_v2": Family(bias_keys=("use_qkv_bias",), bias_qkv_only=True, qk_norm="head"),
    "step3p5": Family(qk_norm="head", special="step"),
    "step3p7": Family(qk_norm="head", special="step"),
    "solar": _LLAMA,
    "solar_open": _LLAMA,
    "afmoe": Family(layer_norms=4, qk_norm="head", special="afmoe", window=4),
    "gpt_oss": Family(
        qkv_bias=True, out_bias=True, sinks=True, expert_width_is_intermediate=True, special="gpt_oss", window=2,
    ),
    "helium": _LLAMA,
    "mellum": Family(qk_norm="head"),
    "granite_swa": Family(tied=True, sinks=True),
    "granitemoe_swa": Family(sinks=True, expert_width_is_intermediate=True),
    "hyperclovax": Family(special="hyperclovax"),
    "aria_text": Family(expert_width_is_intermediate=True),
    "jais2": Family(norm="layer", gated=False, qkv_bias=True, out_bias=True, mlp_bias=True),
    "emu3_text_model": _LLAMA,
    "cwm": _LLAMA,
    "llava": _LLAMA,
}  # fmt: skip

# Classes that stand in configs without model_type, and wrappers whose text model has a name of its own.
OTHER_NAMES: Final[dict[str, str]] = {
    "LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "MixtralForCausalLM": "mixtral",
    "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3_moe",
    "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3_text", "Phi3ForCausalLM": "phi3",
    "DeepseekV3ForCausalLM": "deepseek_v3", "GPT2LMHeadModel": "gpt2", "DeciLMForCausalLM": "nemotron-nas",
    "QWenLMHeadModel": "qwen", "FalconForCausalLM": "falcon", "RWForCausalLM": "falcon", "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text", "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "llama4": "llama4_text", "mllama": "mllama_text_model",
    "qwen2_vl": "qwen2_vl_text", "qwen2_5_vl": "qwen2_5_vl_text", "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text", "mistral3": "mistral", "gpt-sw3": "gpt2", "kimi_vl": "deepseek_v3",
    "deepseek": "deepseek_v2", "kimi_k3": "kimi_linear", "decilm": "nemotron-nas",
    "gemma4_unified": "gemma4_unified_text",
    "granite_moe_hybrid": "granitemoehybrid", "BloomForCausalLM": "bloom", "internvl_chat": "qwen2", "Yi": "llama",
    "phi3_v": "phi3", "qwen3_omni_moe_text": "qwen3_moe", "qwen2_5_omni_text": "qwen2", "minimax_text_01": "minimax",
    "stablelm_epoch": "stablelm", "minimax_m1": "minimax",
}  # fmt: skip


def family_of(name: str | None) -> tuple[str, Family] | None:
    """The row for a model_type or class name, and the row's name; None where there is none."""
    if name is None:
        return None
    name = OTHER_NAMES.get(name, name)
    return (name, FAMILIES[name]) if name in FAMILIES else None
