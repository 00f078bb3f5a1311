"""What is known of the prompts of one question, whether they came themselves or as features?

From here on an answer looks at no prompt: `describe_sample` reads a workload off them, `describe_features` takes one
that was read before, and both lead to the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.features import WorkloadFeatures
from advisor.preflight import count_ignored_sampling
from advisor.traffic import shared_prefix_share
from models.estimate import Floats
from models.structure import STRUCTURES
from models.workload import Quantity, Workload, describe_workload
from profiler.prompts.sample import PromptSample


@dataclass(frozen=True, slots=True)
class Described:
    """A workload and what was told of its sample."""

    workload: Workload
    shared_prefix: Callable[[], float]
    prompts: int
    format: str
    skipped: Mapping[str, int]
    notes: tuple[str, ...]
    ignored_sampling: Mapping[str, int]


def describe_sample(sample: PromptSample, *, tokenizer: Path | None = None) -> Described:
    """Read the workload off the prompts. tokenizer: the target's tokenizer.json, to count tokens with."""
    return Described(
        workload=describe_workload(sample, tokenizer=tokenizer),
        shared_prefix=lambda: shared_prefix_share([p.text for p in sample.prompts]),
        prompts=len(sample.prompts),
        format=sample.format,
        skipped=sample.skipped,
        notes=sample.notes,
        ignored_sampling=count_ignored_sampling(sample.prompts),
    )


def describe_features(features: WorkloadFeatures) -> Described:
    """The workload that features tell of."""
    workload = Workload(
        structure=_shares(features.structure),
        prompt_structure=np.empty((0, len(STRUCTURES))),
        token_structure=_shares(features.token_structure),
        structure_overlap=_shares(features.structure_overlap),
        input_tokens=Quantity(np.array(features.input_tokens, dtype=np.float64), features.input_basis),
        output_tokens=Quantity(
            np.array(features.output_tokens, dtype=np.float64), features.output_basis, features.output_log_sd
        ),
        overlap=Quantity(np.array([features.overlap]), "given"),
        languages=features.languages,
        temperature=features.temperature,
        estimated=tuple(features.estimated),
    )
    return Described(
        workload, lambda: features.shared_prefix, features.prompts, features.format, features.skipped,
        tuple(features.notes), features.ignored_sampling,
    )  # fmt: skip


def features_of(described: Described) -> WorkloadFeatures:
    """The features of a sample of prompts; never a text of it. Rounded, so that a link can carry them."""
    workload = described.workload
    order = np.lexsort((workload.output_tokens.per_prompt, workload.input_tokens.per_prompt))
    return WorkloadFeatures(
        prompts=described.prompts,
        format=described.format[:500],
        structure=_named(workload.structure),
        token_structure=_named(workload.token_structure),
        structure_overlap=_named(workload.structure_overlap),
        input_tokens=workload.input_tokens.per_prompt[order].round(3).tolist(),
        output_tokens=workload.output_tokens.per_prompt[order].round(3).tolist(),
        output_log_sd=workload.output_tokens.log_sd,
        input_basis=workload.input_tokens.basis,
        output_basis=workload.output_tokens.basis,
        overlap=min(workload.overlap.mean, 1.0),
        shared_prefix=described.shared_prefix(),
        languages=dict(workload.languages),
        temperature=workload.temperature,
        ignored_sampling=dict(described.ignored_sampling),
        skipped={reason[:500]: count for reason, count in described.skipped.items()},
        notes=[note[:500] for note in described.notes],
        estimated=list(workload.estimated),
    )


def _shares(named: Mapping[str, float]) -> Floats:
    return np.array([named.get(name, 0.0) for name in STRUCTURES], dtype=np.float64)


def _named(shares: Floats) -> dict[str, float]:
    return {name: round(min(max(float(share), 0.0), 1.0), 6) for name, share in zip(STRUCTURES, shares, strict=True)}
