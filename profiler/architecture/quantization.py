"""How many bytes does each weight take as loaded? Quantisation configs, scales and exceptions included.

Bytes of a quantised matrix = elements x bits / 8, plus one scale (and zero point) per group, block, row or tensor.
What a config excludes stays 16 bit, as do embeddings, routers, norms and towers in every method, and the output head
unless it is named. Methods that are not known here, and configs that do not say how many bits, are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from profiler.architecture.exclusions import ModuleNames
from profiler.architecture.parts import Weight, WeightRole

_NEVER: Final[frozenset[WeightRole]] = frozenset({"embedding", "position", "router", "norm", "vision"})


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one matrix is stored.

    group: inputs that share a scale (None: one per tensor; 0: one per output row).
    block: side of the square that shares a scale, for block-wise fp8.
    zero_bits: bits of a zero point beside each scale. row_index_bytes: GPTQ's g_idx per input.
    activations: whether the activations are cut to 8 bits or fewer too, so that the product runs at that rate.
    """

    bits: float
    group: int | None = None
    scale_bytes: float = 4
    zero_bits: float = 0
    block: int | None = None
    row_index_bytes: int = 0
    activations: bool = False

    def size_bytes(self, weight: Weight) -> float:
        """Bytes of one module's tensors."""
        elements = weight.parameters
        total = elements * self.bits / 8
        if self.block:
            return total + elements / self.block**2 * self.scale_bytes
        if self.group is None:
            return total + weight.count * self.scale_bytes
        scales = elements / (self.group or weight.inputs)
        return (
            total
            + scales * (self.scale_bytes + self.zero_bits / 8)
            + weight.count * weight.inputs * self.row_index_bytes
        )


@dataclass(frozen=True)
class Quantization:
    """A method under vLLM's name, and the scheme of each module.

    default: of every linear module that nothing else names; None where only named modules are quantised.
    named: schemes of modules that the config names, first match wins. experts: overrides `default` for routed experts;
    `experts_only` keeps all else in 16 bit.
    """

    name: str
    default: Scheme | None
    named: Sequence[tuple[ModuleNames, Scheme | None]] = ()
    excluded: ModuleNames = field(default_factory=lambda: ModuleNames(()))
    experts: Scheme | None = None
    experts_only: bool = False
    head: bool = False
    kv_cache: str | None = None
    notes: tuple[str, ...] = ()

    def scheme(self, path: str, role: WeightRole) -> Scheme | None:
        """The scheme of one module, None where it stays 16 bit."""
        if role in _NEVER:
            return None
        for names, scheme in self.named:
            if path in names:
                return scheme
        if path in self.excluded or (role == "lm_head" and not self.head):
            return None
        if role == "expert" and self.experts is not None:
            return self.experts
        return None if self.experts_only else self.default

    def leaves_out(self, path: str) -> bool:
        """Whether the config excludes this module by name."""
        return path in self.excluded or any(scheme is None and path in names for names, scheme in self.named)

    @property
    def compute_dtype(self) -> Literal["bf16", "fp8"]:
        """Rate of the main products: fp8 where the activations are cut too (int8 runs at the same rate)."""
        main = self.default or self.experts or next((s for _, s in self.named if s is not None), None)
        return "fp8" if main is not None and main.activations and not self.experts_only else "bf16"

    @property
    def is_uniform(self) -> bool:
        """Whether every layer is treated alike, so that one layer's bytes hold for all of its kind."""
        return not any(names.tells_layers_apart for names in (self.excluded, *(names for names, _ in self.named)))
