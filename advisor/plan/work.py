"""What is each class of requests like: how long, how random, which work, how unequal?

Of prompts (or features of prompts) as advice reads them; without them as the request states it. Nothing is made up:
where only a mean length is stated all requests are taken as equally long, and the plan says so, since the time to
first token of the slowest twentieth then comes out too short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from advisor.described import Described, describe_features, describe_sample
from advisor.evidence import Evidence
from advisor.plan.request import ClassSpec
from advisor.predictions import Conditions
from advisor.recommendation import Warned
from advisor.request import TrafficSpec
from advisor.traffic import DEFAULT_TEMPERATURE, resolve_traffic
from models.estimate import Floats
from models.structure import STRUCTURES
from profiler.deployment import Deployment
from profiler.errors import DeploymentError, InputError, SpecworthError
from profiler.prompts import prompts_from_objects
from profiler.prompts.sample import PromptSample

_QUANTILES = (np.arange(8.0) + 0.5) / 8.0
_Z95 = NormalDist().inv_cdf(0.95)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One class."""

    name: str
    conditions: Conditions
    prompt_size: Floats  # (8,) equally probable lengths of prompts over their mean
    length_cv2: float  # squared coefficient of variation of answers
    longest_tokens: float
    estimated: tuple[str, ...]
    warnings: tuple[Warned, ...]
    evidence: Evidence | None = None  # what was measured of it

    @property
    def computed_tokens(self) -> float:
        """Prompt tokens that the prefix cache does not serve."""
        return max(self.conditions.input_tokens - self.conditions.cached_tokens, 1.0)


def describe_class(name: str, spec: ClassSpec, sample: PromptSample | None) -> Described | None:
    """What its prompts or features say; None where it has neither. Raises InputError with its place."""
    try:
        if spec.features is not None:
            return describe_features(spec.features)
        if sample is None and spec.prompts is None:
            return None
        return describe_sample(sample if sample is not None else prompts_from_objects(spec.prompts or []))
    except InputError as error:
        raise _placed(error, name) from None


def resolve_class(name: str, spec: ClassSpec, described: Described | None, deployment: Deployment) -> Work:
    """The class on this deployment. Raises InputError with its place."""
    if described is None:
        return _stated(name, spec, deployment)
    given = {key: getattr(spec, key) for key in ("input_tokens", "output_tokens", "temperature", "cached_prefix_share")}
    try:
        traffic = resolve_traffic(
            TrafficSpec.model_validate({key: value for key, value in given.items() if value is not None}),
            shared_prefix=described.shared_prefix,
            workload=described.workload,
            deployment=deployment,
        )
    except InputError as error:
        raise _placed(error, name) from None
    inputs = np.sort(described.workload.input_tokens.per_prompt)
    size = np.interp(_QUANTILES * (inputs.size - 1), np.arange(inputs.size), inputs)
    answers = described.workload.output_tokens.per_prompt
    return Work(
        name, traffic.conditions, size / size.mean(), float(np.var(answers) / np.mean(answers) ** 2),
        traffic.longest_tokens, tuple(f"{name}: {line}" for line in traffic.estimated), traffic.warnings,
    )  # fmt: skip


def _stated(name: str, spec: ClassSpec, deployment: Deployment) -> Work:
    from models.acceptance.coefficients import read_coefficients

    assert spec.input_tokens is not None
    assert spec.output_tokens is not None
    _check_context(name, spec.input_tokens, spec.output_tokens, deployment)
    estimated = []
    given = spec.structure or dict.fromkeys(STRUCTURES, 1.0)
    structure = np.array([given.get(kind, 0.0) for kind in STRUCTURES])
    structure = structure / structure.sum()
    if spec.structure is None:
        estimated.append("structure: not stated, so every kind of work alike")
    overlap = spec.overlap
    if overlap is None:
        copying = read_coefficients().copying
        overlap = float(copying.of(structure[None, :], np.array([spec.input_tokens]))[0])
        estimated.append("overlap: predicted from the kind of work and the prompts' length")
    if spec.temperature is None:
        estimated.append("temperature: none given, so vLLM's default of 1.0")
    if spec.input_tokens_p95 is None:
        estimated.append(
            "input_tokens: all prompts taken as long as their mean; input_tokens_p95 tells how they differ"
        )
    share = spec.cached_prefix_share if deployment.enable_prefix_caching else 0.0
    if share is None:
        estimated.append("cached_prefix_share: not stated, so none")
    conditions = Conditions(
        input_tokens=spec.input_tokens,
        output_tokens=spec.output_tokens,
        cached_prefix_share=share or 0.0,
        temperature=DEFAULT_TEMPERATURE if spec.temperature is None else spec.temperature,
        overlap=overlap,
        structure=structure,
    )
    size = _sizes(name, spec.input_tokens, spec.input_tokens_p95)
    longest = (spec.input_tokens_p95 or spec.input_tokens) + spec.output_tokens
    return Work(name, conditions, size, 0.0, longest, tuple(f"{name}: {line}" for line in estimated), ())


def _check_context(name: str, prompt: float, answer: float, deployment: Deployment) -> None:
    context = deployment.max_model_len or deployment.target.max_position_embeddings
    if context is not None and prompt + answer > context:
        raise DeploymentError(
            f"Requests of the class {name!r} do not fit the engine's context",
            expected=f"at most max_model_len = {context:,} tokens of prompt and answer",
            got=f"{prompt:,.0f} + {answer:,.0f}",
            field=f"classes.{name}.input_tokens",
        )


def _sizes(name: str, mean: float, p95: float | None) -> Floats:
    """Lengths over their mean: a lognormal with this mean and 95th percentile."""
    if p95 is None:
        return np.ones(1)
    most = math.exp(_Z95**2 / 2.0)
    if not mean <= p95 <= most * mean:
        raise InputError(
            f"The class {name!r} cannot have these lengths",
            expected=f"input_tokens_p95 from the mean, {mean:g}, to {most:.2f} times as much: no lognormal has more",
            got=f"{p95:g}",
            remedy="give prompts, or make two classes of it",
            field=f"classes.{name}.input_tokens_p95",
        )
    log_sd = _Z95 - math.sqrt(max(_Z95**2 - 2.0 * math.log(p95 / mean), 0.0))
    found = np.exp(log_sd * np.array([NormalDist().inv_cdf(q) for q in _QUANTILES]))
    sizes: Floats = found / found.mean()
    return sizes


def _placed(error: SpecworthError, name: str) -> InputError:
    """The error at the class's place in the request."""
    field = (error.field or "").removeprefix("traffic.")
    inside = field if field in ClassSpec.model_fields else "prompts"
    place = error.field if field.startswith("deployment") else f"classes.{name}.{inside}"
    return type(error)(  # type: ignore[return-value]
        f"The class {name!r}: {error.what}", expected=error.expected, got=error.got, remedy=error.remedy, field=place
    )
