"""What should be known before this candidate is switched on?

Each check looks at facts alone (architectures, engine version, memory plans, sampling parameters) and yields a warning
with a code. A few say that the engine will not start so: those block a candidate from being chosen. Nothing here is
predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from advisor.candidates import SPOKEN, Candidate
from advisor.capacity import Capacity
from advisor.recommendation import Warned
from models.step_cost import GAPS, gap_names, read_constants
from profiler.architecture import Architecture
from profiler.catalog.models import ModelEntry, find_entry
from profiler.compatibility import (
    IGNORED_SAMPLING,
    async_scheduling_lost,
    draft_tensor_parallel_sizes,
    method_problem,
    option_problem,
    version_statement,
)
from profiler.deployment import Deployment
from profiler.memory import MemoryPlan
from profiler.prompts.sample import Prompt

GIB = 2**30
# The founding talk's rule of thumb, "10 to 50 times cheaper than the target".
CHEAP_ENOUGH = 10.0
TOO_CHEAP = 50.0
# Of the KV cache without the drafter; below half of it a server that was sized for its traffic cannot carry it.
LITTLE_CACHE = 0.5
# A share of one half has a standard error of sqrt(0.25 / n): ten points at 25 prompts, more with fewer.
FEW_PROMPTS = 25


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found about one candidate."""

    warnings: tuple[Warned, ...]
    blocked: str | None = None  # why the engine would not start so
    doubtful: bool = False  # something that no prediction covers: never decisive
    heterogeneous_vocab: bool = False  # the option is needed


def inspect_candidate(
    candidate: Candidate, deployment: Deployment, *, capacity: Capacity, longest_tokens: float
) -> Preflight:
    """Check one candidate; longest_tokens: the 95th percentile of prompt plus answer."""
    findings = [
        _version(candidate, deployment),
        _vocabulary(candidate, deployment),
        _memory(candidate, capacity),
        Preflight(tuple(_size(candidate, deployment))),
        Preflight(tuple(_context(candidate, longest_tokens))),
        _parallel(candidate, deployment),
    ]
    return Preflight(
        warnings=tuple(warning for found in findings for warning in found.warnings),
        blocked=next((found.blocked for found in findings if found.blocked), None),
        doubtful=any(found.doubtful for found in findings),
        heterogeneous_vocab=any(found.heterogeneous_vocab for found in findings),
    )


def _version(candidate: Candidate, deployment: Deployment) -> Preflight:
    """Does this engine version have the method and its options, and what does it give up for them?"""
    version = deployment.engine_version
    problem = method_problem(candidate.method, version)
    if problem is not None:
        return Preflight((Warned(code="method_not_in_version", text=problem),), blocked=problem)
    options = ["draft_sample_method"] if candidate.probabilistic else []
    if candidate.spec is not None and candidate.spec.use_heterogeneous_vocab:
        options.append("use_heterogeneous_vocab")
    problems = [found for found in (option_problem(option, version) for option in options) if found is not None]
    warnings = [Warned(code="option_not_in_version", text=text) for text in problems]
    if async_scheduling_lost(candidate.method, version):
        text = (
            f"vLLM {version} turns asynchronous scheduling off for {SPOKEN[candidate.method]}: every step waits for "
            "the "
            "host, which the predicted step time includes"
        )
        warnings.append(Warned(code="async_scheduling_lost", text=text))
    return Preflight(tuple(warnings), blocked=problems[0] if problems else None)


def _vocabulary(candidate: Candidate, deployment: Deployment) -> Preflight:
    """Do target and drafter speak the same tokens?"""
    draft, target = candidate.draft, deployment.target
    if draft is None or draft.vocab_size is None or target.vocab_size is None:
        return Preflight(())
    same_tokenizer = same_tokens(target.name, draft.name)
    if draft.vocab_size == target.vocab_size and same_tokenizer is not False:
        return Preflight(())
    sizes = f"{draft.name} has a vocabulary of {draft.vocab_size:,} tokens, {target.name} one of {target.vocab_size:,}"
    if candidate.method != "draft_model":
        text = f"{sizes}: the head was made for another target"
        return Preflight((Warned(code="vocabularies_differ", text=text),), blocked=text)
    if same_tokenizer is False and draft.vocab_size == target.vocab_size:
        sizes = f"{draft.name} and {target.name} have different tokenizers of the same size"
    differ = Warned(code="vocabularies_differ", text=f"{sizes}: drafted tokens must mean the same to both")
    problem = option_problem("use_heterogeneous_vocab", deployment.engine_version)
    if problem is not None:
        return Preflight((differ,), blocked=f"{differ.text}; {problem}")
    needs = Warned(
        code="needs_use_heterogeneous_vocab",
        text="vLLM starts this pair only with use_heterogeneous_vocab, which drafts the tokens that both have in "
        "common; "
        "what that does to acceptance is not predicted",
    )
    return Preflight((differ, needs), doubtful=True, heterogeneous_vocab=True)


def same_tokens(target: str, draft: str) -> bool | None:
    """Whether both names are of the same tokenizer; None where the catalog does not know both."""
    entries = (find_entry(target), find_entry(draft))
    tokenizers = [entry.tokenizer for entry in entries if isinstance(entry, ModelEntry)]
    return tokenizers[0] == tokenizers[1] if len(tokenizers) == 2 else None


def _memory(candidate: Candidate, capacity: Capacity) -> Preflight:
    """Does the drafter fit, and what does it leave of the KV cache?"""
    plan, without = capacity.plans.get(candidate), capacity.without
    if plan is None:
        why = f"does not fit: {capacity.misfits[candidate]}"
        warning = Warned(code="drafter_does_not_fit", text=f"{candidate.label} {why}")
        return Preflight((warning,), blocked=f"it {why}")
    left = plan.kv_tokens / max(without.kv_tokens, 1)
    if left >= LITTLE_CACHE:
        return Preflight(())
    text = (
        f"{candidate.label} leaves {plan.kv_tokens:,} tokens of KV cache instead of {without.kv_tokens:,} "
        f"({left:.0%}): " + "; ".join(_takes(plan, without))
    )
    return Preflight((Warned(code="little_kv_cache", text=text),))


def _takes(plan: MemoryPlan, without: MemoryPlan) -> Iterator[str]:
    """What of the KV cache goes where, largest first."""
    weights = plan.drafter_weight_bytes
    buffers = plan.activation_bytes + plan.graph_bytes - without.activation_bytes - without.graph_bytes
    told = [
        (weights, f"its weights take {weights / GIB:.2f} GiB"),
        (
            buffers,
            f"buffers for verifying drafts take {buffers / GIB:.2f} GiB more (they grow with max_num_seqs and the "
            "vocabulary: a smaller max_num_seqs helps)",
        ),
    ]
    yield from (text for size, text in sorted(told, reverse=True) if size > 0.01 * GIB)
    if plan.kv_bytes_per_token > without.kv_bytes_per_token:
        more = plan.kv_bytes_per_token / without.kv_bytes_per_token - 1
        yield f"its own layers make each token's cache {more:.0%} larger"


def _size(candidate: Candidate, deployment: Deployment) -> Iterator[Warned]:
    """Is a draft model cheap enough to pay, and large enough to be believed?"""
    draft, target = candidate.draft, deployment.target
    if candidate.method != "draft_model" or draft is None:
        return
    ratio = target.decode_weight_bytes(1.0) / draft.decode_weight_bytes(1.0)
    if ratio < CHEAP_ENOUGH:
        yield Warned(
            code="drafter_too_large",
            text=f"{draft.name} reads {1 / ratio:.0%} of what {target.name} reads for a token: only {ratio:.1f} times "
            f"cheaper, where {CHEAP_ENOUGH:.0f} to {TOO_CHEAP:.0f} times pays",
        )
    elif ratio > TOO_CHEAP:
        yield Warned(
            code="drafter_too_small",
            text=f"{draft.name} is {ratio:.0f} times cheaper than {target.name}: so small a drafter tends to be "
            "accepted less than predicted",
        )


def _context(candidate: Candidate, longest_tokens: float) -> Iterator[Warned]:
    """Was the drafter trained for requests this long?"""
    draft = candidate.draft
    known = candidate.trained_context or (draft.max_position_embeddings if draft is not None else None)
    if draft is not None and known is not None and longest_tokens > known:
        how = "was trained on sequences of" if candidate.trained_context else "has positions for"
        yield Warned(
            code="drafter_context",
            text=f"{draft.name} {how} {known:,} tokens, and 1 in 20 requests is longer than {longest_tokens:,.0f}: "
            "beyond "
            "its training context acceptance can fall to almost nothing",
        )


def _parallel(candidate: Candidate, deployment: Deployment) -> Preflight:
    """Does the drafter run under the target's tensor parallelism?"""
    ranks, draft = deployment.tensor_parallel_size, candidate.draft
    wanted = candidate.spec.draft_tensor_parallel_size if candidate.spec is not None else None
    starts = draft_tensor_parallel_sizes(candidate.method, ranks)
    if wanted is not None and wanted not in starts:
        sizes = " or ".join(str(size) for size in starts)
        text = (
            f"draft_tensor_parallel_size {wanted} does not start with tensor_parallel_size {ranks}: it must be {sizes}"
        )
        return Preflight((Warned(code="tensor_parallel_mismatch", text=text),), blocked=text)
    if wanted is not None and wanted != ranks:
        text = f"the drafter runs on {wanted} of {ranks} ranks; it is predicted as spread over all of them"
        return Preflight((Warned(code="tensor_parallel_mismatch", text=text),), doubtful=True)
    if draft is not None and draft.num_attention_heads % ranks:
        text = f"{draft.name} has {draft.num_attention_heads} attention heads, which {ranks} ranks do not divide"
        return Preflight((Warned(code="tensor_parallel_mismatch", text=text),), blocked=text)
    return Preflight(())


def inspect_sample(prompts: int) -> Iterator[Warned]:
    """Are these enough prompts to stand for the traffic?"""
    if 0 < prompts < FEW_PROMPTS:
        only = "1 prompt was" if prompts == 1 else f"{prompts} prompts were"
        yield Warned(
            code="few_prompts",
            text=f"only {only} read: the answer is for traffic like that, and its intervals do not say how much other "
            f"prompts of yours may differ; {FEW_PROMPTS} or more tell shares to within ten points",
        )


def count_ignored_sampling(prompts: Iterable[Prompt]) -> dict[str, int]:
    """Sampling parameters that speculation does not honour, and how many of the prompts set each."""
    counts: dict[str, int] = {}
    for prompt in prompts:
        for name in prompt.sampling.keys() & set(IGNORED_SAMPLING):
            if prompt.sampling[name]:  # 0, null and {} ask for nothing
                counts[name] = counts.get(name, 0) + 1
    return counts


def inspect_sampling(ignored: Mapping[str, int]) -> Iterator[Warned]:
    """Sampling parameters of the prompts that speculation does not honour, with their counts."""
    for name, count in sorted(ignored.items()):
        yield Warned(
            code="sampling_ignored",
            text=f"{count} of the prompts set {name}, which vLLM does not honour with speculative decoding: answers "
            "change",
        )


def inspect_target(deployment: Deployment, *, concurrency: int, layer_overhead_ms: float) -> Iterator[Warned]:
    """Is there anything to gain: does a step of this target wait for memory at all?"""
    target, gpu = deployment.target, deployment.gpu
    weight_bytes = target.decode_weight_bytes(float(concurrency)) / deployment.tensor_parallel_size
    reading_ms = 1e3 * weight_bytes / gpu.bandwidth_bytes_per_s
    overhead_ms = target.num_layers * layer_overhead_ms
    if reading_ms < overhead_ms:
        yield Warned(
            code="small_target",
            text=f"a step of {target.name} reads its weights in {reading_ms:.2f} ms on this GPU, less than the "
            f"{overhead_ms:.2f} ms that launching its {target.num_layers} layers takes: it is so cheap that a drafter "
            "can hardly be cheaper, and there is little to gain",
        )


def inspect_configs(deployment: Deployment, draft: Architecture | None) -> Iterator[Warned]:
    """What the configs of target and drafter left open when they were read."""
    for model in (deployment.target, *([draft] if draft is not None else [])):
        for note in model.notes:
            yield Warned(code="config_reservation", text=f"{model.name}: {note}")


def inspect_engine(deployment: Deployment) -> Iterator[Warned]:
    """An engine version whose behaviour nobody has read."""
    statement = version_statement(deployment.engine_version)
    if statement is not None:
        yield Warned(code="engine_version_unknown", text=statement)


def not_measured_here(gaps: int) -> Iterator[Warned]:
    """What of this deployment no measurement covers."""
    names = gap_names(gaps)
    if names:
        yield Warned(
            code="not_measured_here",
            text="; ".join(GAPS[name] for name in names) + ": the verdict is not decisive without a probe",
        )


def beyond_measured(ranges: Sequence[tuple[int, int]]) -> Iterator[Warned]:
    """Whether the ranges that pay reach concurrencies that nobody has measured."""
    most = read_constants().measured.concurrency
    if ranges and ranges[-1][1] > most:
        yield Warned(
            code="extrapolated_concurrency",
            text=(
                f"nothing was measured above {most:g} concurrent requests: there the curve, the ranges "
                "and the crossover are the cost model's alone; probe before you rely on them"
            ),
        )
