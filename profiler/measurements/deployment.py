"""Which deployment was it? The Deployment and Speculation of a measured engine, from its row and the grid's shapes.

Models are read from data/grids/shapes.yaml, whose facts the engine's model folders were written from. An EAGLE-3 head
that was loaded with dummy weights before protocol 2 drafts with the target's output layer (see `drafter_lm_head`): its
architecture then has the target's vocabulary, as it ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from profiler.architecture import Architecture, read_architecture
from profiler.catalog import find_gpu
from profiler.deployment import Deployment, Method, Speculation
from profiler.measurements.table import MeasurementsError, Row

Shapes = Mapping[str, Mapping[str, Any]]


def read_shapes(grids: Path) -> Shapes:
    """The models' dimensions by name, from the grids' folder."""
    path = grids / "shapes.yaml"
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, yaml.YAMLError) as error:
        raise MeasurementsError(f"cannot read {path}", expected="the grids' shapes", got=str(error)) from error
    return cast(Shapes, loaded)


def measured_deployment(engine: Row, shapes: Shapes) -> tuple[Deployment, Speculation | None]:
    """What a row of engines.csv ran; MeasurementsError where the engine never came up or its shape is not known."""
    if engine["target"] is None or engine["engine_version"] is None:
        raise MeasurementsError(f"{engine['engine_id']} never came up", got=engine["error"])
    arguments = engine["arguments"] or {}
    deployment = Deployment(
        target=_architecture(engine["target"], shapes, quantization=arguments.get("quantization")),
        gpu=find_gpu((engine["gpu"] or "").removeprefix("NVIDIA ")),
        tensor_parallel_size=engine["tensor_parallel_size"],
        gpu_memory_utilization=engine["gpu_memory_utilization"],
        max_model_len=engine["max_model_len"],
        max_num_seqs=engine["max_num_seqs"],
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        enable_prefix_caching=bool(engine["enable_prefix_caching"]),
        enforce_eager=bool(arguments.get("enforce_eager", False)),
        kv_cache_dtype=engine["kv_cache_dtype"],
        engine_version=engine["engine_version"],
    )
    config = arguments.get("speculative_config")
    if not config:
        return deployment, None
    draft = None
    if engine["drafter"]:
        shape = dict(shapes.get(engine["drafter"], {}))
        if shape and engine["drafter_lm_head"] == "target":
            shape["draft_vocab_size"] = shapes[engine["target"]]["vocab_size"]
        draft = _architecture(engine["drafter"], {engine["drafter"]: shape} if shape else {})
    return deployment, Speculation(
        method=cast(Method, engine["method"]),
        num_speculative_tokens=config["num_speculative_tokens"],
        draft=draft,
        draft_sample_method=config.get("draft_sample_method", "greedy"),
        prompt_lookup_max=config.get("prompt_lookup_max"),
        prompt_lookup_min=config.get("prompt_lookup_min"),
    )


def _architecture(name: str, shapes: Shapes, quantization: str | None = None) -> Architecture:
    if name not in shapes:
        raise MeasurementsError(
            "a measured model is not among the shapes", expected=", ".join(sorted(shapes)) or "its name", got=name
        )
    return read_architecture(shapes[name], name=name, quantization=quantization)
