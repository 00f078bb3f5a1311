"""The map around an answer: in step with the answers themselves, and empty where nothing can be served."""

from __future__ import annotations

import pytest

from advisor import RecommendationRequest, advise
from advisor.exploration import CONCURRENCIES, INPUT_TOKENS, explore
from tests.advisor.deployments import EAGLE3_K3, body


def request(**parts) -> RecommendationRequest:
    return RecommendationRequest.model_validate(body(**parts))


@pytest.mark.parametrize(("concurrency", "tokens"), [(1, 64), (16, 512), (128, 2048), (256, 8192)])
def test_a_cell_of_the_map_is_the_answer_that_is_asked_there(concurrency, tokens):
    """Asking at the cell itself gives its speedup, also where the cache holds fewer requests than are asked."""
    found = explore(request(speculation=EAGLE3_K3)).map
    row, column = found.input_tokens.index(tokens), found.concurrency.index(concurrency)
    asked = request(speculation=EAGLE3_K3, traffic={"concurrency": concurrency, "input_tokens": tokens})
    assert found.speedup[row][column] == pytest.approx(advise(asked).speedup.end_to_end.value, abs=1e-4)


def test_the_answer_is_that_of_the_advisor():
    """But for its id."""
    asked = request()
    one, other = explore(asked).recommendation, advise(asked)
    assert one.model_copy(update={"id": other.id}) == other


def test_the_grid_is_the_same_wherever_the_point_lies():
    """Up to the context: a row of prompts that leave no room for an answer is empty, and longer ones are not shown."""
    for concurrency in (1, 200):
        found = explore(request(traffic={"concurrency": concurrency})).map
        assert found.concurrency == list(CONCURRENCIES)
        assert found.input_tokens == [n for n in INPUT_TOKENS if n < 16384]
    long = explore(request(max_model_len=8193, traffic={"output_tokens": 100})).map
    assert long.input_tokens[-1] == 8192
    assert long.speedup[-1] == [None] * len(CONCURRENCIES)
    assert long.holds[-1] is None


def test_the_map_follows_the_objective():
    """Time per output token is another map."""
    one, other = (explore(request(policy={"objective": o})).map.speedup for o in ("end_to_end", "tpot"))
    assert one != other
