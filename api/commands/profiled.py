"""What does `specworth advise --profile` take from a profile? Each option that was not given and that it tells.

The profile itself goes into the request as evidence. Over HTTP the same file is the request's `evidence.profile`; there
no option is filled in but the speculation and the traffic, since names are no paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from api.body import read_object
from api.findings import field_errors
from profiler.catalog import find_gpu
from profiler.errors import EvidenceError, InputError, UnknownNameError
from profiler.probe.profile import SCHEMA_VERSION, Profile

_MAX_BYTES = 2**26  # thousands of waves; a profile of a session has some ten
_MAX_DEPTH = 64
# Option of ours -> option of `vllm serve` that says the same.
_SERVED = {
    "tensor_parallel_size": ("--tensor-parallel-size", "-tp"),
    "gpu_memory_utilization": ("--gpu-memory-utilization",),
    "max_model_len": ("--max-model-len",),
    "max_num_seqs": ("--max-num-seqs",),
    "max_num_batched_tokens": ("--max-num-batched-tokens",),
    "kv_cache_dtype": ("--kv-cache-dtype",),
    "quantization": ("--quantization", "-q"),
}
_WHOLE = ("tensor_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens")


def with_profile(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The options with what the profile tells filled in, and the profile for the request; None without one.

    Raises InputError where target or GPU are neither given nor told.
    """
    filled, content = filled_in(options)
    for name in ("target", "gpu"):
        if filled[name] is None:
            remedy = "give the GPU's figures: the profile was measured on a CPU" if _on_cpu(content, name) else None
            raise InputError(f"Missing option '--{name}'", remedy=remedy or "see specworth advise --help")
    return filled, content


def filled_in(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The same, whether or not that is all that is needed."""
    filled = dict(options)
    if options.get("profile") is None:
        return filled, None
    if options["evidence"] is not None:
        raise InputError("--evidence and --profile: expected one of them, got both")
    content, profile = read_profile(options["profile"])
    _fill(filled, profile)
    return filled, content


def read_profile(path: Path, *, named: str = "--profile") -> tuple[dict[str, Any], Profile]:
    """A profile file, as JSON and checked. Raises EvidenceError where it is none, or of another version.

    named: where the path was given.
    """
    try:
        with path.open("rb") as source:
            text = source.read(_MAX_BYTES)
    except OSError as error:
        got = (error.strerror or "an error").lower()
        raise EvidenceError(f"{named}: {path} cannot be read", expected="a profile.json", got=got) from None
    content = read_object(text, max_depth=_MAX_DEPTH, what=f"{named}: {path}")
    if content.get("kind") != "specworth.profile":
        remedy = "make one with specworth profile"
        raise EvidenceError(f"{named}: {path} is no profile", expected="what specworth profile wrote", remedy=remedy)
    if content.get("schema_version") != SCHEMA_VERSION:
        raise EvidenceError(
            f"{named}: {path} is of another version of specworth",
            expected=f"schema version {SCHEMA_VERSION}",
            got=repr(content.get("schema_version"))[:80],
            remedy="measure again",
        )
    try:
        return content, Profile.model_validate(content)
    except ValidationError as error:
        first = field_errors(error.errors())[0]
        raise EvidenceError(
            f"{named}: {path} is damaged at {first.field}", expected=first.expected, got=first.got
        ) from None


def _fill(options: dict[str, Any], profile: Profile) -> None:
    """Options that were not given, from what was measured."""
    from profiler.probe.environment import argument  # with it come HTTP clients, for which plain advice need not wait

    there, probed = profile.environment, profile.speculation
    told: dict[str, Any] = {
        "target": profile.target if not profile.target.startswith("(") else None,
        "gpu": _catalogued(there.gpus[0]) if there.gpus else None,
        "engine_version": there.engine_version,
    }
    for name, spellings in _SERVED.items():
        value = argument(there.serve_arguments, *spellings)
        if value is not None and (name not in _WHOLE or value.isdecimal()):
            told[name] = int(value) if name in _WHOLE else value
    if isinstance(told.get("gpu_memory_utilization"), str):
        told["gpu_memory_utilization"] = float(told["gpu_memory_utilization"])
    if told.get("max_model_len") is None:
        told["max_model_len"] = there.max_model_len
    if options["method"] is None and options["draft"] is None and options["num_speculative_tokens"] is None:
        told |= {
            "method": probed.method,
            "draft": probed.draft,
            "num_speculative_tokens": probed.num_speculative_tokens,
        }
        told["draft_sample_method"] = (probed.config or {}).get("draft_sample_method")
    for name, value in told.items():
        if options.get(name) is None and value is not None:
            options[name] = value
    if "--enforce-eager" in there.serve_arguments:
        options["enforce_eager"] = True


def _catalogued(gpu: str) -> str | None:
    try:
        return find_gpu(gpu).name
    except UnknownNameError:
        return None


def _on_cpu(content: Mapping[str, Any] | None, name: str) -> bool:
    return name == "gpu" and content is not None and content["environment"].get("platform") == "cpu"
