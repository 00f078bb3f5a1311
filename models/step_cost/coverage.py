"""What of a deployment has never been measured, so that its prediction must be wider and cannot be decisive?

The measurements behind the constants are data/measurements: dense 16-bit models of 4B, 8B and 32B on one H200 under
vLLM 0.26.0, CUDA graphs on, EAGLE-3 (k 3 and 5), a 1B draft model and n-gram on the 8B, and no speculation, at 1 to 256
sequences and prompts of 128 to 16k tokens. Everything else is an extrapolation of the physics and says so.
"""

from __future__ import annotations

from profiler.deployment import Deployment, Speculation

MEASURED_GPUS = ("H200",)
MEASURED_ENGINES = ("0.26",)
MEASURED_METHODS = ("eagle3", "draft_model", "ngram")
MEASURED_CONCURRENCY = 256
MEASURED_CONTEXT = 16_448  # 16,384 tokens in and half of 128 out

# Name -> what a reader is told. The order is the order of the bits.
GAPS: dict[str, str] = {
    "gpu": "no measurement on this GPU",
    "engine": "no measurement with this engine version",
    "method": "no measurement of this method's step cost",
    "tensor_parallel": "no measurement with tensor parallelism",
    "interconnect": "the interconnect of this GPU is not known",
    "experts": "no measurement of a mixture of experts",
    "quantization": "no measurement with quantised weights or cache",
    "eager": "no measurement without CUDA graphs",
    "attention": "no measurement of this kind of attention",
    "traffic": "no measurement of so many requests at once, or of contexts so long",
}
_BIT = {name: 1 << position for position, name in enumerate(GAPS)}


def coverage_gaps(deployment: Deployment, speculation: Speculation | None) -> int:
    """The gaps of one deployment as bits of GAPS; 0 where measurements cover it."""
    target, gpu = deployment.target, deployment.gpu
    gpu_words = gpu.name.upper().replace("-", " ").replace("_", " ").split()
    gaps = {
        "gpu": not any(name in gpu_words for name in MEASURED_GPUS),
        "engine": ".".join(deployment.engine_version.lstrip("v").split(".")[:2]) not in MEASURED_ENGINES,
        "method": speculation is not None and speculation.method not in MEASURED_METHODS,
        "tensor_parallel": deployment.tensor_parallel_size > 1,
        "interconnect": deployment.tensor_parallel_size > 1 and gpu.interconnect_bytes_per_s is None,
        "experts": bool(target.experts),
        "quantization": target.quantization is not None or deployment.kv_cache_dtype not in ("auto", target.dtype),
        "eager": deployment.enforce_eager,
        "attention": target.is_mla or target.kv_layers < target.num_layers,
    }
    return sum(_BIT[name] for name, missing in gaps.items() if missing)


def gap_names(gaps: int) -> tuple[str, ...]:
    """The names in GAPS of the bits that are set."""
    return tuple(name for name, bit in _BIT.items() if gaps & bit)


def gap_bit(name: str) -> int:
    """The bit of one gap."""
    return _BIT[name]
