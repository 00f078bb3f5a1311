"""Is speculative decoding worth it for these prompts, on this deployment, under this traffic?

The whole flow in one function: what is served, what is asked of it, which candidates there are, what the models predict
for each at every concurrency, which is best, whether it pays, up to where, why, and what to give to vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.candidates import find_candidates
from advisor.capacity import describe_memory, inspect_load, plan_capacity
from advisor.choice import Choice, choose, describe_alternatives
from advisor.classes import lengths_by_class
from advisor.configuration import configure
from advisor.correction import predict, request_time_factor
from advisor.deployment import resolve_deployment
from advisor.described import describe_features, describe_sample
from advisor.evidence import Evidence, adopt_profile, basis_of, resolve_evidence
from advisor.identity import new_id
from advisor.load import resolve_load
from advisor.outlook import look_around
from advisor.predictions import Case, layer_overhead_ms, model_version
from advisor.preflight import (
    beyond_measured,
    inspect_candidate,
    inspect_configs,
    inspect_engine,
    inspect_sample,
    inspect_sampling,
    inspect_target,
    not_measured_here,
)
from advisor.recommendation import Chosen, Recommendation
from advisor.request import RecommendationRequest
from advisor.schedule import resolve_schedule
from advisor.traffic import resolve_traffic
from advisor.verdict import decide, inspect_objectives
from advisor.workload import summarise
from profiler.deployment import Deployment
from profiler.prompts import prompts_from_objects
from profiler.prompts.sample import PromptSample


@dataclass(frozen=True, slots=True)
class Considered:
    """An answer, and the choice that it tells of, for whoever asks on about it."""

    answer: Recommendation
    deployment: Deployment
    best: Choice
    evidence: Evidence | None


def advise(
    request: RecommendationRequest, *, sample: PromptSample | None = None, tokenizer: Path | None = None
) -> Recommendation:
    """Answer one request. Raises InputError, with the dotted place of what cannot be used.

    sample: prompts that are already read, instead of `request.prompts`. tokenizer: the target's tokenizer.json, so that
    tokens are counted instead of estimated.
    """
    return consider(request, sample=sample, tokenizer=tokenizer).answer


def consider(
    request: RecommendationRequest, *, sample: PromptSample | None = None, tokenizer: Path | None = None
) -> Considered:
    """As `advise`, with what the answer was chosen from."""
    request = adopt_profile(request)
    policy, speculation = request.policy, request.deployment.speculation

    # What is served, how it could speculate, and what was measured.
    deployment = resolve_deployment(request.deployment)
    candidates = find_candidates(deployment, speculation)
    evidence = resolve_evidence(request.evidence, speculation, candidates, deployment)

    # What is asked of it.
    if request.workload is not None:
        described = describe_features(request.workload)
    else:
        prompts = sample if sample is not None else prompts_from_objects(request.prompts)
        described = describe_sample(prompts, tokenizer=tokenizer)
    workload = described.workload
    traffic = resolve_traffic(
        request.traffic, shared_prefix=described.shared_prefix, workload=workload, deployment=deployment
    )
    conditions = traffic.conditions
    capacity = plan_capacity(deployment, candidates, conditions)
    limit = capacity.limit_without
    slower = request_time_factor(deployment, evidence, candidates[0], conditions)
    load = resolve_load(request.traffic, deployment=deployment, conditions=conditions, limit=limit, time_factor=slower)

    # What the models say of every candidate, k and concurrency, and which is best.
    preflights = {
        c: inspect_candidate(c, deployment, capacity=capacity, longest_tokens=traffic.longest_tokens)
        for c in candidates
    }
    blocked = {candidate: found.blocked for candidate, found in preflights.items() if found.blocked}
    cases = [Case(c, k, conditions, capacity.limit(c), limit) for c in candidates for k in c.ks]
    predictions = predict(
        deployment,
        cases,
        case=np.arange(len(cases)),
        concurrency=np.full(len(cases), load.concurrency, dtype=np.int64),
        evidence=evidence,
    )
    best, others = choose(predictions, objective=policy.objective, blocked=blocked)
    chosen, preflight = best.case.candidate, preflights[best.case.candidate]

    # Does it pay, up to where, and why?
    cannot_run = preflight.blocked is not None
    measured = bool(predictions.measured[best.row])
    outlook = look_around(
        deployment, best, concurrency=load.concurrency, evidence=evidence, policy=policy, blocked=preflight.blocked
    )
    decision = decide(
        probability=0.0 if cannot_run else best.probability(policy),
        confidence=policy.confidence,
        measured_here=cannot_run or measured or (bool(predictions.covered[best.row]) and not preflight.doubtful),
        everywhere=not load.assumed or outlook.crossover.everywhere,
    )
    enabled = decision.verdict == "enable"
    schedule, schedule_warnings = resolve_schedule(
        outlook.schedule if enabled else None, deployment, chosen, fixed_k=best.case.k
    )
    by_structure = lengths_by_class(deployment, best.case, workload)
    acceptance = best.acceptance().model_copy(update={"by_structure": by_structure})
    answer = Recommendation(
        id=new_id(),
        verdict=decision.verdict,
        decisive=decision.decisive,
        probability=decision.probability,
        candidate=Chosen(method=chosen.method, draft=chosen.draft_name, num_speculative_tokens=best.case.k),
        speedup=best.speedup(),
        acceptance=acceptance,
        crossover_concurrency=outlook.crossover.concurrency,
        crossover_reason=outlook.crossover.reason,
        enable_ranges=list(outlook.crossover.ranges),
        curve=outlook.curve,
        configuration=configure(
            request.deployment, deployment, chosen if enabled else None, k=best.case.k, schedule=schedule,
            heterogeneous_vocab=preflight.heterogeneous_vocab,
        ),
        alternatives=describe_alternatives(
            others if enabled else [best, *others], chosen=best, policy=policy, capacity=capacity, preflights=preflights
        ),
        workload=summarise(described, traffic, load),
        memory=describe_memory(capacity, chosen, deployment=deployment, concurrency=load.concurrency),
        reasons=outlook.reasons,
        warnings=[
            *preflight.warnings,
            *(evidence.warnings if evidence is not None else ()),
            *traffic.warnings,
            *load.warnings,
            *inspect_objectives(best.speedup(), objective=policy.objective, enabled=enabled),
            *inspect_load(load.concurrency, capacity, chosen, conditions),
            *inspect_sample(described.prompts),
            *inspect_sampling(described.ignored_sampling),
            *inspect_target(deployment, concurrency=load.concurrency, layer_overhead_ms=layer_overhead_ms()),
            *inspect_configs(deployment, chosen.draft),
            *inspect_engine(deployment),
            *(() if measured else not_measured_here(int(predictions.gaps[best.row]))),
            *beyond_measured(outlook.crossover.ranges),
            *schedule_warnings,
        ],
        basis=basis_of(evidence, acceptance, measured=measured),
        model_version=model_version(),
    )  # fmt: skip
    return Considered(answer, deployment, best, evidence)
