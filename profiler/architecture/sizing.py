"""From single weights to groups: summing what is alike, sizing each module as the checkpoint stores it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from profiler.architecture.feedforward import Experts
from profiler.architecture.parts import Block, LayerGroup, Weight, WeightGroup, WeightRole
from profiler.architecture.quantization import Quantization

_HALF = 2  # bytes of an unquantised element: vLLM serves in bfloat16 or float16


def group_weights(
    model: Iterable[Weight], blocks: Mapping[tuple[int, Block], int], stored: Quantization | None,
    experts: Experts | None,
) -> tuple[WeightGroup, ...]:  # fmt: skip
    """Sum all weights by role. `blocks` maps (layer index, layer) to how often it stands in the model."""
    sums: dict[WeightRole, list[float]] = {}

    def add(weight: Weight, path: str, times: int) -> None:
        scheme = stored.scheme(path, weight.role) if stored is not None and weight.inputs else None
        size = weight.parameters * _HALF if scheme is None else scheme.size_bytes(weight)
        total = sums.setdefault(weight.role, [0, 0.0, 0])
        total[0] += weight.parameters * times
        total[1] += size * times
        total[2] += weight.parameters * times if weight.inputs else 0

    for weight in model:
        add(weight, weight.name, 1)
    for (index, block), times in blocks.items():
        for weight in block.weights:
            add(weight, f"model.layers.{index}.{weight.name}", times)
    return tuple(
        WeightGroup(
            role, int(parameters), size, int(matmul), experts.count if experts and role == "expert" else 0,
            experts.per_token if experts and role == "expert" else 0,
        )
        for role, (parameters, size, matmul) in sums.items()
    )  # fmt: skip


def group_layers(blocks: Mapping[tuple[int, Block], int]) -> tuple[LayerGroup, ...]:
    """Sum the caches that are alike."""
    counts: Counter[LayerGroup] = Counter()
    for (_, block), times in blocks.items():
        for cache in block.caches:
            counts[cache] += times
    return tuple(replace(cache, count=count) for cache, count in counts.items())
