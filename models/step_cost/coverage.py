"""What of a deployment has never been measured, so that its prediction must be wider and cannot be decisive?

What was measured is part of the trained artefact, since it comes with the data: `specworth train` on a user's own
sweeps covers the user's GPU, engine and methods. Everything else is an extrapolation of the physics and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from profiler.deployment import Deployment, Speculation

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
    "size": "no measurement of a model so small or so large",
}
_BIT = {name: 1 << position for position, name in enumerate(GAPS)}


@dataclass(frozen=True, slots=True)
class Measured:
    """What the cells that the constants were fitted to have among them."""

    gpus: frozenset[str] = frozenset()  # names as the catalog spells them
    engines: frozenset[str] = frozenset()  # minor versions of vLLM: "0.26"
    methods: frozenset[str] = frozenset()
    tensor_parallel_sizes: frozenset[int] = frozenset({1})
    kinds: frozenset[str] = frozenset()  # of GAPS: "experts", "quantization", "eager", "attention" where measured
    least_parameters: float = 0.0  # of the targets
    most_parameters: float = 0.0
    concurrency: float = 0.0  # the largest
    context_tokens: float = 0.0  # the longest mean context

    @classmethod
    def of(
        cls, engines: Iterable[tuple[Deployment, Speculation | None]], *, concurrency: float, context_tokens: float
    ) -> Measured:
        """What a list of engines covers."""
        ran = list(engines)
        return cls(
            gpus=frozenset(deployment.gpu.name for deployment, _ in ran),
            engines=frozenset(_minor(deployment.engine_version) for deployment, _ in ran),
            methods=frozenset(speculation.method for _, speculation in ran if speculation is not None),
            tensor_parallel_sizes=frozenset(deployment.tensor_parallel_size for deployment, _ in ran),
            kinds=frozenset(name for deployment, _ in ran for name, odd in _kinds(deployment).items() if odd),
            least_parameters=float(min(deployment.target.parameters for deployment, _ in ran)),
            most_parameters=float(max(deployment.target.parameters for deployment, _ in ran)),
            concurrency=float(concurrency),
            context_tokens=float(context_tokens),
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Measured:
        """From the artefact's mapping; KeyError names what is missing."""
        sets: dict[str, Any] = {name: frozenset(document[name]) for name in _SETS}
        numbers: dict[str, Any] = {name: float(document[name]) for name in _NUMBERS}
        return cls(**sets, **numbers)

    def as_json(self) -> dict[str, Any]:
        """For the artefact; sorted, so that equal data give equal files."""
        sets: dict[str, Any] = {name: sorted(getattr(self, name)) for name in _SETS}
        return sets | {name: getattr(self, name) for name in _NUMBERS}


_SETS = ("gpus", "engines", "methods", "tensor_parallel_sizes", "kinds")
_NUMBERS = ("least_parameters", "most_parameters", "concurrency", "context_tokens")
_BEYOND = 2.0  # a target twice as large as the largest, or half as large as the smallest, is still like them


def coverage_gaps(deployment: Deployment, speculation: Speculation | None, measured: Measured) -> int:
    """The gaps of one deployment as bits of GAPS; 0 where measurements cover it."""
    gpu, ranks = deployment.gpu, deployment.tensor_parallel_size
    parameters = deployment.target.parameters
    gaps = {
        "gpu": _words(gpu.name) not in {_words(name) for name in measured.gpus},
        "engine": _minor(deployment.engine_version) not in measured.engines,
        "method": speculation is not None and speculation.method not in measured.methods,
        "tensor_parallel": ranks not in measured.tensor_parallel_sizes,
        "interconnect": ranks > 1 and gpu.interconnect_bytes_per_s is None,
        "size": not measured.least_parameters / _BEYOND <= parameters <= measured.most_parameters * _BEYOND,
    } | {name: odd and name not in measured.kinds for name, odd in _kinds(deployment).items()}
    return sum(_BIT[name] for name, missing in gaps.items() if missing)


def _kinds(deployment: Deployment) -> dict[str, bool]:
    """What sets a deployment apart from a dense 16-bit model under CUDA graphs."""
    target = deployment.target
    return {
        "experts": bool(target.experts),
        "quantization": target.quantization is not None or deployment.kv_cache_dtype not in ("auto", target.dtype),
        "eager": deployment.enforce_eager,
        "attention": target.is_mla or target.kv_layers < target.num_layers,
    }


def _words(gpu: str) -> frozenset[str]:
    """A GPU's name without the maker's, the memory's and the form factor's spelling."""
    words = gpu.upper().replace("-", " ").replace("_", " ").split()
    return frozenset(
        word
        for word in words
        if not word.startswith(("NVIDIA", "SXM", "GPU", "HBM")) and not word.endswith(("GB", "GIB"))
    )


def _minor(version: str) -> str:
    return ".".join(version.lstrip("v").split(".")[:2])


def gap_names(gaps: int) -> tuple[str, ...]:
    """The names in GAPS of the bits that are set."""
    return tuple(name for name, bit in _BIT.items() if gaps & bit)


def gap_bit(name: str) -> int:
    """The bit of one gap."""
    return _BIT[name]
