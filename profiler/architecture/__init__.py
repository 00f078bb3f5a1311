"""What a model is, from its config alone: parameters, weight bytes, cache and FLOPs.

files      finds and reads config.json, params.json, hf_quant_config.json
read       one config to one Architecture
families   what each family does that its configs leave unsaid
fields     single fields under their many names, validated
layers     of which kind each layer is
attention, mixers, feedforward, uncommon, towers, heads
           what each part weighs and keeps
exclusions, quantization, quantization_config
           how many bytes each weight takes
sizing     sums by role
context    the longest context
architecture
           the result, and what follows from it for one step
"""

from profiler.architecture.architecture import Architecture
from profiler.architecture.files import ConfigFiles, load_architecture, read_config_file, read_config_files
from profiler.architecture.read import read_architecture

__all__ = [
    "Architecture",
    "ConfigFiles",
    "load_architecture",
    "read_architecture",
    "read_config_file",
    "read_config_files",
]
