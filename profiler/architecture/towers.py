"""What does the image tower of a multimodal model weigh? Loaded with the model, never read in decoding.

Each formula counts the modules that the tower's class in transformers builds, with its projector. A tower without a
formula is not guessed: it is left out and named in the architecture's notes, which a memory plan then states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from profiler.architecture.fields import Fields


def tower_parameters(top: Fields, hidden: int) -> tuple[int, str | None]:
    """Parameters of the image tower and its projector (0 without one), and a note where something was left out."""
    vision = top.part("vision_config")
    if vision is None and (encoder := top.part("vision_encoder")) is not None:  # Mistral's params.json
        return _pixtral(encoder, _mistral_projector(top, encoder), hidden), None
    notes = [
        f"{key} is not counted" for key in ("audio_config", "audio_processor", "multimodal") if top.values.get(key)
    ]
    if "mm_vision_tower" in top:
        notes.append(
            f"the image tower {top.text('mm_vision_tower')} is not counted: its config is not part of this one"
        )
    if top.text("model_type") == "llama4" and vision is None:
        vision = Fields(_LLAMA4_DEFAULTS, name=top.name, path="vision_config.")
        notes.append("no vision_config: the image tower is that of Llama4VisionConfig's defaults")
    if vision is None or not vision.values:
        return 0, "; ".join(notes) or None
    kind = vision.text("model_type") or top.text("model_type") or ""
    count = _TOWERS.get(kind) or next((f for name, f in _TOWERS.items() if kind.startswith(name)), None)
    if count is None and "vt_hidden_size" in vision:
        count = _moonvit
    if count is None:
        notes.append(f"the image tower ({kind or 'no model_type'}) is not counted: its layout is not known here")
        return 0, "; ".join(notes)
    return count(vision, top, hidden), "; ".join(notes) or None


def _encoder(width: int, inner: int) -> int:
    """A classic layer: four square maps, an MLP of two maps, all with biases, two layer norms."""
    return 4 * width * width + 2 * width * inner + 9 * width + inner


def _siglip(v: Fields, top: Fields, hidden: int) -> int:
    width, inner, layers, patch = _sizes(v)
    image = _side(v, "image_size")
    total = (
        layers * _encoder(width, inner) + 3 * patch * patch * width + width + (image // patch) ** 2 * width + 2 * width
    )
    if v.flag("vision_use_head", True):
        total += _encoder(width, inner) - width  # an attention pool: one norm less, one query more
    if (top.text("model_type") or "").startswith("llava"):
        return total + width * hidden + hidden + hidden * hidden + hidden
    return total + width * hidden + width


def _clip(v: Fields, top: Fields, hidden: int) -> int:
    width, inner, layers, patch = _sizes(v)
    tokens = (_side(v, "image_size") // patch) ** 2 + 1
    total = layers * _encoder(width, inner) + 3 * patch * patch * width + (tokens + 1) * width + 4 * width
    return total + width * hidden + hidden + hidden * hidden + hidden


def _pixtral(v: Fields, top: Fields, hidden: int) -> int:
    width, inner, layers, patch = _sizes(v)
    total = layers * (4 * width * width + 3 * width * inner + 2 * width) + 3 * patch * patch * width + width
    bias = 2 * hidden if top.flag("multimodal_projector_bias", True) else 0
    if top.text("model_type") == "mistral3":
        merge = top.optional_integer("spatial_merge_size") or 2
        total += width + merge * merge * width * width
    return total + width * hidden + hidden * hidden + bias


def _mistral_projector(top: Fields, encoder: Fields) -> Fields:
    """The projector's keys as Hugging Face names them."""
    merges = encoder.text("mm_projector_id") == "patch_merge"
    named = {
        "model_type": "mistral3" if merges else "llava", "multimodal_projector_bias": encoder.flag("adapter_bias",
        True),
        "spatial_merge_size": encoder.optional_integer("spatial_merge_size"),
    }  # fmt: skip
    return Fields(named, name=top.name, path=encoder.path)


def _qwen2(v: Fields, top: Fields, hidden: int) -> int:
    width, layers, patch = v.integer("embed_dim"), v.integer("depth"), v.integer("patch_size")
    inner = round(v.number("mlp_ratio", 4.0) * width)
    merged = width * (v.optional_integer("spatial_merge_size") or 2) ** 2
    total = layers * _encoder(width, inner) + _patch(v, width, patch) + 2 * width
    return total + merged * merged + merged + merged * hidden + hidden


def _qwen25(v: Fields, top: Fields, hidden: int) -> int:
    width, inner = v.integer("hidden_size"), v.integer("intermediate_size")
    layers, patch, out = v.integer("depth"), v.integer("patch_size"), v.optional_integer("out_hidden_size") or hidden
    merged = width * (v.optional_integer("spatial_merge_size") or 2) ** 2
    layer = 4 * width * width + 3 * width * inner + 4 * width + 2 * inner + width + 2 * width
    return layers * layer + _patch(v, width, patch) + width + merged * merged + merged + merged * out + out


def _qwen3(v: Fields, top: Fields, hidden: int) -> int:
    width, inner = v.integer("hidden_size"), v.integer("intermediate_size")
    layers, patch, out = v.integer("depth"), v.integer("patch_size"), v.optional_integer("out_hidden_size") or hidden
    merged = width * (v.optional_integer("spatial_merge_size") or 2) ** 2
    merger = merged * merged + merged + merged * out + out
    deep = len(v.items("deepstack_visual_indexes") or ())
    total = layers * _encoder(width, inner) + _patch(v, width, patch) + width
    total += v.integer("num_position_embeddings") * width
    return total + merger + 2 * width + deep * (merger + 2 * merged)


def _llama4(v: Fields, top: Fields, hidden: int) -> int:
    width, inner, layers, patch = _sizes(v)
    tokens = (_side(v, "image_size") // patch) ** 2 + 1
    total = layers * _encoder(width, inner) + 3 * patch * patch * width + (tokens + 1) * width + 4 * width
    first, second = (
        v.optional_integer("projector_input_dim") or 4096,
        v.optional_integer("projector_output_dim") or 4096,
    )
    return total + inner * first + first * second + (v.optional_integer("vision_output_dim") or 7680) * hidden


def _mllama(v: Fields, top: Fields, hidden: int) -> int:
    width, inner, layers, patch = _sizes(v)
    layer = 4 * width * width + 2 * width * inner + 5 * width + inner
    far = v.optional_integer("num_global_layers") or 8
    tokens, tiles = (_side(v, "image_size") // patch) ** 2 + 1, v.optional_integer("max_num_tiles") or 4
    ratios = len(v.items("supported_aspect_ratios") or range(8)) + 1
    tables = tokens * width + ratios * tiles * tokens * width + 2 * ratios * tiles * width
    output = v.optional_integer("vision_output_dim") or 7680
    total = (layers + far) * layer + 2 * far + 3 * patch * patch * width + tables + 5 * width + 3
    return total + output * hidden + hidden


def _gemma4(v: Fields, top: Fields, hidden: int) -> int:
    width, inner, layers, patch = _sizes(v)
    heads, size = v.integer("num_attention_heads"), v.integer("head_dim")
    keys = v.optional_integer("num_key_value_heads") or heads
    layer = 2 * width * size * (heads + keys) + 3 * width * inner + 4 * width + 2 * size
    total = layers * layer + 3 * patch * patch * width + 2 * v.integer("position_embedding_size") * width
    return total + width * hidden + (2 * width if v.flag("standardize", False) else 0)


def _moonvit(v: Fields, top: Fields, hidden: int) -> int:
    width, inner = v.integer("vt_hidden_size"), v.integer("vt_intermediate_size")
    layers, patch = v.integer("vt_num_hidden_layers"), v.integer("patch_size")
    wide = v.optional_integer("qkv_hidden_size") or width
    layer = 4 * width * wide + 2 * width * inner + 9 * width + inner
    places = (v.optional_integer("init_pos_emb_height") or 64) * (v.optional_integer("init_pos_emb_width") or 64)
    total = layers * layer + 3 * patch * patch * width + width + places * width + 2 * width
    merged = 4 * (v.optional_integer("mm_hidden_size") or width)
    return total + merged * merged + merged + merged * hidden + hidden


def _intern(v: Fields, top: Fields, hidden: int) -> int:
    width, inner, layers, patch = _sizes(v)
    tokens = (_side(v, "image_size") // patch) ** 2 + 1
    total = layers * (_encoder(width, inner) + 2 * width) + 3 * patch * patch * width + (tokens + 2) * width
    merged = 4 * width
    return total + 2 * merged + merged * hidden + hidden + hidden * hidden + hidden


def _patch(v: Fields, width: int, patch: int) -> int:
    return (
        (v.optional_integer("in_channels") or 3)
        * (v.optional_integer("temporal_patch_size") or 2)
        * patch
        * patch
        * width
    )


def _sizes(v: Fields) -> tuple[int, int, int, int]:
    return (
        v.integer("hidden_size"),
        v.integer("intermediate_size"),
        v.integer("num_hidden_layers"),
        _side(v, "patch_size"),
    )


def _side(v: Fields, key: str) -> int:
    return v.layer_integer(key, 0) or v.integer(key)


_LLAMA4_DEFAULTS: Final = {
    "model_type": "llama4_vision_model", "hidden_size": 768, "num_hidden_layers": 34, "intermediate_size": 5632,
    "image_size": 448, "patch_size": 14, "vision_output_dim": 7680, "projector_input_dim": 4096,
    "projector_output_dim": 4096,
}  # fmt: skip  # transformers models/llama4/configuration_llama4.py
_TOWERS: Final[dict[str, Callable[[Fields, Fields, int], int]]] = {
    "siglip_vision_model": _siglip, "clip_vision_model": _clip, "pixtral": _pixtral, "qwen2_vl": _qwen2,
    "qwen2_5_vl": _qwen25,
    "qwen3_vl": _qwen3, "qwen3_5": _qwen3, "llama4_vision_model": _llama4, "gemma4_vision": _gemma4,
    "mllama_vision_model": _mllama, "mllama": _mllama,
    "intern_vit_6b": _intern, "internvl_vision": _intern,
}  # fmt: skip
