"""What is given to vLLM to act on the answer?

The speculative config in vLLM's own names, and the arguments that follow `vllm serve`. "Disable" is no speculative
config at all: a drafter that is loaded but idle is not free.
"""

from __future__ import annotations

import json
from typing import Any

from advisor.candidates import Candidate
from advisor.recommendation import Configuration
from advisor.request import DeploymentSpec
from advisor.schedule import Schedule
from profiler.compatibility import method_name
from profiler.deployment import Deployment


def configure(
    spec: DeploymentSpec,
    deployment: Deployment,
    candidate: Candidate | None,
    *,
    k: int,
    schedule: Schedule | None = None,
    heterogeneous_vocab: bool = False,
) -> Configuration:
    """The configuration of a candidate, or of serving without speculation where it is None."""
    arguments = _settings(spec, deployment)
    if candidate is None:
        return Configuration(speculative_config=None, serve_arguments=arguments, schedule=None)
    config = speculative_config(candidate, deployment, k=k, schedule=schedule, heterogeneous_vocab=heterogeneous_vocab)
    arguments += ["--speculative-config", json.dumps(config)]
    return Configuration(speculative_config=config, serve_arguments=arguments, schedule=schedule)


def speculative_config(
    candidate: Candidate, deployment: Deployment, *, k: int, schedule: Schedule | None, heterogeneous_vocab: bool
) -> dict[str, Any]:
    """vLLM's SpeculativeConfig; only what differs from its defaults."""
    spec = candidate.spec
    # The largest k sizes the buffers; a schedule chooses below it.
    most = max([k, *(tokens for _, _, tokens in schedule or ())])
    method = method_name(candidate.method, deployment.target, deployment.engine_version)
    config: dict[str, Any] = {"method": method, "num_speculative_tokens": most}
    if candidate.draft_name is not None:
        config["model"] = candidate.draft_name
    if candidate.lookup is not None:
        config["prompt_lookup_min"], config["prompt_lookup_max"] = candidate.lookup
    if candidate.probabilistic:
        config["draft_sample_method"] = "probabilistic"
    if spec is not None and spec.draft_tensor_parallel_size is not None:
        config["draft_tensor_parallel_size"] = spec.draft_tensor_parallel_size
    if heterogeneous_vocab:
        config["use_heterogeneous_vocab"] = True
    if schedule is not None:
        config["num_speculative_tokens_per_batch_size"] = [list(tier) for tier in schedule]
    return config


def _settings(spec: DeploymentSpec, deployment: Deployment) -> list[str]:
    """The deployment's settings that were given, as `vllm serve` takes them."""
    arguments = [deployment.target.name]  # in full, where the request has it short
    valued = {
        "--quantization": spec.target.quantization,
        "--tensor-parallel-size": spec.tensor_parallel_size if spec.tensor_parallel_size > 1 else None,
        "--gpu-memory-utilization": spec.gpu_memory_utilization,
        "--max-model-len": spec.max_model_len,
        "--max-num-seqs": spec.max_num_seqs,
        "--max-num-batched-tokens": spec.max_num_batched_tokens,
        "--kv-cache-dtype": None if spec.kv_cache_dtype == "auto" else spec.kv_cache_dtype,
    }
    for flag, value in valued.items():
        if value is not None:
            arguments += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    if not spec.enable_prefix_caching:
        arguments.append("--no-enable-prefix-caching")
    if spec.enforce_eager:
        arguments.append("--enforce-eager")
    return arguments
