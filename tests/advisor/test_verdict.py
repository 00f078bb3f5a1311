"""The verdict rule: one distribution, a threshold, a confidence, and the lower bound among candidates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.verdict import best_row, decide, probability_of
from models.estimate import Estimate


def estimate(values, sds):
    return Estimate(np.array(values, dtype=float), np.array(sds, dtype=float))


@given(value=st.floats(0.2, 5), sd=st.floats(0, 1), one=st.floats(0.5, 4), other=st.floats(0.5, 4))
def test_probability_falls_with_the_threshold(value, sd, one, other):
    """A higher threshold is never more probable to be reached, and 0.5 is crossed at the value itself."""
    low, high = sorted((one, other))
    p_low, p_high = (probability_of(value, sd, min_speedup=t) for t in (low, high))
    assert p_low >= p_high
    assert (p_low >= 0.5) == (value >= low) or np.isclose(value, low)


@given(probability=st.floats(0, 1), confidence=st.floats(0.5, 0.99), measured=st.booleans())
def test_verdict_and_probability_agree(probability, confidence, measured):
    """Enable exactly from 0.5 on; decisive never without a measurement, else where either side reaches confidence."""
    decision = decide(probability=probability, confidence=confidence, measured_here=measured)
    assert (decision.verdict == "enable") == (decision.probability >= 0.5)
    assert decision.decisive == (measured and max(probability, 1 - probability) >= confidence)


def test_a_known_value_decides_without_spread():
    """Without spread the probability is 1 above the threshold and 0 below."""
    assert probability_of(1.2, 0.0, min_speedup=1.05) == pytest.approx(1)
    assert probability_of(1.0, 0.0, min_speedup=1.05) == pytest.approx(0)


def test_the_best_is_chosen_by_its_lower_bound():
    """A surer 1.5 goes before an unsure 1.6: the maximum of noisy predictions is biased upward."""
    both = estimate([1.6, 1.5], [0.3, 0.05])
    assert best_row(both, rows=[0, 1]) == 1
    assert best_row(both, rows=[0]) == 0
