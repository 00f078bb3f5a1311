"""What is each request like?

What the request says is taken as it is; what it leaves out is estimated from the prompts, and each estimate is named.
Refused: requests that are longer than the engine's context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from advisor.predictions import Conditions
from advisor.recommendation import Warned
from advisor.request import TrafficSpec
from models.estimate import Floats
from models.workload import Workload
from profiler.deployment import Deployment
from profiler.errors import DeploymentError

DEFAULT_TEMPERATURE = 1.0  # of vLLM's SamplingParams and of the OpenAI API, where a request says nothing
BLOCK = 16  # tokens; vLLM caches prefixes in whole blocks
CHARACTERS_PER_TOKEN = 4  # of English text; only the share of shared prefixes is cut to blocks by it


@dataclass(frozen=True, slots=True)
class Traffic:
    """The conditions of each request, and what was estimated of them."""

    conditions: Conditions
    longest_tokens: float  # 95th percentile of prompt plus answer
    input_tokens_p95: float
    estimated: tuple[str, ...]
    warnings: tuple[Warned, ...]


def resolve_traffic(
    spec: TrafficSpec, *, shared_prefix: Callable[[], float], workload: Workload, deployment: Deployment
) -> Traffic:
    """Lengths, temperature, prefix share and structure, given or estimated.

    shared_prefix: the share of the prompts' text that others of them begin with, asked for where it is needed.
    """
    estimated = [line for line in workload.estimated if line.startswith(("structure", "overlap"))]
    warnings: list[Warned] = []
    context = deployment.max_model_len or deployment.target.max_position_embeddings
    inputs, outputs = workload.input_tokens.per_prompt, workload.output_tokens.per_prompt
    if context is not None and spec.input_tokens is None:
        inputs, outputs, dropped = _within_context(inputs, outputs, context)
        if dropped:
            text = (
                f"{dropped} of {dropped + inputs.size} prompts are longer than max_model_len ({context:,} tokens) and "
            )
            warnings.append(Warned(code="prompts_exceed_context", text=text + "are left out: vLLM would refuse them"))
    input_tokens, p95 = float(inputs.mean()), _p95(inputs)
    if spec.input_tokens is not None:
        input_tokens = p95 = spec.input_tokens
    else:
        estimated.append(f"input_tokens: {workload.input_tokens.basis}")
    output_tokens = float(outputs.mean())
    if spec.output_tokens is not None:
        output_tokens = spec.output_tokens
    else:
        estimated.append(f"output_tokens: {workload.output_tokens.basis}")
    if context is not None:
        _check_context(input_tokens, output_tokens, context, spec)
        output_tokens = min(output_tokens, context - input_tokens)
    temperature = spec.temperature
    if temperature is None:
        temperature = workload.temperature
        estimated.append("temperature: median of the prompts that state one")
    if temperature is None:
        temperature = DEFAULT_TEMPERATURE
        estimated[-1] = "temperature: none given anywhere, so vLLM's default of 1.0"
    share = spec.cached_prefix_share
    if share is None:
        share = shared_prefix() if deployment.enable_prefix_caching else 0.0
        how = "beginnings that the prompts share" if deployment.enable_prefix_caching else "prefix caching is off"
        estimated.append(f"cached_prefix_share: {how}")
    conditions = Conditions(
        input_tokens=input_tokens,
        output_tokens=max(output_tokens, 1.0),
        cached_prefix_share=share if deployment.enable_prefix_caching else 0.0,
        temperature=temperature,
        overlap=workload.overlap.mean,
        structure=workload.token_structure,
        output_log_sd=workload.output_tokens.log_sd if spec.output_tokens is None else 0.0,
    )
    return Traffic(conditions, p95 + output_tokens, p95, tuple(estimated), tuple(warnings))


def _p95(values: Floats) -> float:
    """The 95th percentile as np.percentile interpolates it, which would import numpy.ma: a fiftieth of a short run."""
    return float(np.interp(0.95 * (values.size - 1), np.arange(values.size), np.sort(values)))


def _within_context(inputs: Floats, outputs: Floats, context: int) -> tuple[Floats, Floats, int]:
    """The prompts that leave room for an answer, and how many do not."""
    fits = inputs < context
    if not fits.any():
        raise DeploymentError(
            "No prompt fits the engine's context",
            expected=f"prompts shorter than max_model_len, {context:,} tokens",
            got=f"the shortest has about {inputs.min():,.0f}",
            field="deployment.max_model_len",
        )
    # A trace may list lengths of prompts and answers that are not of the same requests.
    return inputs[fits], outputs[fits] if outputs.size == fits.size else outputs, int((~fits).sum())


def _check_context(input_tokens: float, output_tokens: float, context: int, spec: TrafficSpec) -> None:
    """Given lengths must fit the context: vLLM refuses such requests."""
    given = spec.output_tokens is not None
    if input_tokens >= context or (given and input_tokens + output_tokens > context):
        raise DeploymentError(
            "Requests of this length do not fit the engine's context",
            expected=f"at most max_model_len = {context:,} tokens of prompt and answer",
            got=f"{input_tokens:,.0f} + {output_tokens:,.0f}",
            field="traffic.input_tokens" if spec.input_tokens is not None else "traffic.output_tokens",
        )


def shared_prefix_share(texts: Sequence[str]) -> float:
    """Share of all prompt text that another prompt of the sample begins with, too, in whole cache blocks.

    In sorted order the longest prefix that a text shares with any other is shared with a neighbour. The first of each
    family is not cached when it comes, which costs one prompt in the sample.
    """
    ordered = sorted(texts)
    total = sum(len(text) for text in ordered)
    if total == 0 or len(ordered) < 2:
        return 0.0
    block = BLOCK * CHARACTERS_PER_TOKEN
    shared = sum(_common_prefix(*pair) // block * block for pair in pairwise(ordered))
    return min(shared / total, 1.0)


def _common_prefix(one: str, other: str) -> int:
    """Length of the longest common beginning, by bisection: comparing slices is what Python does fastest."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
