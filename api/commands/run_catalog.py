"""`specworth catalog`: lists what the catalogs hold, with where each number comes from."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel

from api.listing import listed_gpus, listed_models
from api.report.content import Table
from api.report.terminal import print_table
from api.report.wording import gib


def run_models(search: str, *, as_json: bool) -> int:
    """List models and drafter heads; 0, whether or not any match."""
    found = listed_models(search)
    if as_json:
        _print_json("models", found)
        return 0
    rows = tuple(
        (
            model.name,
            model.method or "model",
            f"{model.parameters / 1e9:.2f}",
            f"{model.active_parameters / 1e9:.2f}" if model.active_parameters != model.parameters else "",
            gib(model.weight_bytes),
            f"{model.kv_bytes_per_token / 1024:,.0f}",
            model.date,
        )
        for model in found
    )
    header = ("name", "kind", "billion", "active", "weights GiB", "KV KiB/token", "published")
    print_table(_title(f"{len(rows)} models and drafter heads", search), Table(header, rows), _NOTES if rows else ())
    return 0


def run_gpus(search: str, *, as_json: bool) -> int:
    """List accelerators; 0, whether or not any match."""
    found = listed_gpus(search)
    if as_json:
        _print_json("gpus", found)
        return 0
    rows = tuple(
        (
            gpu.name,
            f"{gib(gpu.memory_bytes)}",
            f"{gpu.bandwidth_bytes_per_s / 1e9:,.0f}",
            f"{gpu.bf16_flops_per_s / 1e12:,.0f}",
            f"{gpu.fp8_flops_per_s / 1e12:,.0f}" if gpu.fp8_flops_per_s else "none",
        )
        for gpu in found
    )
    header = ("name", "GiB", "GB/s", "bf16 TFLOP/s", "fp8 TFLOP/s")
    print_table(_title(f"{len(rows)} GPUs", search), Table(header, rows), _NOTES if rows else ())
    return 0


_NOTES = ("--json has sources, dates and aliases.",)


def _title(what: str, search: str) -> str:
    return f"{what} with {search!r} in their names" if search else what


def _print_json(key: str, found: Sequence[BaseModel]) -> None:
    print(json.dumps({key: [one.model_dump(mode="json") for one in found]}, indent=2, ensure_ascii=False))
