"""The classifier and the predicted speedup, held together over a wide sweep of whole requests."""

from itertools import pairwise, product

import pytest

from tests.advisor.deployments import DRAFT_K3, EAGLE3_K3, NGRAM_K4, ask, counts

THRESHOLDS = (1.0, 1.05, 1.2, 1.35, 1.5)
METHODS = {"eagle3": EAGLE3_K3, "draft_model": DRAFT_K3, "ngram": NGRAM_K4, "every method": None}
TRAFFIC = [
    {"concurrency": concurrency, "input_tokens": input_tokens, "temperature": temperature}
    for concurrency, input_tokens, temperature in product((1, 16, 64, 256), (128, 4000), (0.0, 1.0))
]
AS_MUCH_AS_ROUNDING = 1e-9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gpu", ["H200", "L40S"])
def test_the_verdict_never_contradicts_the_predicted_speedup(method, gpu):
    """Enable is said just where the speedup shown reaches the threshold; where refused, the first reason says why.

    P falls from threshold to threshold, and a bound of the interval on either side leaves no doubt of the side.
    """
    refused = 0
    for traffic in TRAFFIC:
        answers = [
            ask(speculation=METHODS[method], traffic=traffic, policy={"min_speedup": threshold}, gpu=gpu)
            for threshold in THRESHOLDS
        ]
        for answer, threshold in zip(answers, THRESHOLDS, strict=True):
            shown = answer.speedup.end_to_end
            if answer.reasons[0].factor == "cannot_run":
                refused += 1
                assert answer.verdict == "disable"
                continue
            if abs(shown.value / threshold - 1.0) > AS_MUCH_AS_ROUNDING:
                assert (answer.verdict == "enable") == (shown.value >= threshold)
            assert (answer.verdict == "enable") == (answer.probability >= 0.5)
            if shown.low >= threshold or shown.high < threshold:
                assert max(answer.probability, 1.0 - answer.probability) > 0.7
        for lower, higher in pairwise(answers):
            assert lower.probability >= higher.probability
    assert refused < len(TRAFFIC) * len(THRESHOLDS) / 2


def test_more_accepted_tokens_never_make_it_less_probable():
    """P rises with the prediction: counts with a larger acceptance length, all else equal."""
    lengths = (1.3, 1.7, 2.1, 2.5, 2.9, 3.3)
    for concurrency, threshold in product((4, 64), THRESHOLDS):
        told = [
            ask(speculation=EAGLE3_K3, evidence=counts(length), traffic={"concurrency": concurrency},
                policy={"min_speedup": threshold})
            for length in lengths
        ]  # fmt: skip
        assert all(a.probability <= b.probability for a, b in pairwise(told))
        assert all(a.speedup.end_to_end.value <= b.speedup.end_to_end.value for a, b in pairwise(told))
