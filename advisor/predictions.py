"""What do the models say of every candidate at every concurrency?

All that is asked of the models goes through one table: a case is one candidate with one k under one traffic, a row is a
case at a concurrency. Acceptance is predicted once for all cases, step cost once for all rows, whatever their number,
so that comparing all methods costs little more than looking at one. Each arm of a row runs what is asked, or what its
own cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from advisor.candidates import Candidate
from advisor.evidence import Evidence
from advisor.speedup import Speedups, compare
from models.acceptance import (
    AcceptanceEstimate,
    AcceptanceInputs,
    AcceptanceModel,
    acceptance_from_evidence,
)
from models.artefact import read_manifest
from models.estimate import Estimate, Floats
from models.step_cost import PassCosts, StepCostInputs, StepCostModel, step_cost_table
from profiler.deployment import Deployment

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What each request is like: lengths in tokens, sampling, and what it asks for."""

    input_tokens: float
    output_tokens: float
    cached_prefix_share: float
    temperature: float
    overlap: float
    structure: Floats  # shares of the output tokens over models.structure.STRUCTURES
    output_log_sd: float = 0.0  # of output_tokens, where they were predicted

    @property
    def cached_tokens(self) -> float:
        """Prompt tokens that the prefix cache serves."""
        return self.input_tokens * self.cached_prefix_share

    @property
    def context_tokens(self) -> float:
        """Mean tokens that a decoding sequence attends to."""
        return self.input_tokens + self.output_tokens / 2.0

    @property
    def request_tokens(self) -> float:
        """Tokens that a request holds in the cache at its end."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate with one k under one set of conditions, and how many sequences each arm can run."""

    candidate: Candidate
    k: int
    conditions: Conditions
    limit: int  # sequences that run at once with speculation: by KV cache and max_num_seqs
    limit_without: int


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of rows; `acceptance` has one row for each case, everything else one for each row."""

    cases: tuple[Case, ...]
    case: Ints  # row -> index of its case
    concurrency: Ints
    acceptance: AcceptanceEstimate
    gain: Estimate  # of each case
    without: PassCosts
    beside: PassCosts  # without speculation, as many sequences as the speculative arm runs
    speculative: PassCosts
    log_sd_end_to_end: Floats  # of the costs alone
    log_sd_tpot: Floats
    speedups: Speedups
    covered: NDArray[np.bool_]
    gaps: Ints
    measured: NDArray[np.bool_]  # rows near enough to a probe for the measurement to decide


@cache
def acceptance_model() -> AcceptanceModel:
    """The acceptance model, read once."""
    return AcceptanceModel.from_artefact()


@cache
def step_cost_model() -> StepCostModel:
    """The step-cost model, read once."""
    return StepCostModel.from_artefact()


def layer_overhead_ms() -> float:
    """What launching one layer costs, as fitted."""
    return float(step_cost_model().constants_.value["o_layer_ms"])


@cache
def model_version() -> str:
    """The digests of the numbers behind each model, so that an answer can be traced to them."""
    digests = {name.split(".")[0]: its["sha256"] for name, its in read_manifest().items()}
    return ", ".join(f"{name} {digest[:8]}" for name, digest in digests.items())


def predict_plainly(
    deployment: Deployment,
    cases: Sequence[Case],
    *,
    case: Ints,
    concurrency: Ints,
    evidence: Evidence | None,
) -> Predictions:
    """The models' own predictions, with measured acceptance where there is some."""
    acceptance = predict_acceptance(deployment, cases, evidence)
    drafting = np.array([c.k > 0 for c in cases])
    gain = Estimate(np.where(drafting, acceptance.gain.value, 0.0), np.where(drafting, acceptance.gain.log_sd, 0.0))
    limits = np.array([(c.limit, c.limit_without) for c in cases], dtype=np.float64)[case]
    running = np.minimum(concurrency, limits[:, 0])
    running_without = np.minimum(concurrency, limits[:, 1])
    # Rows whose arms run different numbers of sequences need the baseline at its own number, too.
    apart = np.flatnonzero(running != running_without)
    cost = step_cost_model().predict(
        _cost_inputs(deployment, cases, acceptance, case=case, running=running, apart=apart, without=running_without)
    )
    rows = case.shape[0]
    outputs = np.array([(c.conditions.output_tokens, c.conditions.output_log_sd) for c in cases])[case]
    # The rows themselves, and for the baseline of those apart the ones that follow them.
    own = np.arange(rows)
    alone = own.copy()
    alone[apart] = rows + np.arange(apart.size)
    without, beside, speculative = cost.without.rows(alone), cost.without.rows(own), cost.speculative.rows(own)
    speedups = compare(
        without=without,
        speculative=speculative,
        gain=Estimate(gain.value[case], gain.log_sd[case]),
        output_tokens=Estimate(outputs[:, 0], outputs[:, 1]),
        log_sd_end_to_end=cost.log_sd_end_to_end[:rows],
        log_sd_tpot=cost.log_sd_tpot[:rows],
        beside=beside if apart.size else without,
    )
    return Predictions(
        cases=tuple(cases), case=case, concurrency=concurrency, acceptance=acceptance, gain=gain, without=without,
        beside=beside, speculative=speculative, log_sd_end_to_end=cost.log_sd_end_to_end[:rows],
        log_sd_tpot=cost.log_sd_tpot[:rows],
        speedups=speedups, covered=cost.covered[:rows], gaps=cost.gaps[:rows],
        measured=np.zeros(rows, dtype=np.bool_),
    )  # fmt: skip


def predict_acceptance(deployment: Deployment, cases: Sequence[Case], evidence: Evidence | None) -> AcceptanceEstimate:
    """Acceptance of every case, resting on the user's counts where there are any."""
    target = deployment.target.parameters
    inputs = AcceptanceInputs.of(
        method=[c.candidate.method for c in cases],
        num_speculative_tokens=[max(c.k, 1) for c in cases],  # k = 0, a tier without drafts, gains nothing
        temperature=[c.conditions.temperature for c in cases],
        probabilistic=[c.candidate.probabilistic for c in cases],
        size_ratio=[
            np.nan if c.candidate.draft is None or c.candidate.draft.is_drafter_head
            else c.candidate.draft.parameters / target
            for c in cases
        ],
        overlap=[c.conditions.overlap for c in cases],
        lookup_min=[c.candidate.lookup[0] if c.candidate.lookup else np.nan for c in cases],
        structure=np.stack([c.conditions.structure for c in cases]),
    )  # fmt: skip
    if evidence is None or evidence.acceptance is None:
        return acceptance_model().predict(inputs)
    return acceptance_from_evidence(evidence.acceptance, inputs=inputs, model=acceptance_model())


def _cost_inputs(
    deployment: Deployment, cases: Sequence[Case], acceptance: AcceptanceEstimate, *,
    case: Ints, running: Floats, apart: Ints, without: Floats,
) -> StepCostInputs:  # fmt: skip
    """The physics of all rows, in their order, followed by baseline rows for those `apart`."""
    conditions = np.array(
        [(c.conditions.context_tokens, c.conditions.input_tokens, c.conditions.cached_tokens, c.k) for c in cases]
    )
    places: dict[Candidate, int] = {}
    which = np.array([places.setdefault(c.candidate, len(places)) for c in cases])
    row = np.concatenate([case, case[apart]])
    context, prompt, cached, k = conditions[row].T
    return step_cost_table(
        deployment,
        [*(candidate.speculation(candidate.ks[0]) for candidate in places), None],
        which=np.concatenate([which[case], np.full(apart.size, len(places))]),
        concurrency=np.concatenate([running, without[apart]]),
        context_tokens=context,
        prefill_tokens=prompt - cached,
        cached_tokens=cached,
        num_speculative_tokens=k,
        draft_share=acceptance.draft_share[row],
    )
