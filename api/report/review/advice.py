"""What is reviewed of a recommendation? The decision, its evidence, the figures behind it, and how to get it again.

Every number is the answer's own. What is said beside it (coverage, held-out errors) is read from the models' artefacts;
where an answer was made by other artefacts than those that are installed, that is said instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor import Recommendation, RecommendationRequest
from advisor.predictions import model_version
from advisor.request import EvidenceSpec
from api.report.content import Points, alternatives, command_lines, headline, numbers, workload_lines
from api.report.review import advice_figures as figures
from api.report.review.document import Block, Code, Facts, Grid, Prose, Review, Section
from api.report.review.predicting import accuracy, coverage
from api.report.review.provenance import Provenance, repeat
from api.report.wording import as_sentence, draft_tokens, method_with
from api.version import specworth_version
from profiler.prompts.sample import PromptSample

_GAPS = ("not_measured_here", "extrapolated_concurrency", "engine_version_unknown", "few_prompts", "config_reservation")


def review_advice(
    answer: Recommendation,
    request: RecommendationRequest,
    provenance: Provenance,
    *,
    sample: PromptSample | None = None,
) -> Review:
    """The review of one answer; sample: what was read, None where only the answer is left of it."""
    deployment = request.deployment
    sections = [
        Section("decision", "Decision", _decision(answer, request)),
        Section("evidence", "Evidence", (_evidence(answer, request),)),
        *_figures(answer, request),
        Section("configuration", "Configuration", tuple(_configuration(answer))),
        Section("limits", "Limits, and what to know before acting", (_limits(answer),)),
        Section("workload", "Workload", (Points(tuple(workload_lines(answer, sample))),)),
        Section("method", "Method", (_method(answer, request),)),
        Section("repeat", "How to repeat it", repeat(provenance)),
    ]
    return Review(
        kind="Recommendation on speculative decoding",
        subject=f"{deployment.target.name} on {_gpus(request)}",
        mark=_mark(answer),
        decision=headline(answer, request),
        made_at=provenance.made_at,
        version=specworth_version(),
        sections=tuple(sections),
    )


def _gpus(request: RecommendationRequest) -> str:
    count = request.deployment.tensor_parallel_size
    return request.deployment.gpu.name if count == 1 else f"{count} x {request.deployment.gpu.name}"


def _mark(answer: Recommendation) -> str:
    action = "Enable" if answer.verdict == "enable" else "Leave off"
    return action if answer.decisive else f"Not decisive, leaning to {action.lower()}"


def _decision(answer: Recommendation, request: RecommendationRequest) -> tuple[Block, ...]:
    policy = request.policy
    rule = (
        f"Worth it is a speedup of at least {policy.min_speedup:g}x; the verdict is decisive from a probability of "
        f"{policy.confidence:.0%} for it or against it, where measurements cover this deployment."
    )
    return Grid("The decision in numbers", numbers(answer, request)), Prose(rule)


def _evidence(answer: Recommendation, request: RecommendationRequest) -> Facts:
    known = answer.model_version == model_version()
    gaps = [as_sentence(warning.text) for warning in answer.warnings if warning.code in _GAPS]
    entries = [
        ("Measured", tuple(_measured(request.evidence))),
        ("Predicted", tuple(_predicted(answer))),
        ("Assumed", tuple(_assumed(answer, request))),
        ("Coverage", (coverage(),) if known else (_other_models(answer),)),
        ("Gaps", tuple(gaps) or ("None: this deployment lies inside what was measured.",)),
    ]
    if known:
        entries.insert(4, ("Accuracy", accuracy()))
    return Facts(tuple(entries))


def _other_models(answer: Recommendation) -> str:
    made_by = f"The answer was made by other models than those installed now ({answer.model_version})"
    return f"{made_by}: what they cover, and how well, their own card says."


def _measured(evidence: EvidenceSpec | None) -> Iterator[str]:
    """What was counted or timed on a real engine."""
    profile = evidence.profile if evidence is not None else None
    if profile is not None:
        yield (
            f"A {profile.status} profile of {profile.created}: {len(profile.points)} points, up to "
            f"{max((point.pairs for point in profile.points), default=0):,} prompts answered by both servers at one of "
            f"them; {as_sentence(profile.decision.text)}"
        )
        if profile.acceptance is not None:
            yield f"Acceptance was counted over {profile.acceptance.drafts:,} drafts."
    elif evidence is not None and evidence.drafts is not None:
        yield (
            f"Acceptance, by counters of a running engine: {evidence.accepted:,} accepted tokens in "
            f"{evidence.drafts:,} drafts. No speedup was measured."
        )
    else:
        yield "Nothing of this deployment: all below is predicted. The command specworth profile measures it."


def _predicted(answer: Recommendation) -> Iterator[str]:
    speedups = {
        "predicted": "Speedups, their curve over concurrency and the crossover.",
        "measured": "Speedups away from the measured points, corrected by them.",
        "mixed": "Speedups, their curve and the crossover, with the measured acceptance in them.",
    }
    yield speedups[answer.basis]
    if answer.acceptance.basis == "predicted":
        yield "How many draft tokens are accepted, from the method, the prompts' structure and the temperature."
    yield "Memory, term by term as vLLM accounts for it; the what-ifs; the alternatives."


def _assumed(answer: Recommendation, request: RecommendationRequest) -> Iterator[str]:
    """What the request left open."""
    for what in answer.workload.estimated:
        yield as_sentence(what)
    deployment, memory = request.deployment, answer.memory
    defaults = {
        "gpu_memory_utilization": f"{memory.gpu_memory_utilization:g}",
        "max_num_seqs": f"{memory.max_num_seqs:,}",
        "max_model_len": "none" if memory.max_model_len is None else f"{memory.max_model_len:,}",
    }
    left = [f"{name} {value}" for name, value in defaults.items() if getattr(deployment, name) is None]
    by_default = f", with its defaults: {', '.join(left)}" if left else ""
    yield f"Served by vLLM {deployment.engine_version}{by_default}."
    yield "A steady load: as many requests at once as asked, each followed by the next."


def _figures(answer: Recommendation, request: RecommendationRequest) -> Iterator[Section]:
    if answer.curve:
        yield Section("speedup", "Speedup over concurrency", (figures.speedup(answer, request),))
    profile = request.evidence.profile if request.evidence is not None else None
    yield Section("acceptance", "Acceptance", tuple(figures.acceptance(answer, profile)))
    yield Section("memory", "Memory", tuple(figures.memory(answer)))
    if answer.reasons:
        yield Section("reasons", "Why: what would change it", (figures.reasons(answer, request),))
    if answer.alternatives:
        told = Points(tuple(as_sentence(other.text) for other in answer.alternatives))
        table = replace(alternatives(answer), notes=())
        yield Section("alternatives", "Alternatives", (Grid("The best of each method and drafter", table), told))


def _configuration(answer: Recommendation) -> Iterator[Block]:
    if answer.configuration.speculative_config is None:
        yield Prose(
            "Without speculative decoding: no speculative config at all, since a drafter that idles is not free."
        )
    if answer.configuration.schedule:
        tiers = (
            f"{first:,} to {last:,} sequences: {draft_tokens(k)}" for first, last, k in answer.configuration.schedule
        )
        yield Facts((("By batch size", tuple(tiers)),))
    yield Code("vLLM's command", " \\\n".join(command_lines(answer.configuration.serve_arguments)))


def _limits(answer: Recommendation) -> Points:
    told = [f"{as_sentence(warning.text)} [{warning.code}]" for warning in answer.warnings]
    told.append(
        "The intervals are of the models' errors and of what was counted; they do not say how far other prompts than "
        "these differ from them."
    )
    if answer.acceptance.basis == "predicted":
        told.append(
            "Acceptance is predicted for a method, not for one published drafter: two heads of one target get the same "
            "numbers."
        )
    told.append(
        "Two servers that share one GPU, or a load that comes in bursts, show less than a steady one alone does."
    )
    return Points(tuple(told))


def _method(answer: Recommendation, request: RecommendationRequest) -> Points:
    candidate = answer.candidate
    what = method_with(candidate.method, candidate.num_speculative_tokens, candidate.draft)
    found = answer.acceptance
    here = f"1 + {found.draft_share:.2f} ({found.length.value:.2f} - 1) = {found.tokens_per_step.value:.2f}"
    return Points(
        (
            "Each decode pass is priced by what it reads and computes (a roofline with overheads, fitted to measured "
            "cells); the closed loop at each concurrency gives time without and with speculation, and the speedup is "
            "their ratio.",
            "A step of speculation yields 1 + m (AL - 1) tokens, with AL the acceptance length and m the share of "
            f"steps that draft: here {here}.",
            f"Every estimate is a value with a lognormal spread; interval ({answer.speedup.level:.0%}) and the "
            f"probability of at least {request.policy.min_speedup:g}x come of the same distribution. Enable is said "
            "from one half on.",
            "All methods and drafters that apply were compared, each with 1 to 8 draft tokens unless the request named "
            f"one; {what} has the highest lower bound.",
        )
    )
