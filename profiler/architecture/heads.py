"""Which drafter head is this, and what does it weigh? EAGLE, EAGLE-3, P-EAGLE, Medusa, DFlash, DSpark, MTP modules.

Most heads carry the config of a small Llama or Qwen; read as a target they would seem to have two tables of their own.
At serving they share the target's input table (and EAGLE-1, DFlash and DSpark its output head), and have a projection
of the target's hidden states that the config does not mention. Shapes: EAGLE (arXiv 2401.15077), EAGLE-3 (2503.01840),
Medusa (2401.10774), DeepSeek-V3's module (2412.19437, section 2.2), and vLLM's model classes llama_eagle,
llama_eagle3, medusa, qwen3_dflash and qwen3_dspark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from profiler.architecture.architecture import Architecture, HeadKind
from profiler.architecture.attention import attention_block, base_heads, latent_block
from profiler.architecture.context import max_positions
from profiler.architecture.families import FAMILIES, Family, family_of
from profiler.architecture.feedforward import Experts, dense_block
from profiler.architecture.fields import Fields
from profiler.architecture.layers import layer_plans
from profiler.architecture.parts import Block, Weight, WeightGroup, matrix, vector
from profiler.architecture.quantization import Quantization
from profiler.architecture.quantization_config import read_quantization
from profiler.architecture.sizing import group_layers, group_weights

# Pieces of class names and model types, the longer ones first.
_MARKS: Final[tuple[tuple[str, HeadKind], ...]] = (
    ("peagle", "peagle"), ("p_eagle", "peagle"), ("eagle3", "eagle3"), ("eagle", "eagle"), ("medusa", "medusa"),
    ("dspark", "dspark"), ("dflash", "dflash"), ("dflare", "dflash"), ("domino", "dflash"), ("mlpspeculator",
    "mlp_speculator"),
    ("mlp_speculator", "mlp_speculator"), ("mtp", "mtp"),
)  # fmt: skip
_PLAIN: Final = frozenset({"llama", "mistral", "mixtral", "qwen2", "qwen3", None})
_FEATURES: Final = 3  # EAGLE-3 reads a low, a middle and a high layer of its target
_SMALLEST_TARGET: Final = 1024  # hidden size under which a one-layer model is somebody's test fixture, not a head


def head_kind(top: Fields) -> HeadKind | None:
    """The kind of drafter head that a config describes, None for a model of its own."""
    if top.values.get("vision_config"):  # an image model may be called Eagle; no head has a tower
        return None
    marks = [str(c) for c in top.items("architectures") or ()]
    marks += [top.text("speculators_model_type") or "", top.text("model_type") or ""]
    text = " ".join(marks).lower()
    for mark, kind in _MARKS:
        if mark in text:
            return kind
    if "medusa_num_heads" in top:
        return "medusa"
    if top.part("dflash_config") is not None:
        return "dflash"
    if "draft_vocab_size" in top:
        return "eagle3"
    model_type = top.values.get("model_type")
    one = (
        top.optional_integer("num_hidden_layers") == 1
        and (top.optional_integer("hidden_size") or 0) >= _SMALLEST_TARGET
    )
    plain = model_type in _PLAIN if isinstance(model_type, str | None) else False
    return "eagle" if one and plain else None


def read_head(top: Fields, *, quantization: str | None, target: Architecture | None) -> Architecture:
    """Read a head's config; `target` gives what the config leaves to it (Medusa's sizes)."""
    kind = head_kind(top)
    assert kind is not None  # asked by the caller
    if kind == "medusa":
        return _medusa(top, target)
    if kind in ("mlp_speculator", "mtp"):
        remedy = "name the target alone: its MTP module is read from the target's own config" if kind == "mtp" else None
        raise top.error(
            f"A config of a {kind} head alone cannot be sized", "architectures",
            "a head of EAGLE, EAGLE-3, Medusa, DFlash or DSpark",
            ", ".join(str(c) for c in top.items("architectures") or ()) or str(top.text("model_type")), remedy,
        )  # fmt: skip
    inner = top.part("transformer_layer_config") or top.part("model") or top.part("eagle_config_inner") or top
    return _transformer_head(top, inner, kind, quantization)


def _merged(top: Fields, key: str, inner: Fields) -> int | None:
    value = top.optional_integer(key)
    return inner.optional_integer(key) if value is None else value


def _transformer_head(top: Fields, inner: Fields, kind: HeadKind, quantization: str | None) -> Architecture:
    notes: list[str] = []
    inner.check()
    row, family = _family(inner)
    hidden, vocabulary = inner.integer("hidden_size"), inner.integer("vocab_size")
    plans = layer_plans(inner, family)
    layers = len(plans)
    target_hidden = _merged(top, "target_hidden_size", inner) or hidden
    latent = family.mla and inner.optional_integer("kv_lora_rank") is not None
    wide = kind in ("eagle3", "peagle")
    base = None if latent else base_heads(inner, family, hidden)
    blocks: Counter[tuple[int, Block]] = Counter()
    for index, plan in enumerate(plans):
        mixer = (
            latent_block(inner, plan, hidden, index) if base is None
            else attention_block(inner, family, plan, base, hidden, inputs=2 * hidden if wide and index == 0 else None)
        )  # fmt: skip
        mlp = dense_block(inner, family, hidden, inner.integer("intermediate_size"))
        # The first layer of EAGLE has one norm less, of EAGLE-3 one more (over the target's features).
        norms = 2 + (index == 0) * (1 if wide else -1 if kind == "eagle" else 0)
        blocks[(index, Block((*mixer.weights, *mlp, vector("norms", "norm", norms * hidden)), mixer.caches))] += 1
    model, borrowed = _shared(top, inner, kind, hidden, vocabulary, target_hidden, layers, notes)
    stored = read_quantization(top, inner, argument=quantization, hf_quant_config=None)
    groups = group_weights(model, blocks, stored, None)
    if borrowed:
        size = hidden * vocabulary
        groups += (WeightGroup("lm_head", size, size * 2, size, borrowed=True),)
    if kind == "eagle" and inner is top and "eagle" not in str(top.values.get("architectures")).lower():
        notes.append("a one-layer config of a plain family: read as an EAGLE head, which cannot serve alone")
    if target_hidden != hidden:
        notes.append(f"made for a target of hidden size {target_hidden}")
    return Architecture(
        name=top.name, model_type=inner.text("model_type") or row,
        architectures=tuple(str(c) for c in top.items("architectures") or inner.items("architectures") or ()),
        hidden_size=hidden, num_layers=layers, vocab_size=vocabulary,
        num_attention_heads=base.queries if base else inner.integer("num_attention_heads"),
        num_kv_heads=base.keys if base else inner.integer("num_attention_heads"), head_dim=base.key_size if base else 0,
        max_position_embeddings=max_positions(inner, row), tie_word_embeddings=False, dtype="bfloat16", weights=groups,
        layers=group_layers(blocks), quantization=stored.name if stored else None,
        compute_dtype=stored.compute_dtype if stored else "bf16", head_kind=kind,
        draft_vocab_size=_merged(top, "draft_vocab_size", inner), draft_tokens=_draft_tokens(top, kind),
        target_layers=_merged(top, "num_target_layers", inner), is_mla=latent, notes=tuple(notes),
    )  # fmt: skip


def _family(inner: Fields) -> tuple[str, Family]:
    model_type = inner.text("model_type")
    if model_type == "mixtral":  # EAGLE's head for Mixtral keeps the name; its layer is dense
        return "llama", FAMILIES["llama"]
    found = family_of(model_type) if model_type else ("llama", FAMILIES["llama"])
    if found is None or found[1].special is not None:
        raise inner.error(
            "The head's layer is of a family that is not known",
            "model_type",
            "llama, qwen2, qwen3, mistral or another plain one",
            model_type,
        )
    return found


def _shared(
    top: Fields,
    inner: Fields,
    kind: HeadKind,
    hidden: int,
    vocabulary: int,
    target_hidden: int,
    layers: int,
    notes: list[str],
) -> tuple[list[Weight], bool]:
    """Weights outside the layers, and whether the output head is the target's."""
    if kind == "eagle":
        bias = inner.flag("eagle_fc_bias", top.flag("eagle_fc_bias", False))
        return matrix("fc", "projection", 2 * hidden, hidden, bias=bias), True
    if kind in ("eagle3", "peagle"):
        settings = top.part("eagle_config") or inner.part("eagle_config")
        listed = (settings.items("eagle_aux_hidden_state_layer_ids") if settings else None) or top.items(
            "eagle_aux_hidden_state_layer_ids"
        )
        model = matrix("fc", "projection", (len(listed) if listed else _FEATURES) * target_hidden, hidden)
        model += [vector("norm", "norm", hidden)]
        model += matrix("lm_head", "lm_head", hidden, _merged(top, "draft_vocab_size", inner) or vocabulary)
        if target_hidden != hidden:
            model.append(vector("embed_tokens", "embedding", vocabulary * hidden))
        return model, False
    settings = top.part("dflash_config") or inner.part("dflash_config") or top
    listed = settings.items("target_layer_ids") or top.items("aux_hidden_state_layer_ids")
    model = matrix("fc", "projection", (len(listed) if listed else layers) * target_hidden, hidden)
    model.append(vector("norm", "norm", 2 * hidden))
    rank = settings.optional_integer("markov_rank") or top.optional_integer("markov_rank")
    if kind == "dspark" and rank:
        model.append(vector("markov_head.markov_w1", "position", vocabulary * rank))
        model += matrix("markov_head.markov_w2", "lm_head", rank, _merged(top, "draft_vocab_size", inner) or vocabulary)
        if settings.flag("enable_confidence_head", top.flag("enable_confidence_head", False)):
            model += matrix("confidence_head", "projection", hidden + rank, 1)
    projector = settings.text("projector_type")
    if projector not in (None, "dflash", "dspark"):
        notes.append(f"the {projector} projector's own layers are not counted: their layout is not published")
    if "draft_vocab_size" in top:
        return model + matrix("lm_head", "lm_head", hidden, top.integer("draft_vocab_size")), False
    return model, True


def _draft_tokens(top: Fields, kind: HeadKind) -> int | None:
    """The number of draft tokens that a head was made for, where its config says so."""
    for settings in (top, top.part("dflash_config")):
        size = settings.optional_integer("block_size") if settings is not None else None
        if size is not None and kind in ("dflash", "dspark"):
            return size if kind == "dspark" else max(size - 1, 1)  # a DFlash block starts with the verified token
    speculators = top.part("speculators_config")
    for proposal in (speculators.items("proposal_methods") or ()) if speculators is not None else ():
        if isinstance(proposal, Mapping) and isinstance(proposal.get("speculative_tokens"), int):
            return int(proposal["speculative_tokens"])
    return None


def _medusa(top: Fields, target: Architecture | None) -> Architecture:
    """Medusa heads: each a residual block (or more) over the last hidden state, and an output head of its own."""
    count_key = next(
        (key for key in ("medusa_num_heads", "num_heads", "num_medusa_heads") if key in top), "medusa_num_heads"
    )
    heads = top.same_integer(count_key)
    if heads is None:
        raise top.missing(count_key, "the number of heads")
    depth_key = next(
        (key for key in ("medusa_num_layers", "num_hidden_layers", "num_layers") if key in top), "medusa_num_layers"
    )
    depth = top.optional_integer(depth_key) or 1
    hidden = top.optional_integer("hidden_size") or (target.hidden_size if target else None)
    vocabulary = top.optional_integer("vocab_size") or (target.vocab_size if target else None)
    if hidden is None or vocabulary is None:
        base = top.text("base_model_name_or_path")
        raise top.error(
            "Medusa heads leave their sizes to their target", "hidden_size" if hidden is None else "vocab_size",
            "hidden_size and vocab_size in the config, or the target beside it", "no such field",
            f"name the target{f' ({base})' if base else ''} together with the head",
        )  # fmt: skip
    weights = matrix(
        "medusa_head.0", "projection", hidden, hidden, bias=top.flag("medusa_fc_bias", True), count=heads * depth
    )
    weights += matrix(
        "lm_heads.0", "lm_head", hidden, top.optional_integer("truncated_vocab_size") or vocabulary, count=heads
    )
    note = f"the config says {heads} heads; some weight files hold more: as many draft tokens as heads"
    return Architecture(
        name=top.name, model_type="medusa",
        architectures=tuple(str(c) for c in top.items("architectures") or ("MedusaModel",)),
        hidden_size=hidden, num_layers=0, vocab_size=vocabulary, num_attention_heads=0, num_kv_heads=0, head_dim=0,
        max_position_embeddings=None, tie_word_embeddings=False, dtype="bfloat16", weights=group_weights(weights, {},
        None, None),
        layers=(), head_kind="medusa", draft_tokens=heads, notes=(note,),
    )  # fmt: skip


def mtp_module(
    text: Fields, name: str, hidden: int, heads: int, blocks: Mapping[tuple[int, Block], int],
    stored: Quantization | None, experts: Experts | None, dtype: str,
) -> tuple[Architecture | None, str | None]:  # fmt: skip
    """The multi-token-prediction module that a target's checkpoint carries, None without one; and a note.

    One decoder layer of the target's last attention kind, a projection of 2 h x h over embedding and hidden state, and
    three norms (DeepSeek-V3, section 2.2); both tables are the target's.
    """
    count = text.optional_integer("mtp_layers", least=0) or 0
    if "mtp_layers" not in text and "mtp_layers_block_type" in text:
        count = 1
    note = None
    if not count and text.flag("use_mtp", False):
        return (
            None,
            "the config speaks of MTP modules (use_mtp), but not in the field that vLLM reads: no MTP is promised",
        )
    if not count:
        return None, note
    layer = next(
        (b for (_, b) in reversed(list(blocks)) if any(c.score_width and c.window is None for c in b.caches)), None
    )
    if layer is None:
        return None, "the MTP module is not counted: the model has no layer with attention over everything"
    weights = list(layer.weights)
    mixed = text.items("mtp_layers_block_type")
    if mixed or "hybrid_override_pattern" in text:  # Nemotron-H: attention and experts are layers of their own
        feed = next((b for (_, b) in blocks if any(w.role == "expert" for w in b.weights)), None)
        weights += feed.weights if feed is not None else ()
    if stored is not None and stored.leaves_out("mtp.layers.0.mlp.up_proj"):
        stored = None
    model = [*matrix("mtp.eh_proj", "projection", 2 * hidden, hidden), vector("mtp.norms", "norm", 3 * hidden)]
    one = {(0, Block(tuple(weights), layer.caches)): 1}
    groups = group_weights(model, one, stored, experts)
    vocabulary = text.integer("vocab_size")
    size = hidden * vocabulary
    groups += (WeightGroup("lm_head", size, size * 2, size, borrowed=True),)
    settings: dict[str, Any] = {"experts": experts.count, "experts_per_token": experts.per_token} if experts else {}
    head = Architecture(
        name=f"{name} (MTP module)", model_type=text.text("model_type") or "", architectures=(), hidden_size=hidden,
        num_layers=1, vocab_size=vocabulary, num_attention_heads=heads, num_kv_heads=heads, head_dim=0,
        max_position_embeddings=max_positions(text, text.text("model_type") or ""), tie_word_embeddings=False,
        dtype=dtype,
        weights=groups, layers=group_layers(one), quantization=stored.name if stored else None,
        compute_dtype=stored.compute_dtype if stored else "bf16", head_kind="mtp", draft_tokens=count, **settings,
    )  # fmt: skip
    return head, note
