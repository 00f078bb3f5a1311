"""What a model is, from its config alone: parameters, weights, cache and FLOPs (see `read` for what is understood)."""

from profiler.architecture.architecture import Architecture
from profiler.architecture.read import read_architecture

__all__ = ["Architecture", "read_architecture"]
