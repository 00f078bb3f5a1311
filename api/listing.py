"""What do the catalogs hold? Models, drafter heads and accelerators, listed with their sources for people and programs.

Sizes here are those that the architecture's own config gives, the same that every prediction uses.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from profiler.catalog import GpuEntry, HeadEntry, ModelEntry, gpus, heads, models
from profiler.catalog.names import match_key


class ListedModel(BaseModel):
    """One model or drafter head."""

    model_config = ConfigDict(frozen=True)

    name: str
    aliases: list[str]
    kind: Literal["model", "head"]
    method: str | None = Field(description="How a head drafts; null for models")
    parameters: int
    active_parameters: int = Field(description="Touched by one token; fewer than all in mixtures of experts")
    weight_bytes: int
    kv_bytes_per_token: int = Field(description="Over the layers whose cache grows with the context")
    max_position_embeddings: int | None
    targets: list[str] = Field(description="Models that a head was trained for")
    trained_context: int | None = Field(description="Tokens of a head's training sequences, where published")
    source: str
    date: str
    fidelity: str = Field(description="checked: against a stored copy of the published config; recalled: by size alone")


class ListedGpu(BaseModel):
    """One accelerator; rates are dense."""

    model_config = ConfigDict(frozen=True)

    name: str
    aliases: list[str]
    memory_bytes: int
    memory_basis: str = Field(description="measured, reported or nominal")
    bandwidth_bytes_per_s: float
    bf16_flops_per_s: float
    fp8_flops_per_s: float | None
    source: str
    date: str


def _model(entry: ModelEntry | HeadEntry) -> ListedModel:
    architecture = entry.architecture
    head = entry if isinstance(entry, HeadEntry) else None
    return ListedModel(
        name=entry.name,
        aliases=list(entry.aliases),
        kind="head" if head else "model",
        method=head.method if head else None,
        parameters=architecture.parameters,
        active_parameters=architecture.active_parameters,
        weight_bytes=architecture.weight_bytes,
        kv_bytes_per_token=architecture.kv_bytes_per_token(),
        max_position_embeddings=architecture.max_position_embeddings,
        targets=list(head.targets) if head else [],
        trained_context=head.trained_context if head else None,
        source=entry.source,
        date=entry.date,
        fidelity=entry.fidelity,
    )


def _gpu(entry: GpuEntry) -> ListedGpu:
    gpu = entry.gpu
    return ListedGpu(
        name=gpu.name,
        aliases=list(entry.aliases),
        memory_bytes=gpu.memory_bytes,
        memory_basis=entry.memory_basis,
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s,
        bf16_flops_per_s=gpu.bf16_flops_per_s,
        fp8_flops_per_s=gpu.fp8_flops_per_s,
        source=entry.source,
        date=entry.date,
    )


def _matches(search: str, *names: str) -> bool:
    key = match_key(search)
    return any(key in match_key(name) for name in names)


def listed_models(search: str = "") -> list[ListedModel]:
    """Models and heads whose name, alias or target has `search` in it, whatever its case and separators."""
    entries: tuple[ModelEntry | HeadEntry, ...] = (*models(), *heads())
    return [
        _model(entry)
        for entry in entries
        if _matches(search, entry.name, *entry.aliases, *(entry.targets if isinstance(entry, HeadEntry) else ()))
    ]


def listed_gpus(search: str = "") -> list[ListedGpu]:
    """Accelerators whose name or alias has `search` in it, whatever its case and separators."""
    return [_gpu(entry) for entry in gpus() if _matches(search, entry.gpu.name, *entry.aliases)]
