"""Which modules does a list in a quantisation config name? Matching as checkpoints mean it.

Entries are full paths, prefixes of paths, bare module names ("lm_head", "gate"), globs ("model.layers.*.self_attn",
"mtp*") or regular expressions ("re:.*self_attn.*"). Wrappers ("model.", "language_model.") and family spellings
(feed_forward for mlp, shared_expert for shared_experts, qkv_proj for q_proj) differ between configs and are levelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from profiler.errors import ArchitectureError

_WRAPPERS: Final = frozenset({"model", "language_model", "transformer", "backbone", "text_model"})
_SPELLINGS: Final = (
    ("mlp.", "feed_forward."), ("mlp.", "block_sparse_moe."), ("mlp.", "mixer."), ("self_attn.", "mixer."),
    ("mamba.", "mixer."), ("self_attn.", "attn."), ("self_attn.", "attention."), ("shared_experts", "shared_expert"),
    ("mlp.", "moe."), ("self_attn.", "linear_attn."),
)  # fmt: skip
_FUSED: Final = {
    "q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
    "in_proj_qkv": "in_proj_qkvz", "in_proj_z": "in_proj_qkvz", "in_proj_b": "in_proj_ba", "in_proj_a": "in_proj_ba",
}  # fmt: skip
_RENAMED: Final = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}


class ModuleNames:
    """A list of modules, asked with `in` for one module's path ("model.layers.3.mlp.down_proj")."""

    def __init__(self, entries: Iterable[object]) -> None:
        self._plain: set[str] = set()
        self.tells_layers_apart = False  # whether an entry names a layer by its number
        patterns: list[str] = []
        for entry in entries:
            text = str(entry)
            self.tells_layers_apart = self.tells_layers_apart or re.search(r"\d", text) is not None
            if text.startswith("re:"):
                patterns.append(f"(?:{text[3:]})")
            elif "*" in text or "?" in text:
                # A glob names modules and all that lies under them, behind any wrapper.
                body = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in _unwrapped(text))
                patterns.append(rf"(?:(?:model\.|language_model\.)*{body}(?:\..*)?$)")
            else:
                self._plain.add(_unwrapped(text))
        self._lengths = sorted({entry.count(".") + 1 for entry in self._plain})
        try:
            self._pattern = re.compile("|".join(patterns)) if patterns else None
        except re.error as error:
            raise ArchitectureError(
                "A quantisation config names modules by a regular expression that cannot be read", got=str(error),
                field="quantization_config",
            ) from None  # fmt: skip

    def __bool__(self) -> bool:
        return bool(self._plain) or self._pattern is not None

    def __contains__(self, path: str) -> bool:
        return bool(self) and any(self._names(spelling) for spelling in _spellings(path))

    def _names(self, path: str) -> bool:
        if self._plain:
            parts = _unwrapped(path).split(".")
            for length in self._lengths:
                for first in range(len(parts) - length + 1):
                    if ".".join(parts[first : first + length]) in self._plain:
                        return True
        return self._pattern is not None and self._pattern.match(path) is not None


def _unwrapped(path: str) -> str:
    parts = path.split(".")
    first = 0
    while first < len(parts) - 1 and parts[first] in _WRAPPERS:
        first += 1
    return ".".join(parts[first:])


def _spellings(path: str) -> list[str]:
    found = [path]
    found += [path.replace(ours, theirs) for ours, theirs in _SPELLINGS if ours in path]
    head, _, leaf = path.rpartition(".")
    if leaf in _FUSED:
        found.append(f"{head}.{_FUSED[leaf]}")
    if leaf in _RENAMED:
        found += [f"{spelling.rpartition('.')[0]}.{_RENAMED[leaf]}" for spelling in list(found) if "." in spelling]
    return found
