"""What is a model made of? Named weights and layers that hold a cache: the two records that every count is taken from.

A reader of configs yields weights (with the names that checkpoints give their modules, since quantisation configs
exclude modules by name) and layers; `Architecture` only sums them. Nothing is estimated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WeightRole = Literal[
    "embedding",  # token table: looked up, not multiplied; read as the output head too where tied
    "position",  # learned positions and other tables that are only looked up
    "lm_head",
    "attention",
    "mixer",  # Mamba, linear attention, short convolution: what stands where attention would
    "mlp",
    "router",
    "shared_expert",
    "expert",  # routed: only those that a pass's tokens choose are read
    "projection",  # a drafter head's fc over the target's hidden states, a multi-token module's eh_proj
    "norm",
    "vision",  # image or audio tower and its projector: loaded, not read in decoding
]

LayerKind = Literal[
    "full", "sliding", "chunked", "mla", "sparse", "compressed", "cross", "shared", "gated_delta", "kda", "lightning",
    "mamba", "mamba2", "conv",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weight:
    """`count` equal tensors of one module.

    `inputs` is the width that a matrix multiplies, 0 for a vector, table or convolution kernel, which no quantisation
    touches. `size` is the number of elements of one tensor. `name` is the module's path in the checkpoint.
    """

    name: str
    role: WeightRole
    size: int
    inputs: int = 0
    count: int = 1

    @property
    def parameters(self) -> int:
        """Elements of all the tensors."""
        return self.size * self.count


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """All weights of one role (and, for routed experts, of one expert count), as loaded.

    `experts` and `experts_per_token` are 0 except for routed experts, whose `parameters` and `size_bytes` are those of
    all the experts together. `borrowed` weights belong to the target: a head reads them but does not load them.
    """

    role: WeightRole
    parameters: int
    size_bytes: float
    matmul_parameters: int
    experts: int = 0
    experts_per_token: float = 0
    borrowed: bool = False


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """`count` layers that hold the same cache.

    kv_elements: elements kept per entry and layer (keys and values together; MLA's latent and rope part).
    tokens_per_entry: tokens that share one entry (1 but for compressed attention).
    window: tokens kept, None where the cache grows without bound.
    attended: entries that one token attends to at most, where all are kept (sparse and chunked attention).
    state_bytes: constant bytes per sequence and layer (recurrent and convolution states).
    score_width: query heads x (key size + value size); attending to one entry costs 2 x score_width FLOPs.
    index_bytes: bytes per entry and layer of a sparse attention's own key cache, 0 without one.
    """

    kind: LayerKind
    count: int = 1
    kv_elements: int = 0
    window: int | None = None
    attended: int | None = None
    tokens_per_entry: int = 1
    state_bytes: int = 0
    score_width: int = 0
    index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """One layer as read: its weights (names relative to the layer) and what it keeps."""

    weights: tuple[Weight, ...] = ()
    caches: tuple[LayerGroup, ...] = ()


def matrix(
    name: str, role: WeightRole, inputs: int, outputs: int, *, bias: bool = False, count: int = 1
) -> list[Weight]:
    """The weights of one linear module: the matrix, and its bias where it has one."""
    weights = [Weight(name, role, inputs * outputs, inputs, count)]
    if bias:
        weights.append(Weight(name + ".bias", role, outputs, 0, count))
    return weights


def vector(name: str, role: WeightRole, size: int, *, count: int = 1) -> Weight:
    """A weight that no quantisation touches: a norm, a bias, a table, a convolution kernel."""
    return Weight(name, role, size, 0, count)
