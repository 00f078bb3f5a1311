"""Which coefficients of acceptance do the measured rows and the published tables give together?

Draft models: one mixture of logits over positions (acceptance_mixture) with the published Gaussian as prior; heads
(EAGLE, EAGLE-3, MTP, Medusa) follow through that Gaussian, since classes and temperature are shared. n-gram: one
mixture for acceptance given a draft, one for the share of steps that draft, both with the shortest match and with
copying. Suffix decoding, where it is not measured, is n-gram's with a short match.

Each mixture is fitted thrice: plainly, to see how prompts differ beside it; with weights that allow for it; and without
what is known of copying, its effect held, so that class effects are those of prompts whose answers nobody knows yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from models.acceptance.coefficients import DEFAULT_LOOKUP_MIN, HEAT_KNOTS, AcceptanceCoefficients
from models.estimate import Floats
from models.structure import STRUCTURES
from models.training.acceptance_copying import CopyScale, copy_scale
from models.training.acceptance_mixture import (
    FIXED_KNOT,
    GREEDY_KNOTS,
    SOFT_KNOTS,
    Counts,
    Layout,
    Mixture,
    Prior,
    class_gains,
    scatter,
    weights,
)
from models.training.acceptance_priors import (
    DRAFTER,
    GREEDY_HEAT,
    GREEDY_HEAT_SD,
    SOFT_HEAT,
    Published,
    drafter_prior,
    hold_heat,
    updated,
)
from models.training.acceptance_rows import AcceptanceRows, Mask

HEADS = ("eagle3", "eagle", "mtp", "medusa")
METHODS = ("eagle3", "eagle", "mtp", "draft_model", "medusa", "ngram", "suffix")
SUFFIX_MATCH = 2.0  # tokens: suffix decoding drafts on any repetition that its counts find likely
COPIER = Layout(covariates=3, classes=len(STRUCTURES))  # level, shortest match, copying beside its classes
MEDUSA_DECAY = "eagle3"


@dataclass(frozen=True, slots=True)
class Fitted:
    """One mixture's parameters, their covariance, and how prompts differ beside it."""

    x: Floats
    covariance: Floats
    between: float  # variance between prompts of accepted tokens a draft (of drafts a step)
    between_log_sd: float


@dataclass(frozen=True, slots=True)
class AcceptanceFit:
    """All mixtures, as fitted; kept so that folds can start from them."""

    drafter: Fitted
    accepted: Fitted
    share: Fitted
    scale: CopyScale
    means: Floats  # the published Gaussian's, moved by what was measured


def fit_acceptance(rows: AcceptanceRows, published: Published, *, start: AcceptanceFit | None = None) -> AcceptanceFit:
    """Fit to rows (of draft models, n-gram and suffix; there may be none)."""
    rows = rows.take(~rows.structured)
    found = copy_scale(rows, published)
    beside = np.stack([found.beside(rows, found.known(rows)), found.beside(rows, found.cold(rows))], axis=1)
    drafting = rows.method == "draft_model"
    prior = drafter_prior(published)
    sizes = np.log(np.where(np.isfinite(rows.size_ratio), rows.size_ratio, 1.0)) - published.document["size_centre"]
    counted = _counts(rows, drafting, sizes, beside)
    first = _fit(DRAFTER, counted, prior, None) if start is None else start.drafter
    drafter = _fit(DRAFTER, _Counted(_by_steps(counted.counts, first), counted.cold), prior, first)
    copying = rows.method == "ngram"
    least = np.where(np.isfinite(rows.lookup_min), rows.lookup_min, DEFAULT_LOOKUP_MIN)
    match = np.log(least / DEFAULT_LOOKUP_MIN)
    steps = _share_counts(rows, copying, match, beside)
    share = _fit(COPIER, steps, _share_prior(published), None if start is None else start.share)
    counted = _counts(rows, copying, match, beside)
    accepted = _fit(COPIER, counted, _accepted_prior(), None if start is None else start.accepted)
    return AcceptanceFit(drafter, accepted, share, found, updated(published, prior, drafter.x))


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts, with copying as the answers show it; and the covariate of copying as it is known before them."""

    counts: Counts
    cold: Floats


def _by_steps(counts: Counts, fitted: Fitted) -> Counts:
    """The counts with shares of tokens made shares of steps, as predictions mix classes."""
    steps = counts.structure / (1.0 + class_gains(fitted.x, DRAFTER, counts))
    return replace(counts, structure=steps / steps.sum(axis=1, keepdims=True))


def _fit(layout: Layout, counted: _Counted, prior: Prior, start: Fitted | None) -> Fitted:
    """The three passes; from an earlier fit, whose scatter serves, the latter two."""
    counts = counted.counts
    if not len(counts.weight):
        first = np.clip(prior.mean, prior.low, prior.high)
        return Fitted(first, Mixture(layout, counts, prior).covariance(first), 0.0, 0.0)
    if start is None:
        plain = Mixture(layout, counts, prior)
        x = plain.fit()
        spread = scatter(counts, plain.state(x).mixed)
        between, log_sd = spread.between, spread.log_sd
    else:
        x, between, log_sd = start.x, start.between, start.between_log_sd
    weighed = replace(counts, weight=weights(counts, between))
    mixture = Mixture(layout, weighed, prior)
    x = mixture.fit(x)
    covariance = mixture.covariance(x)
    # Before there are answers copying is what the prompts let expect: its effect is kept, the classes are fitted anew.
    copy = layout.covariates - 1
    blind = weighed.covariates.copy()
    blind[:, copy] = counted.cold
    held = replace(prior, low=prior.low.copy(), high=prior.high.copy())
    held.low[copy] = held.high[copy] = x[copy]
    x = Mixture(layout, replace(weighed, covariates=blind), held).fit(x)
    return Fitted(x, covariance, between, log_sd)


def _counts(rows: AcceptanceRows, chosen: Mask, covariate: Floats, beside: Floats) -> _Counted:
    """Counts by position of the chosen rows that drafted."""
    chosen = chosen & (rows.drafts > 0)
    part = rows.take(chosen)
    positions = max(int(part.num_speculative_tokens.max(initial=1)), 1)
    within = np.arange(1, positions + 1)[None, :] <= part.num_speculative_tokens[:, None]
    accepted = part.accepted[:, :positions] * within
    reached = np.concatenate([part.drafts[:, None], accepted[:, :-1]], axis=1) * within
    counts = Counts(
        covariates=np.stack([np.ones(len(part)), covariate[chosen], beside[chosen, 0]], axis=1),
        structure=part.structure, temperature=part.temperature, probabilistic=part.probabilistic.astype(np.float64),
        reached=reached, accepted=accepted, within=within.astype(np.float64), repeats=_repeats(part),
        weight=np.ones(len(part)),
    )  # fmt: skip
    return _Counted(counts, beside[chosen, 1])


def _share_counts(rows: AcceptanceRows, chosen: Mask, covariate: Floats, beside: Floats) -> _Counted:
    """Steps that drafted, of all, as one position."""
    part = rows.take(chosen)
    counts = Counts(
        covariates=np.stack([np.ones(len(part)), covariate[chosen], beside[chosen, 0]], axis=1),
        structure=part.structure, temperature=part.temperature, probabilistic=np.zeros(len(part)),
        reached=part.steps[:, None], accepted=part.drafts[:, None], within=np.ones((len(part), 1)),
        repeats=_repeats(part), weight=np.ones(len(part)),
    )  # fmt: skip
    return _Counted(counts, beside[chosen, 1])


def _repeats(rows: AcceptanceRows) -> Floats:
    """How many of the rows are of each row's prompt."""
    _, inverse, number = np.unique(rows.prompt, return_inverse=True, return_counts=True)
    counted: Floats = number[inverse].astype(np.float64)
    return counted


def _copier_prior(level: float, match: float, copy: float, decay_sd: float) -> Prior:
    """Weak: what lookup finds was published as tokens a step alone. Longer matches are better and rarer ones."""
    layout = COPIER
    mean, sd = np.zeros(layout.size), np.ones(layout.size)
    mean[:3], sd[:3] = (level, match, copy), (1.5, 1.0, 0.5)
    sd[layout.effect] = 0.7
    mean[layout.slope], sd[layout.slope] = 0.3, 0.3
    mean[layout.heat], sd[layout.heat] = GREEDY_HEAT, GREEDY_HEAT_SD
    mean[layout.soft_heat] = SOFT_HEAT  # there is nothing to draft probabilistically
    sd[layout.decay], sd[layout.tilt] = decay_sd, 0.01
    low, high = np.full(layout.size, -np.inf), np.full(layout.size, np.inf)
    low[2], low[layout.slope] = 0.0, 0.0
    hold_heat(layout, low, high)
    return Prior(mean=mean, precision=np.diag(sd**-2.0), low=low, high=high)


def _accepted_prior() -> Prior:
    prior = _copier_prior(level=0.8, match=0.5, copy=0.3, decay_sd=0.3)
    prior.low[1] = 0.0
    return prior


def _share_prior(published: Published) -> Prior:
    prior = _copier_prior(level=-1.0, match=-0.5, copy=1.0, decay_sd=0.01)
    prior.high[1] = 0.0
    gain = published.document["lookup"]["log_gain"]
    centre = np.mean(list(gain.values()))
    prior.mean[COPIER.effect] = [gain.get(name, centre) - centre for name in STRUCTURES]
    return prior


def _heats(x: Floats, layout: Layout) -> tuple[Floats, Floats]:
    """Heat at every knot of greedy and of probabilistic drafts; never falling, and less for the latter."""
    greedy, soft = np.zeros(len(HEAT_KNOTS)), np.zeros(len(HEAT_KNOTS))
    greedy[FIXED_KNOT] = 1.0
    greedy[GREEDY_KNOTS], soft[SOFT_KNOTS] = x[layout.heat], x[layout.soft_heat]
    return greedy, np.minimum(np.maximum.accumulate(soft), greedy)


def coefficients_of_fit(fit: AcceptanceFit, published: Published) -> AcceptanceCoefficients:
    """The fit in the shape that predictions are made from; spreads are left to the evaluation."""
    count = len(STRUCTURES)
    rows = {name: METHODS.index(name) for name in METHODS}
    moved = fit.means
    size = len(METHODS)
    table = {
        name: np.zeros(size)
        for name in ("intercept", "decay", "heat_decay", "size", "size_log_sd", "copy", "lookup", "share_copy",
                     "share_lookup", "length_log_sd", "share_logit_sd")
    }  # fmt: skip
    effect, slope, share_class = np.zeros((size, count)), np.zeros((size, count)), np.zeros((size, count))
    share_slope = np.zeros((size, count))
    warm, soft, share_warm = (np.zeros((size, len(HEAT_KNOTS))) for _ in range(3))
    share_level = np.full(size, np.inf)
    for name in HEADS:
        row = rows[name]
        decay = f"decay {name if name == 'mtp' else MEDUSA_DECAY}"
        level, table["decay"][row] = moved[published.rows(f"level {name}", decay)]
        table["intercept"][row] = level
        effect[row], slope[row] = moved[published.of("task")], np.maximum(moved[published.of("slope")], 0.0)
        warm[row], soft[row] = _heats(fit.drafter.x, DRAFTER)
    row, x = rows["draft_model"], fit.drafter.x
    table["intercept"][row], table["size"][row], table["copy"][row] = x[DRAFTER.beta]
    table["decay"][row], table["heat_decay"][row] = x[DRAFTER.decay], x[DRAFTER.tilt]
    warm[row], soft[row] = _heats(x, DRAFTER)
    effect[row], slope[row] = x[DRAFTER.effect], x[DRAFTER.slope]
    # About half of a step on the log odds reaches log(AL - 1) at the acceptances seen.
    table["size_log_sd"][row] = 0.5 * np.sqrt(fit.drafter.covariance[1, 1])
    for name in ("ngram", "suffix"):
        row, x, share = rows[name], fit.accepted.x, fit.share.x
        table["intercept"][row], table["lookup"][row], table["copy"][row] = x[COPIER.beta]
        table["decay"][row] = x[COPIER.decay]
        (warm[row], _), (share_warm[row], _) = _heats(x, COPIER), _heats(share, COPIER)
        soft[row] = warm[row]
        effect[row], slope[row] = x[COPIER.effect], x[COPIER.slope]
        share_level[row], table["share_lookup"][row], table["share_copy"][row] = share[COPIER.beta]
        share_class[row], share_slope[row] = share[COPIER.effect], share[COPIER.slope]
    row, match = rows["suffix"], np.log(SUFFIX_MATCH / DEFAULT_LOOKUP_MIN)
    table["intercept"][row] += table["lookup"][row] * match
    share_level[row] += table["share_lookup"][row] * match
    table["lookup"][row] = table["share_lookup"][row] = 0.0
    return AcceptanceCoefficients(
        methods=METHODS, classes=tuple(STRUCTURES), size_centre=published.document["size_centre"],
        within_log_sd=max(fit.drafter.between_log_sd, 0.1), copying=fit.scale.expected,
        class_effect=effect, temperature_slope=slope, heat=warm, probabilistic_heat=soft,
        share_intercept=share_level, share_class=share_class, share_slope=share_slope, share_heat=share_warm, **table,
    )  # fmt: skip
