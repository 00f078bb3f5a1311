"""Which other concurrencies are worth probing? The advisor's curve tells, where the deployment can be predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.probing import Planner, plan_probes
from advisor.request import RecommendationRequest
from api.commands.request import request_fields, validated
from profiler.errors import SpecworthError
from profiler.metrics.gpu import find_gpus
from profiler.probe.environment import argument
from profiler.probe.settings import ProbeSettings
from profiler.prompts.sample import PromptSample
from profiler.serving.interpreter import Engine

_SERVED = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size")
_UNPREDICTED = "other concurrencies are chosen without a prediction"


def plan_around(
    options: Mapping[str, Any],
    sample: PromptSample,
    settings: ProbeSettings,
    config: Mapping[str, Any] | None,
    engine: Engine,
) -> tuple[Planner | None, str | None]:
    """The planner; or None, and why there is none: concurrencies are then doubled and halved."""
    gpus = find_gpus()
    gpu = options["gpu"] or (gpus.names[0] if gpus.names else None)
    words = options["serve_arguments"].split()
    asked: dict[str, Any] = {
        "target": options["target"],
        "gpu": gpu,
        "concurrency": settings.concurrency,
        "temperature": settings.temperature,
        "output_tokens": settings.max_tokens,
        "objective": settings.objective,
        "min_speedup": settings.min_speedup,
        "confidence": settings.confidence,
        "engine_version": engine.version,
    }
    if config is not None:
        asked |= {name: config.get(name) for name in ("method", "num_speculative_tokens", "draft_sample_method")}
        asked["draft"] = config.get("model") if config.get("method") not in ("ngram", "suffix") else None
    for name in _SERVED:
        value = argument(words, "--" + name.replace("_", "-"))
        asked[name] = int(value) if value is not None and value.isdecimal() else None
    needed = (("target", "target"), ("gpu", "GPU"), ("method", "method"))
    missing = [told for name, told in needed if not asked.get(name)]
    if missing:
        return (
            None,
            f"other concurrencies are chosen without a prediction, since no {' and no '.join(missing)} is known",
        )
    try:
        fields, _ = request_fields(asked)
        request = validated(RecommendationRequest, fields)
        most = max(len(sample.prompts) // 4, 1)
        return plan_probes(request, sample=sample, asked=settings.concurrency, most=most), None
    except SpecworthError as error:
        return None, f"{_UNPREDICTED}: {error.line()}"
