"""What does a sample of prompts ask of the engine: which work, how long, how copyable, how random?

Everything that decides the gain and that prompts can tell: structure, lengths, overlap, repetition, languages,
temperature. Each quantity says where it comes from; what was estimated is listed. A sample without texts (a trace of
lengths) still has lengths; its structure is then claimed of no class. One with nothing at all is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np

from models.estimate import Floats
from models.language import language_shares
from models.output_length import PRIOR_LOG_SD, PRIOR_TOKENS, predicted_output_tokens
from models.overlap import ExpectedOverlap, replayed_overlap
from models.structure import STRUCTURES, structure_probabilities
from profiler.errors import PromptsError
from profiler.prompts.sample import Prompt, PromptSample

_ZLIB_CHARACTERS = 8000  # of each prompt; deflate looks 32 KiB back, and a sample must stay quick


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A quantity of each prompt, its source in words, and the log-sd of its mean where it was predicted."""

    per_prompt: Floats
    basis: str
    log_sd: float = 0.0

    @property
    def mean(self) -> float:
        """Mean over the prompts."""
        return float(np.mean(self.per_prompt))

    @property
    def p95(self) -> float:
        """95th percentile over the prompts."""
        return float(np.percentile(self.per_prompt, 95))


@dataclass(frozen=True, eq=False)
class Workload:
    """The sample described; arrays have one row per prompt (for a trace of lengths, one per length)."""

    structure: Floats  # (classes,) mean shares in the order of STRUCTURES, sum 1
    prompt_structure: Floats  # (prompts, classes)
    token_structure: Floats  # (classes,) shares of the *output tokens*: each prompt counts by the length of its answer
    structure_overlap: Floats  # (classes,) overlap of the prompts of each class; empty without texts
    input_tokens: Quantity
    output_tokens: Quantity
    overlap: Quantity  # 0..1, models.overlap
    languages: Mapping[str, float]
    temperature: float | None  # median of those that prompts state; None where none does
    estimated: tuple[str, ...] = ()
    prompts: Sequence[Prompt] = ()

    @cached_property
    def repetition(self) -> Quantity:
        """0..1: how much smaller deflate makes each prompt (a repeated paragraph, a template); measured when asked for,
        since no prediction rests on it.
        """
        if not self.prompts:
            return Quantity(np.array([0.0]), "unknown without text")
        return Quantity(np.array([repetition(p.text) for p in self.prompts]), "deflate")

    @property
    def structure_shares(self) -> dict[str, float]:
        """Mean share by class name."""
        return dict(zip(STRUCTURES, self.structure.tolist(), strict=True))


def describe_workload(sample: PromptSample, *, tokenizer: Path | None = None) -> Workload:
    """The workload of a sample. Raises PromptsError for a sample with neither prompts nor lengths.

    tokenizer: the target's tokenizer.json, so that tokens are counted instead of estimated.
    """
    prompts = sample.prompts
    if not prompts:
        return _described_lengths(sample)
    structure = structure_probabilities(prompts)
    counted = _input_tokens(prompts, tokenizer)
    outputs = _output_tokens(prompts, structure, counted.per_prompt, tokenizer)
    overlap = _overlap(prompts, structure, counted.per_prompt)
    temperatures = [p.temperature for p in prompts if p.temperature is not None]
    estimated = [
        f"{name}: {q.basis}"
        for name, q in (
            ("input_tokens", counted),
            ("output_tokens", outputs),
            ("overlap", overlap),
        )
        if "estimated" in q.basis or "predicted" in q.basis
    ]
    if not temperatures:
        estimated.append("temperature: none is stated")
    return Workload(
        structure=structure.mean(axis=0),
        prompt_structure=structure,
        token_structure=outputs.per_prompt @ structure / outputs.per_prompt.sum(),
        structure_overlap=overlap.per_prompt @ structure / np.maximum(structure.sum(axis=0), 1e-9),
        input_tokens=counted,
        output_tokens=outputs,
        overlap=overlap,
        languages=language_shares(p.instruction if p.messages else "" for p in prompts),
        temperature=median(temperatures) if temperatures else None,
        estimated=("structure: predicted from the prompts' texts", *estimated),
        prompts=prompts,
    )


def repetition(text: str) -> float:
    """1 − compressed / plain size under deflate, at least 0: English prose about 0.5, one line repeated about 1."""
    plain = text[:_ZLIB_CHARACTERS].encode("utf-8", "replace")
    if not plain:
        return 0.0
    return max(0.0, 1.0 - len(zlib.compress(plain, 1)) / len(plain))


def _input_tokens(prompts: Sequence[Prompt], tokenizer: Path | None) -> Quantity:
    from profiler.prompts.tokens import count_tokens

    stated = np.array([np.nan if p.input_tokens is None else float(p.input_tokens) for p in prompts])
    unknown = np.flatnonzero(np.isnan(stated)).tolist()
    if not len(unknown):
        return Quantity(stated, "as the records state")
    stated[unknown] = count_tokens([prompts[i].text for i in unknown], tokenizer)
    how = "counted with the target's tokenizer" if tokenizer else "estimated from the text"
    mixed = "" if len(unknown) == len(prompts) else ", else as the records state"
    return Quantity(np.maximum(stated, 1.0), how + mixed)


def _output_tokens(
    prompts: Sequence[Prompt], structure: Floats, input_tokens: Floats, tokenizer: Path | None
) -> Quantity:
    from profiler.prompts.tokens import count_tokens

    known = np.array([np.nan if p.output_tokens is None else float(p.output_tokens) for p in prompts])
    answered = [i for i, p in enumerate(prompts) if p.output and np.isnan(known[i])]
    if answered:
        known[answered] = count_tokens([prompts[i].output or "" for i in answered], tokenizer)
    missing = np.isnan(known)
    if not missing.any():
        return Quantity(np.maximum(known, 1.0), "from past outputs")
    centre = PRIOR_TOKENS
    if not missing.all():
        centre = float(np.exp(np.mean(np.log(np.maximum(known[~missing], 1.0)))))
    predicted = predicted_output_tokens(
        input_tokens=input_tokens,
        translation_share=structure[:, STRUCTURES.index("translation")],
        summary_share=structure[:, STRUCTURES.index("summarisation")],
        centre=centre,
    )
    ceiling = np.array([np.inf if p.max_tokens is None else float(p.max_tokens) for p in prompts])
    values = np.where(missing, np.minimum(predicted.value, ceiling), known)
    capped = bool((predicted.value >= ceiling)[missing].all())
    if capped:
        basis, log_sd = "max_tokens, as answers are expected to reach it (predicted)", PRIOR_LOG_SD
    elif missing.all():
        basis, log_sd = "predicted from published means, within a factor of 2.5", float(predicted.log_sd.mean())
    else:
        basis, log_sd = "from past outputs where known, else predicted from their mean", PRIOR_LOG_SD
        log_sd *= float(missing.mean())
    return Quantity(np.maximum(values, 1.0), basis, log_sd)


def _overlap(prompts: Sequence[Prompt], structure: Floats, input_tokens: Floats) -> Quantity:
    expected = _expected_overlap().of(structure, input_tokens)
    measured = np.array([replayed_overlap(prompt=p.text, output=p.output) if p.output else np.nan for p in prompts])
    known = np.isfinite(measured)
    if known.all():
        return Quantity(measured, "prompt lookup replayed on past outputs")
    if not known.any():
        return Quantity(expected, "predicted from the task and the prompts' lengths")
    # Known answers tell how this workload copies compared with its classes; the others are shifted alike.
    shift = float(np.mean(measured[known] - expected[known]))
    return Quantity(
        np.where(known, measured, np.clip(expected + shift, 0.0, 1.0)),
        "prompt lookup replayed on past outputs where known, else predicted from them and the task",
    )


def _expected_overlap() -> ExpectedOverlap:
    """What the acceptance model has learned of copying."""
    from models.acceptance.coefficients import read_coefficients

    return read_coefficients().copying


def _described_lengths(sample: PromptSample) -> Workload:
    """A workload known by its lengths alone."""
    lengths = sample.lengths
    if lengths is None or not (len(lengths.input_tokens) or len(lengths.output_tokens)):
        raise PromptsError(
            "the sample holds neither prompts nor request lengths",
            expected="at least one prompt",
            remedy="see what was skipped and why, or name the format",
            field="prompts",
        )
    inputs = np.asarray(lengths.input_tokens, dtype=np.float64)
    outputs = np.asarray(lengths.output_tokens, dtype=np.float64)
    if not len(inputs):
        raise PromptsError(
            "the lengths have no input tokens", expected="input and output tokens of each request", field="prompts"
        )
    output = Quantity(outputs, "as the records state")
    if not len(outputs):
        output = Quantity(np.full(len(inputs), PRIOR_TOKENS), "predicted from published means", PRIOR_LOG_SD)
    even = np.full(len(STRUCTURES), 1.0 / len(STRUCTURES))
    overlap = Quantity(np.array([float(even @ _expected_overlap().overlap)]), "predicted: no text tells the task")
    return Workload(
        structure=even,
        prompt_structure=np.empty((0, len(STRUCTURES))),
        token_structure=even,
        structure_overlap=np.empty(0),
        input_tokens=Quantity(inputs, "as the records state"),
        output_tokens=output,
        overlap=overlap,
        languages={},
        temperature=None,
        estimated=(
            "structure: no text, so every class alike",
            f"overlap: {overlap.basis}",
            "temperature: none is stated",
            *([f"output_tokens: {output.basis}"] if "predicted" in output.basis else []),
        ),
    )
