"""Which models, GPU and settings does a request mean?

Names become facts: catalog entries, or architectures read from a config inside the request. Refused: names that no
catalog knows (with the nearest that it does), a drafter head as a target, figures for a GPU that are incomplete. Paths
are not names: a request may come over a network, so nothing here opens a file that it names.
"""

from __future__ import annotations

from dataclasses import replace

from advisor.request import DeploymentSpec, GpuSpec, ModelSpec
from profiler.architecture import Architecture, read_architecture
from profiler.catalog import find_gpu, find_model, gpu_from_numbers
from profiler.catalog.models import find_entry
from profiler.compatibility import default_gpu_memory_utilization
from profiler.deployment import Deployment, Gpu
from profiler.errors import ArchitectureError, DeploymentError, UnknownNameError

GIB = 2**30


def resolve_deployment(spec: DeploymentSpec) -> Deployment:
    """The deployment as facts; InputError with the dotted place of what cannot be resolved."""
    target = resolve_model(spec.target, field="deployment.target")
    if target.is_drafter_head:
        raise DeploymentError(
            f"{target.name} is a drafter head ({target.head_kind}) and cannot serve by itself",
            expected="the model that it drafts for",
            remedy="give the head as deployment.speculation.draft (--draft)",
            field="deployment.target",
        )
    return Deployment(
        target=target,
        gpu=resolve_gpu(spec.gpu),
        tensor_parallel_size=spec.tensor_parallel_size,
        gpu_memory_utilization=spec.gpu_memory_utilization or default_gpu_memory_utilization(spec.engine_version),
        max_model_len=spec.max_model_len,
        max_num_seqs=spec.max_num_seqs,
        max_num_batched_tokens=spec.max_num_batched_tokens,
        enable_prefix_caching=spec.enable_prefix_caching,
        enforce_eager=spec.enforce_eager,
        kv_cache_dtype=spec.kv_cache_dtype,
        engine_version=spec.engine_version,
    )


def resolve_model(spec: ModelSpec, *, field: str) -> Architecture:
    """An architecture from the config that the request gives, else from the catalog."""
    config, name = spec.config, spec.name
    if config is None and spec.quantization is None:
        return find_model(spec.name, field=field)
    if config is None:
        find_model(spec.name, field=field)  # an unknown name is told with its neighbours
        entry = find_entry(spec.name)
        assert entry is not None
        config, name = dict(entry.config), entry.name
    try:
        return read_architecture(
            config, name=name, quantization=spec.quantization, hf_quant_config=spec.hf_quant_config
        )
    except ArchitectureError as error:
        place = f"{field}.config" if error.field is None else f"{field}.config.{error.field}"
        raise ArchitectureError(
            error.what, expected=error.expected, got=error.got, remedy=error.remedy, field=place
        ) from error


def resolve_gpu(spec: GpuSpec) -> Gpu:
    """A GPU of the catalog, its figures replaced by those given; or one of the request's own, all figures given."""
    figures = (spec.memory_gib, spec.bandwidth_gb_per_s, spec.bf16_tflops)
    if None not in figures:
        memory, bandwidth, rate = (float(f) for f in figures if f is not None)
        return gpu_from_numbers(
            name=spec.name,
            memory_gib=memory,
            bandwidth_gb_per_s=bandwidth,
            bf16_tflops=rate,
            fp8_tflops=spec.fp8_tflops,
            field="deployment.gpu",
        )
    try:
        gpu = find_gpu(spec.name, field="deployment.gpu")
    except UnknownNameError as error:
        if figures == (None, None, None):
            raise
        names = ("memory_gib", "bandwidth_gb_per_s", "bf16_tflops")
        missing = [name for name, figure in zip(names, figures, strict=True) if figure is None]
        raise DeploymentError(
            f"The GPU {spec.name!r} is not in the catalog and not all its figures are given",
            expected="all of " + ", ".join(names),
            got="no " + ", no ".join(missing),
            field=f"deployment.gpu.{missing[0]}",
        ) from error
    if spec.memory_gib is not None:
        gpu = replace(gpu, memory_bytes=round(spec.memory_gib * GIB))
    if spec.bandwidth_gb_per_s is not None:
        gpu = replace(gpu, bandwidth_bytes_per_s=spec.bandwidth_gb_per_s * 1e9)
    if spec.bf16_tflops is not None:
        gpu = replace(gpu, bf16_flops_per_s=spec.bf16_tflops * 1e12)
    if spec.fp8_tflops is not None:
        gpu = replace(gpu, fp8_flops_per_s=spec.fp8_tflops * 1e12)
    return gpu
