"""How much faster is this workload with speculation, and how sure is that?

Physics: each arm is a closed loop of its running requests (`models.step_cost.closed_loop`): a request takes the passes
that prefill it, (n_out - 1) / τ that decode it, and the prefills of the others ride on all of them. The speedup is
output tokens per second with over without: where the cache holds fewer sequences than ask for service, the rest waits,
and each arm runs what its own cache holds. Times per token are (E2E - TTFT) / (n_out - 1), as a client measures them.

Errors: every input is lognormal, first order (delta method) on the logarithm. The costs' error is that of speedups
predicted for cells which the fit had not seen; to it come the error of the acceptance and that of the answers' length,
each as far as it moves the ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from advisor.recommendation import INTERVAL_LEVEL
from models.estimate import Estimate, Floats
from models.step_cost import PassCosts, closed_loop

Z_LEVEL = NormalDist().inv_cdf((1.0 + INTERVAL_LEVEL) / 2.0)  # both tails together leave out the rest
_STEP = 0.01  # of the numerical derivatives, in logarithms


@dataclass(frozen=True, slots=True)
class Speedups:
    """Both ratios of each row, lognormal about their values."""

    end_to_end: Estimate
    tpot: Estimate
    end_to_end_acceptance_log_sd: Floats  # the part of each spread that is acceptance's alone
    tpot_acceptance_log_sd: Floats


def compare(
    *,
    without: PassCosts,
    speculative: PassCosts,
    gain: Estimate,
    output_tokens: Estimate,
    log_sd_end_to_end: Floats,
    log_sd_tpot: Floats,
    beside: PassCosts | None = None,
) -> Speedups:
    """Both speedups of each row with their spread.

    gain: τ - 1, the extra tokens of a decode step. output_tokens: length of an answer, with its own error.
    log_sd_end_to_end, log_sd_tpot: the costs' error of the two speedups.
    beside: the baseline with as many sequences as the speculative arm runs; `without`, where both run as many. The time
    per token is compared with that: a drafter that leaves room for half the sequences makes the rest wait, which no
    time per token shows, and to run fewer is no merit of speculation. What it costs is in the end-to-end speedup.
    """
    # As it is, with a little more accepted, and with answers a little longer: one row of variations each.
    gains = gain.value * np.exp(_STEP * np.array([[0.0], [1.0], [0.0]]))
    lengths = output_tokens.value * np.exp(_STEP * np.array([[0.0], [0.0], [1.0]]))
    arms = (speculative, without) if beside is None or beside is without else (speculative, without, beside)
    end_to_end, tpot = _log_ratios(arms, tau=1.0 + gains, n=lengths)
    accepted = np.abs(end_to_end[1] - end_to_end[0]) / _STEP * gain.log_sd
    accepted_tpot = np.abs(tpot[1] - tpot[0]) / _STEP * gain.log_sd
    length = np.abs(end_to_end[2] - end_to_end[0]) / _STEP * output_tokens.log_sd
    length_tpot = np.abs(tpot[2] - tpot[0]) / _STEP * output_tokens.log_sd
    return Speedups(
        end_to_end=Estimate(np.exp(end_to_end[0]), np.sqrt(log_sd_end_to_end**2 + accepted**2 + length**2)),
        tpot=Estimate(np.exp(tpot[0]), np.sqrt(log_sd_tpot**2 + accepted_tpot**2 + length_tpot**2)),
        end_to_end_acceptance_log_sd=accepted,
        tpot_acceptance_log_sd=accepted_tpot,
    )


def _log_ratios(arms: Sequence[PassCosts], *, tau: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the end-to-end and the TPOT speedup, both (variations, rows) as tau and n are.

    arms: with speculation, without, and without beside it where that is another number of sequences.
    """
    variations, rows = tau.shape
    whole = PassCosts.concatenate([arm for arm in arms for _ in range(variations)])
    one = np.ones_like(tau)
    loop = closed_loop(
        whole,
        tokens_per_step=np.concatenate([tau, *(one for _ in arms[1:])]).ravel(),
        output_tokens=np.concatenate([n] * len(arms)).ravel(),
    )
    # The time for each request that leaves the loop, and its TPOT.
    request = np.log(loop.end_to_end_ms / whole.running).reshape(len(arms), variations, rows)
    token = np.log(loop.tpot_ms).reshape(len(arms), variations, rows)
    return request[1] - request[0], token[-1] - token[0]


def bounds(estimate: Estimate) -> tuple[Floats, Floats]:
    """The interval that holds the true value with probability `INTERVAL_LEVEL`."""
    half = np.exp(Z_LEVEL * estimate.log_sd)
    return estimate.value / half, estimate.value * half


def concurrency_at_rate(*, request_rate: float, concurrency: Floats, request_time_ms: Floats) -> tuple[float, bool]:
    """Little's law: the concurrency at which requests arrive as fast as they leave, and whether the server saturates.

    concurrency (rising) and request_time_ms: what one request takes at each, without speculation. Between two of them
    the completion rate is interpolated. Where even the last completes fewer than arrive, the last is returned: the
    queue grows without bound.
    """
    rate = 1000.0 * concurrency / request_time_ms
    rate = np.maximum.accumulate(rate)
    if request_rate >= rate[-1]:
        return float(concurrency[-1]), bool(request_rate > rate[-1])
    if request_rate <= rate[0]:
        return float(concurrency[0]), False
    return float(np.interp(request_rate, rate, concurrency)), False
