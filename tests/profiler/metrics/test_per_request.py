"""What a response says about its own drafts is read as the counters are."""

import pytest

from profiler.metrics import request_speculation

# 20 steps of k = 3: 9 accepted nothing, 5 one, 4 two, 2 all three.
COUNTS = {
    "num_spec_steps": 20,
    "num_draft_tokens": 60,
    "num_accepted_draft_tokens": 19,
    "num_spec_tokens": 3,
    "acceptance_histogram": [9, 5, 4, 2],
}


@pytest.mark.parametrize(
    "response",
    [COUNTS, {"metrics": COUNTS}, {"metrics": {"speculative_decoding": COUNTS}, "choices": []}],
    ids=["the counts", "as metrics", "as vLLM writes it"],
)
def test_a_histogram_is_summed_up_from_its_end(response):
    """Position i was accepted in every step that accepted more than i drafts: 11, 6 and 2 of 20."""
    counters = request_speculation(response)
    assert counters is not None
    assert counters.accepted_per_position == (11, 6, 2)
    assert sum(counters.accepted_per_position) == counters.accepted_tokens
    assert counters.acceptance_length == pytest.approx(1.95)
    assert counters.position_rates == pytest.approx((0.55, 0.3, 0.1))


@pytest.mark.parametrize("histogram", [None, [9, 5, 4], [9, 5, 4, "2"], [19, 0, 0, 1]])
def test_a_histogram_of_something_else_is_left_out(histogram):
    """The totals stand; positions are unknown where the histogram does not add up to them."""
    counters = request_speculation(COUNTS | {"acceptance_histogram": histogram})
    assert counters is not None
    assert counters.accepted_tokens == 19
    assert counters.position_rates is None


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"metrics": None},
        {"metrics": {"time_to_first_token": 0.1}},
        COUNTS | {"num_draft_tokens": "60"},
        COUNTS | {"num_accepted_draft_tokens": 61},
    ],
)
def test_no_counts_are_none(response):
    """A response without counts, or with impossible ones, says nothing about acceptance."""
    assert request_speculation(response) is None


def test_a_request_that_drafted_nothing_has_no_acceptance():
    """Zero drafts are unknown acceptance, whatever length the server prints for them."""
    none = COUNTS | {"num_spec_steps": 0, "num_draft_tokens": 0, "num_accepted_draft_tokens": 0}
    counters = request_speculation(none | {"acceptance_histogram": [0, 0, 0, 0], "mean_acceptance_length": 1.0})
    assert counters is not None
    assert counters.acceptance_length is None
