"""What is known by name: models, drafter heads and accelerators, each with source and date."""

from profiler.catalog.drafters import DrafterEntry, drafters_for
from profiler.catalog.gpus import GpuEntry, find_gpu, gpu_from_numbers, gpus
from profiler.catalog.models import HeadEntry, ModelEntry, find_model, heads, load_model, models

__all__ = [
    "DrafterEntry",
    "GpuEntry",
    "HeadEntry",
    "ModelEntry",
    "drafters_for",
    "find_gpu",
    "find_model",
    "gpu_from_numbers",
    "gpus",
    "heads",
    "load_model",
    "models",
]
