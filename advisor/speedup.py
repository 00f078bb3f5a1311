"""How much faster is this workload with speculation, and how sure is that?

Physics: at constant concurrency b the prefills of the others run between a request's decode steps, so that a request
takes E2E = b · t_prefill + steps · T_step with steps = (n_out - 1) / τ, and its time per output token, as a client
measures it, is (E2E - t_prefill) / (n_out - 1). The speedup is output tokens per second with over without: where the
cache holds fewer sequences than ask for service, the rest waits, and each arm runs what its own cache holds.

Errors: every input is lognormal. The step time's own error and the prefill's are shared by both arms and cancel as far
as the arms spend the same share of their time there; what remains is the error of the ratio of the steps and of the
acceptance. First order (delta method) on the logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.estimate import Estimate, Floats

LEVEL = 0.9
Z_LEVEL = 1.6448536269514722  # standard normal quantile of 0.95: both tails together leave out 10 %


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of the comparison, with or without speculation; equal-length arrays."""

    running: Floats  # sequences that run at once: what is asked, or what the cache and max_num_seqs admit
    prefill_ms: Floats  # of one request's uncached prompt
    step_ms: Floats  # one decode step of all running sequences


@dataclass(frozen=True, slots=True)
class Speedups:
    """Both ratios of each row, lognormal about their values."""

    end_to_end: Estimate
    tpot: Estimate
    end_to_end_acceptance_log_sd: Floats  # the part of each spread that is acceptance's alone
    tpot_acceptance_log_sd: Floats


def request_ms(
    *, running: Floats, prefill_ms: Floats, step_ms: Floats, tokens_per_step: Floats, output_tokens: Floats
) -> Floats:
    """One request from its admission to its last token, in a closed loop of `running` requests."""
    return running * prefill_ms + _steps(output_tokens, tokens_per_step) * step_ms


def tpot_ms(
    *, running: Floats, prefill_ms: Floats, step_ms: Floats, tokens_per_step: Floats, output_tokens: Floats
) -> Floats:
    """Time per output token after the first, the prefills of the other requests included."""
    after_first = np.maximum(output_tokens - 1.0, 1e-9)
    return ((running - 1.0) * prefill_ms + _steps(output_tokens, tokens_per_step) * step_ms) / after_first


def _steps(output_tokens: Floats, tokens_per_step: Floats) -> Floats:
    """Decode steps of one request: the first token is the prefill's, and what is left takes one step at least."""
    left = np.maximum(output_tokens - 1.0, 1e-9)
    return np.maximum(left / tokens_per_step, np.minimum(left, 1.0))


def compare(
    *,
    without: Arm,
    speculative: Arm,
    gain: Estimate,
    output_tokens: Estimate,
    log_sd_step: Floats,
    log_sd_ratio: Floats,
    beside: Arm | None = None,
) -> Speedups:
    """Both speedups of each row with their spread.

    gain: τ - 1, the extra tokens of a decode step. log_sd_step: absolute error of step and prefill times (shared by the
    arms). log_sd_ratio: error of T_step / T_base. output_tokens: length of an answer, with its own error.
    beside: the baseline with as many sequences as the speculative arm runs; `without`, where both run as many. The time
    per token is compared with that: a drafter that leaves room for half the sequences makes the rest wait, which no
    time per token shows, and to run fewer is no merit of speculation. What it costs is in the end-to-end speedup.
    """
    one, n = np.ones_like(gain.value), output_tokens.value
    tau = 1.0 + gain.value
    e2e_without = request_ms(
        running=without.running,
        prefill_ms=without.prefill_ms,
        step_ms=without.step_ms,
        tokens_per_step=one,
        output_tokens=n,
    )
    e2e_with = request_ms(
        running=speculative.running,
        prefill_ms=speculative.prefill_ms,
        step_ms=speculative.step_ms,
        tokens_per_step=tau,
        output_tokens=n,
    )
    after_first = np.maximum(n - 1.0, 1e-9)
    beside = without if beside is None else beside
    e2e_beside = request_ms(
        running=beside.running,
        prefill_ms=beside.prefill_ms,
        step_ms=beside.step_ms,
        tokens_per_step=one,
        output_tokens=n,
    )
    tpot_without = (e2e_beside - beside.prefill_ms) / after_first
    tpot_with = (e2e_with - speculative.prefill_ms) / after_first
    decode_without, decode_beside = _steps(n, one) * without.step_ms, _steps(n, one) * beside.step_ms
    decode_with = _steps(n, tau) * speculative.step_ms

    def from_acceptance(share_with: Floats) -> Floats:
        part: Floats = share_with * gain.value / tau * gain.log_sd
        return part

    def spread(share_without: Floats, share_with: Floats) -> Floats:
        """Standard deviation of the ratio's logarithm; the shares are those of decoding in each arm's time."""
        # Step and prefill err independently; an error of the answers' length moves time between them just so.
        shared = (share_without - share_with) * np.sqrt(2.0 * log_sd_step**2 + output_tokens.log_sd**2)
        spread: Floats = np.sqrt(shared**2 + (share_with * log_sd_ratio) ** 2 + from_acceptance(share_with) ** 2)
        return spread

    return Speedups(
        end_to_end=Estimate(
            (speculative.running / e2e_with) / (without.running / e2e_without),
            spread(decode_without / e2e_without, decode_with / e2e_with),
        ),
        tpot=Estimate(
            tpot_without / tpot_with,
            spread(decode_beside / (tpot_without * after_first), decode_with / (tpot_with * after_first)),
        ),
        end_to_end_acceptance_log_sd=from_acceptance(decode_with / e2e_with),
        tpot_acceptance_log_sd=from_acceptance(decode_with / (tpot_with * after_first)),
    )


def bounds(estimate: Estimate) -> tuple[Floats, Floats]:
    """The interval that holds the true value with probability `LEVEL`."""
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
