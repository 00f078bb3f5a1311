"""A measurement corrects predictions where it was taken, less farther away, and by how sure both are."""

import numpy as np
import pytest

from advisor.fusion import LEAST_LOG_SD, REACH, Rows, fuse
from models.estimate import Estimate


def rows(concurrency: list[float], *, log_sd: float = 0.1, acceptance: float = 0.0, heat: float = 0.0) -> Rows:
    n = len(concurrency)
    one = np.ones(n)
    return Rows.of(
        concurrency=np.array(concurrency), input_tokens=900 * one, output_tokens=200 * one, k=3 * one,
        temperature=heat * one, log_sd=log_sd * one, acceptance_log_sd=acceptance * one,
    )  # fmt: skip


def estimates(values: list[float], log_sd: float) -> Estimate:
    return Estimate(np.array(values), np.full(len(values), log_sd))


def test_at_the_probe_both_are_weighted_by_their_variances() -> None:
    """Equal spreads meet in the geometric middle with half the variance."""
    fused = fuse(estimates([1.0], 0.1), rows([8]), predicted=estimates([1.0], 0.1), points=rows([8]),
                 measured=estimates([1.1], 0.1))  # fmt: skip
    assert fused.estimate.value[0] == pytest.approx(np.sqrt(1.1))
    assert fused.estimate.log_sd[0] == pytest.approx(0.1 / np.sqrt(2))
    assert fused.explained[0] == pytest.approx(1.0)
    assert fused.measured[0]


def test_a_correction_fades_with_distance() -> None:
    """Near rows follow the measurement, far ones keep the prediction and its spread."""
    loads = [8.0, 11.0, 32.0, 256.0]
    fused = fuse(estimates([1.0] * 4, 0.1), rows(loads), predicted=estimates([1.0], 0.1), points=rows([8]),
                 measured=estimates([1.1], 0.01))  # fmt: skip
    assert (np.diff(fused.estimate.value) < 0).all()
    assert (np.diff(fused.estimate.log_sd) > 0).all()
    assert (fused.estimate.value > 1.0).all()
    assert fused.measured.tolist() == [True, True, False, False]
    expected = np.log(1.1) * np.exp(-np.log(4) / REACH[0])
    assert np.log(fused.estimate.value[2]) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("acceptance", [0.0, 0.05, 0.0999])
def test_what_counts_as_measured_is_a_matter_of_place(acceptance: float) -> None:
    """Where acceptance is the larger doubt, one probe corrects all loads and yet measures none but its own."""
    given = {"acceptance": acceptance}
    fused = fuse(estimates([1.0] * 4, 0.1), rows([4.0, 5.0, 16.0, 64.0], **given), predicted=estimates([1.0] * 2, 0.1),
                 points=rows([4, 4], **given), measured=estimates([1.1] * 2, 0.01))  # fmt: skip
    assert fused.measured.tolist() == [True, True, False, False]


def test_a_model_that_missed_is_believed_less() -> None:
    """A measurement six spreads away wins though the model was surer than it: the model's spread is taken as larger."""
    fused = fuse(estimates([0.95], 0.05), rows([8], log_sd=0.05), predicted=estimates([0.95], 0.05),
                 points=rows([8], log_sd=0.05), measured=estimates([1.30], 0.1))  # fmt: skip
    assert fused.estimate.value[0] > 1.2


def test_acceptance_does_not_carry_over_to_another_temperature() -> None:
    """What is costs' error carries over, what is acceptance's does not."""
    measured = estimates([1.1], 0.001)
    costs, acceptances = (
        fuse(estimates([1.0], 0.1), rows([8], acceptance=part, heat=1.0), predicted=estimates([1.0], 0.1),
             points=rows([8], acceptance=part, heat=0.0), measured=measured).estimate
        for part in (0.0, 0.1)
    )  # fmt: skip
    assert costs.value[0] == pytest.approx(1.1, rel=0.01)
    assert acceptances.value[0] == pytest.approx(1.0)
    assert acceptances.log_sd[0] == pytest.approx(0.1)


def test_acceptance_s_error_is_the_same_at_every_load() -> None:
    """What is accepted does not depend on how many ask: that part of a gap is carried over undiminished."""
    fused = fuse(estimates([1.0] * 2, 0.1), rows([8.0, 512.0], acceptance=0.1), predicted=estimates([1.0], 0.1),
                 points=rows([8], acceptance=0.1), measured=estimates([1.1], 0.001)).estimate  # fmt: skip
    assert fused.value == pytest.approx([1.1, 1.1], rel=0.01)


def test_many_probes_do_not_add_up_to_certainty() -> None:
    """However often one load is measured, the least doubt of a probe remains."""
    fused = fuse(estimates([1.0], 0.1), rows([8]), predicted=estimates([1.0] * 50, 0.1), points=rows([8.0] * 50),
                 measured=estimates([1.1] * 50, 0.0))  # fmt: skip
    assert fused.estimate.log_sd[0] >= LEAST_LOG_SD * 0.999
    assert np.isfinite(fused.estimate.value).all()


def test_a_truth_that_the_model_may_have_is_found_as_often_as_the_interval_says() -> None:
    """Errors drawn from the model's own covariance: 90 % intervals of an unmeasured row hold 90 % of them."""
    rng = np.random.default_rng(7)
    loads = np.array([4.0, 16.0, 40.0])
    apart = np.abs(np.log(loads[:, None] / loads[None, :])) / REACH[0]
    covariance = 0.15**2 * np.exp(-apart)
    held = 0
    for _ in range(600):
        truth = np.exp(rng.multivariate_normal(np.zeros(3), covariance))
        noisy = truth[:2] * np.exp(rng.normal(0, 0.03, 2))
        fused = fuse(estimates([1.0], 0.15), rows([40.0], log_sd=0.15), predicted=estimates([1.0, 1.0], 0.15),
                     points=rows([4.0, 16.0], log_sd=0.15), measured=estimates(noisy.tolist(), 0.03))  # fmt: skip
        gap = abs(np.log(truth[2] / fused.estimate.value[0]))
        held += gap <= 1.645 * fused.estimate.log_sd[0]
    assert 0.85 <= held / 600 <= 0.97
