"""Which model does this config describe? From a config.json or params.json to an Architecture, or a refusal.

Weights and caches are counted module by module (attention.py, feedforward.py, mixers.py), each in the form its family's
published code builds it (families.py), and sized as the checkpoint stores them (quantization.py). Refused: families
without a row, missing or absurd fields, encoder-decoders (vLLM speculates on decoders only).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from profiler.architecture.architecture import Architecture
from profiler.architecture.assembly import assemble
from profiler.architecture.families import FAMILIES, Family, family_of
from profiler.architecture.fields import Fields
from profiler.architecture.heads import head_kind, read_head
from profiler.architecture.quantization_config import read_quantization
from profiler.errors import ArchitectureError

_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config", "thinker_config")
_ENCODERS: Final = frozenset(
    [
        "t5",
        "mt5",
        "umt5",
        "bart",
        "mbart",
        "pegasus",
        "marian",
        "whisper",
        "blenderbot",
        "m2m_100",
        "nllb-moe",
        "prophetnet",
        "led",
    ]
)


def read_architecture(
    config: Mapping[str, Any], *, name: str, quantization: str | None = None,
    hf_quant_config: Mapping[str, Any] | None = None, target: Architecture | None = None,
) -> Architecture:  # fmt: skip
    """Read one config.

    `quantization` is vLLM's engine argument; `hf_quant_config` the file of that name beside the config; `target` the
    model that a drafter head belongs to, needed where the head's config leaves its sizes to it (Medusa). Raises
    ArchitectureError with the field that is missing or wrong.
    """
    if not isinstance(config, Mapping):
        raise ArchitectureError(
            f"The config of {name} cannot be read", expected="a JSON object", got=type(config).__name__, field="config"
        )
    top = Fields(config, name=name)
    if head_kind(top) is not None:
        return read_head(top, quantization=quantization, target=target)
    text = _text_part(top)
    row, family = _family(top, text)
    text.check()
    stored = read_quantization(top, text, argument=quantization, hf_quant_config=hf_quant_config)
    return assemble(top, text, row, family, stored)


def _text_part(top: Fields) -> Fields:
    for key in _TEXT_PARTS:
        part = top.part(key)
        if part is not None:
            return _text_part(part)
    return top


def _family(top: Fields, text: Fields) -> tuple[str, Family]:
    classes = [str(c) for fields in (text, top) for c in fields.items("architectures") or ()]
    model_type = text.text("model_type")
    encoder = next((t for t in (model_type, top.text("model_type")) if t in _ENCODERS), None)
    if encoder or top.flag("is_encoder_decoder", False):
        raise ArchitectureError(
            f"{top.name} is an encoder-decoder ({encoder or model_type})", expected="a decoder-only language model",
            got=", ".join(classes) or str(model_type), remedy="vLLM has no speculative decoding for encoder-decoders",
            field="model_type",
        )  # fmt: skip
    if model_type is None and "dim" in text.values:  # Mistral's params.json names no family
        latent = text.optional_integer("kv_lora_rank") is not None
        return ("mistral_large_3", FAMILIES["mistral_large_3"]) if latent else ("mistral", FAMILIES["mistral"])
    found = family_of(model_type) or (family_of(top.text("model_type")) if text is not top else None)
    if found is None and model_type is None:
        found = next((f for f in map(family_of, classes) if f is not None), None)
    if found is None:
        raise ArchitectureError(
            f"{top.name} is of a family that is not known: its layers cannot be counted from the config alone",
            expected="a model_type such as " + ", ".join(sorted(FAMILIES)[:60:6]) + f" ({len(FAMILIES)} are known)",
            got=f"model_type {model_type!r}" if model_type else "no model_type, class " + (classes or ["none"])[0],
            field=text.path + "model_type",
        )  # fmt: skip
    return found
