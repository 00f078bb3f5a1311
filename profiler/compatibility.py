"""What can this vLLM version do: methods, options, defaults, asynchronous scheduling, the model runner?

Facts of the engine's own sources, in compatibility.yaml. A version that nobody has read (older, newer) gets a clear
statement instead of a guess: `None` from the questions, a sentence from `version_statement`; text that is no version is
refused.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from profiler.architecture import Architecture
from profiler.catalog.names import nearest_names
from profiler.deployment import Gpu
from profiler.errors import DeploymentError, UnknownNameError

GIB = 2**30
Version = tuple[int, int, int]

# vllm/v1/sample/logits_processor/__init__.py, 0.17 to 0.32: "min_p and logit_bias parameters won't work with
# speculative decoding". Before (is_spec_decode_unsupported) requests with min_p were served without drafts.
IGNORED_SAMPLING: tuple[str, ...] = ("min_p", "logit_bias")

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:\.?(?:a|b|rc|dev|post)\d+)*(?:\+[\w.]+)?", re.IGNORECASE)


@functools.lru_cache(maxsize=1)
def _facts() -> dict[str, Any]:
    text = Path(__file__).with_name("compatibility.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded


@functools.cache
def parse_version(engine_version: str) -> Version:
    """Major, minor and patch of a vLLM version ("0.26", "v0.26.0rc1", "0.32.0+cpu"). Raises DeploymentError."""
    match = _VERSION.fullmatch(engine_version.strip())
    if match is None:
        raise DeploymentError(
            f"The engine version {engine_version!r} cannot be read",
            expected="a vLLM version such as 0.26.0",
            got=repr(engine_version),
            field="deployment.engine_version",
        )
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)


def is_known_version(engine_version: str) -> bool:
    """Whether the sources of this minor version have been read."""
    facts = _facts()
    first, last = parse_version(facts["first_known"]), parse_version(facts["last_known"])
    return first[:2] <= parse_version(engine_version)[:2] <= last[:2]


def version_statement(engine_version: str) -> str | None:
    """What a reader must know of a version that nobody has read; None for a known one."""
    if is_known_version(engine_version):
        return None
    facts = _facts()
    return (
        f"vLLM {engine_version} is not among the versions whose behaviour is known "
        f"({facts['first_known']} to {facts['last_known']}): its methods, options and defaults are not checked"
    )


def _within(ranges: list[dict[str, str]], version: Version) -> bool:
    return any(
        parse_version(r["since"]) <= version and ("until" not in r or version < parse_version(r["until"]))
        for r in ranges
    )


def _ranges(kind: Literal["methods", "options"], name: str, *, field: str) -> list[dict[str, str]]:
    known: dict[str, list[dict[str, str]]] = _facts()[kind]
    if name not in known:
        near = nearest_names(name, known)
        raise UnknownNameError(
            f"Unknown {'method' if kind == 'methods' else 'option'} {name!r} of speculative decoding",
            expected=("one of vLLM's; nearest: " + ", ".join(near)) if near else "one of " + ", ".join(known),
            field=field,
        )
    return known[name]


def supports(method: str, engine_version: str) -> bool | None:
    """Whether this version has the method; None where the version is not known. UnknownNameError for other methods."""
    return _supported(_ranges("methods", method, field="deployment.speculation.method"), engine_version)


def supports_option(option: str, engine_version: str) -> bool | None:
    """Whether this version's speculative config has the field; None where the version is not known."""
    return _supported(_ranges("options", option, field=f"deployment.speculation.{option}"), engine_version)


def _supported(ranges: list[dict[str, str]], engine_version: str) -> bool | None:
    version, first = parse_version(engine_version), parse_version(_facts()["first_known"])
    if is_known_version(engine_version):
        return _within(ranges, version)
    # What came after the first known version was not there before it.
    return False if version < first and all(parse_version(r["since"]) > first for r in ranges) else None


def method_name(method: str, target: Architecture, engine_version: str) -> str:
    """The method as this version's speculative config calls it: MTP had a name for each family before 0.11.1."""
    facts = _facts()["mtp_names"]
    if method != "mtp" or parse_version(engine_version) >= parse_version(facts["until"]):
        return method
    name: str = facts["families"].get(target.model_type, method)
    return name


def _spoken_ranges(ranges: list[dict[str, str]]) -> str:
    return " and ".join(
        f"from {r['since']} until before {r['until']}" if "until" in r else f"from {r['since']} on" for r in ranges
    )


def method_problem(method: str, engine_version: str) -> str | None:
    """Why this version cannot run the method, in a sentence; None where it can, or where nobody knows."""
    if supports(method, engine_version) is not False:
        return None
    ranges = _ranges("methods", method, field="deployment.speculation.method")
    return f"vLLM {engine_version} has no method {method}: it is there {_spoken_ranges(ranges)}"


def option_problem(option: str, engine_version: str) -> str | None:
    """Why this version refuses the option, in a sentence; None where it takes it, or where nobody knows."""
    if supports_option(option, engine_version) is not False:
        return None
    ranges = _ranges("options", option, field=f"deployment.speculation.{option}")
    return f"vLLM {engine_version} has no option {option}: it is there {_spoken_ranges(ranges)}"


def asynchronous_scheduling(method: str | None, engine_version: str) -> bool | None:
    """Whether asynchronous scheduling is on by default with this method (None: without speculation).

    None where the version is not known.
    """
    if not is_known_version(engine_version):
        return None
    facts, version = _facts()["asynchronous_scheduling"], parse_version(engine_version)
    if version < parse_version(facts["default_since"]):
        return False
    if method is None:
        return True
    since = facts["methods"].get(method)
    return since is not None and version >= parse_version(since)


def async_scheduling_lost(method: str, engine_version: str) -> bool:
    """Whether this version runs asynchronously without speculation and turns that off for the method."""
    return asynchronous_scheduling(None, engine_version) is True and (
        asynchronous_scheduling(method, engine_version) is False
    )


@dataclass(frozen=True, slots=True)
class BatchDefaults:
    """What `vllm serve` takes where the user says nothing."""

    max_num_seqs: int
    max_num_batched_tokens: int


def batch_defaults(gpu: Gpu, engine_version: str) -> BatchDefaults:
    """The API server's defaults for this GPU (EngineArgs.get_batch_defaults); offline use takes twice the tokens.

    A version beyond the known ones is treated as the last known one; `version_statement` says so.
    """
    if gpu.memory_bytes >= 160 * GIB and parse_version(engine_version) >= (0, 28, 0):
        return BatchDefaults(max_num_seqs=1024, max_num_batched_tokens=16384)
    # 0.8 does not look at the name; from 0.9 on an A100 gets the small defaults (vllm-project/vllm#17885).
    small_name = "a100" in gpu.name.lower() and parse_version(engine_version) >= (0, 9, 0)
    if gpu.memory_bytes >= 70 * GIB and not small_name:
        return BatchDefaults(max_num_seqs=1024, max_num_batched_tokens=8192)
    return BatchDefaults(max_num_seqs=256, max_num_batched_tokens=2048)


def default_gpu_memory_utilization(engine_version: str) -> float:
    """CacheConfig.gpu_memory_utilization: 0.9 until 0.19, 0.92 from 0.20 on."""
    return 0.92 if parse_version(engine_version) >= (0, 20, 0) else 0.9


def subtracts_graph_memory(engine_version: str) -> bool:
    """Whether the profile leaves room for CUDA graphs: VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS, on from 0.21."""
    return parse_version(engine_version) >= (0, 21, 0)


def model_runner(target: Architecture, method: str | None, engine_version: str) -> Literal[1, 2]:
    """Which model runner serves this target with this method by default (VllmConfig.use_v2_model_runner)."""
    version = parse_version(engine_version)
    for rule in _facts()["model_runner_v2"]:
        if not _within([rule], version):
            continue
        if method in rule["refused"]:
            return 1
        models = rule["models"]
        if models == "all":
            return 2
        hybrid = any(layer.state_bytes for layer in target.layers)
        if models == "dense":
            listed = any(name in rule["also"] for name in target.architectures)
            return 2 if listed or not (target.experts or hybrid) else 1
        listed = any(name in models for name in target.architectures)
        quantized = target.quantization is not None and version < (0, 24, 0)
        return 2 if listed and not quantized else 1
    return 1


def draft_tensor_parallel_sizes(method: str, tensor_parallel_size: int) -> tuple[int, ...]:
    """The draft_tensor_parallel_size values that start: a draft model must equal its target, others may also be 1.

    SpeculativeConfig._verify_and_get_draft_tp; DraftModelProposer._raise_if_draft_tp_mismatch.
    """
    if method == "draft_model":
        return (tensor_parallel_size,)
    return tuple(sorted({1, tensor_parallel_size}))
