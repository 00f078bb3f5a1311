"""What does a config say, under whichever name it says it? Validated reading of single fields.

Every generation has its names: a hidden size is `hidden_size`, `n_embd`, `d_model` or `dim`. The first name of each
list below is the canonical one; errors name the field as the file has it. Refused: values of the wrong type, negative
or absurd numbers, NaN, and twin names that contradict each other. A null counts as absent, as in Hugging Face configs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from profiler.errors import ArchitectureError

# The names under which published configs give a quantity, canonical first (transformers' attribute_map of each family;
# `dim`, `n_layers`, ... are Mistral's and Meta's params.json).
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_key_value_heads": (
        "num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "num_attention_groups",
        "num_key_value_heads_per_layer",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "hidden_dim", "d_ff"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_position_embeddings": (
        "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx",
        "model_max_length",
    ),
    "tie_word_embeddings": ("tie_word_embeddings", "tied_embeddings"),
    "experts": (
        "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts",
        "moe_n_experts",
    ),
    "experts_per_token": (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_topk", "moe_top_k",
        "moe_k",
    ),
    "expert_width": (
        "moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "expert_hidden_dim",
        "ffn_hidden_size_expert",
    ),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_width": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
        "shared_intermediate_size", "share_expert_dims", "moe_intermediate_size_shared",
    ),
    "sliding_window": ("sliding_window", "sliding_window_size", "window_size"),
    "mtp_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers"),
}  # fmt: skip

_MOST: Final = 10**9  # no dimension of a model is larger
# Twins of these must agree; of others, they mean different things (seq_length beside max_position_embeddings).
_SIZES: Final = frozenset({"hidden_size", "num_hidden_layers", "num_attention_heads", "experts", "experts_per_token"})
_FLAGS: Final = ("tie_word_embeddings", "use_sliding_window", "attention_bias", "mlp_bias")


class Fields:
    """One config object and the path that leads to it (for messages)."""

    __slots__ = ("name", "path", "values")

    def __init__(self, values: Mapping[str, Any], *, name: str, path: str = "") -> None:
        self.values = values
        self.name = name
        self.path = path

    def __contains__(self, key: str) -> bool:
        return self.find(key)[1] is not None

    def find(self, key: str) -> tuple[str, Any]:
        """The name under which the file gives `key`, and its value; None where it gives none."""
        found: tuple[str, Any] | None = None
        for alias in NAMES.get(key, (key,)):
            value = self.values.get(alias)
            if value is None:
                continue
            if found is None:
                found = (alias, value)
            elif key in _SIZES and value != found[1]:
                raise self.error(f"{found[0]} and {alias} contradict each other", alias, f"{found[1]} twice", value)
        return found or (NAMES.get(key, (key,))[0], None)

    def error(self, what: str, key: str, expected: str, got: object, remedy: str | None = None) -> ArchitectureError:
        """An ArchitectureError about one field of this config."""
        shown = got if isinstance(got, str) and got.startswith("no ") else _show(got)
        return ArchitectureError(
            f"{what} ({self.name})", expected=expected, got=str(shown), remedy=remedy, field=self.path + key
        )

    def missing(self, key: str, expected: str) -> ArchitectureError:
        """The error for a field that is needed and not there."""
        names = NAMES.get(key, (key,))
        others = f" (also read as {', '.join(names[1:])})" if len(names) > 1 else ""
        return self.error(f"The config has no {names[0]}{others}", names[0], expected, "no such field")

    def check(self) -> None:
        """Refuse odd values in all fields that are known by name, also those that a family happens not to use."""
        for key in NAMES:
            if key == "tie_word_embeddings":
                continue
            name, value = self.find(key)
            entries = value if isinstance(value, list | tuple) else [value]
            for entry in entries:  # lists have one entry a layer
                Fields({name: entry}, name=self.name, path=self.path).optional_integer(name, least=0)
        for key in _FLAGS:
            self.optional_flag(key)

    def integer(self, key: str, *, least: int = 1, most: int = _MOST) -> int:
        """A whole number that must be there."""
        value = self.optional_integer(key, least=least, most=most)
        if value is None:
            raise self.missing(key, f"a whole number of at least {least}")
        return value

    def optional_integer(self, key: str, *, least: int = 1, most: int = _MOST) -> int | None:
        """A whole number, None where absent or null."""
        name, value = self.find(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            if isinstance(value, float) and value.is_integer() and least <= value <= most:
                return int(value)
            raise self.error(f"{name} cannot be used", name, f"a whole number from {least} to {most}", value)
        return value

    def number(self, key: str, default: float, *, most: float = 1000.0) -> float:
        """A factor above 0."""
        name, value = self.find(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self.error(f"{name} cannot be used", name, f"a number above 0 and up to {most:g}", value)
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false; `default` where absent or null."""
        return default if (value := self.optional_flag(key)) is None else value

    def optional_flag(self, key: str) -> bool | None:
        """true or false, None where absent or null."""
        name, value = self.find(key)
        if value is None or isinstance(value, bool):
            return value
        if value in (0, 1):
            return bool(value)
        raise self.error(f"{name} cannot be used", name, "true or false", value)

    def text(self, key: str) -> str | None:
        """A string, None where absent."""
        name, value = self.find(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(f"{name} cannot be used", name, "a string", value)

    def items(self, key: str) -> Sequence[Any] | None:
        """A list, None where absent."""
        name, value = self.find(key)
        if value is None or isinstance(value, list | tuple):
            return value
        raise self.error(f"{name} cannot be used", name, "a list", value)

    def integers(self, key: str) -> list[int] | None:
        """A list of whole numbers, None where absent."""
        values = self.items(key)
        if values is not None and not all(isinstance(v, int) for v in values):
            raise self.error(f"{key} cannot be used", key, "a list of whole numbers", values)
        return None if values is None else [int(v) for v in values]

    def per_layer(self, key: str, layers: int) -> Sequence[Any] | None:
        """A list with one entry a layer (longer where multi-token layers are listed too), None where absent."""
        values = self.items(key)
        if values is None:
            return None
        if len(values) < layers:
            raise self.error(f"{key} does not cover the layers", key, f"{layers} entries", f"{len(values)} entries")
        return values[:layers]

    def layer_integer(self, key: str, index: int, *, least: int = 1) -> int | None:
        """A whole number that may be given once for all layers or as a list with one entry a layer.

        None where absent.
        """
        name, value = self.find(key)
        if isinstance(value, list | tuple):
            if index >= len(value):
                raise self.error(
                    f"{name} does not cover the layers", name, f"more than {index} entries", f"no entry {index}"
                )
            value = value[index]
            return Fields({name: value}, name=self.name, path=self.path).optional_integer(name, least=least)
        return self.optional_integer(key, least=least)

    def same_integer(self, key: str, *, least: int = 1) -> int | None:
        """A whole number, also where it is given as a list whose entries are all the same; None where absent."""
        name, value = self.find(key)
        if isinstance(value, list | tuple):
            if not value or any(entry != value[0] for entry in value):
                raise self.error(f"{name} differs between layers", name, "the same number for all layers", value)
            return Fields({name: value[0]}, name=self.name, path=self.path).integer(name, least=least)
        return self.optional_integer(key, least=least)

    def part(self, key: str) -> Fields | None:
        """A nested object, None where absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(f"{key} cannot be used", key, "an object", value)
        return Fields(value, name=self.name, path=f"{self.path}{key}.")


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
