"""The memory plan against every engine that the data set logged."""

from pathlib import Path

import pytest

from profiler.measurements import read_engines
from profiler.measurements.deployment import read_shapes
from profiler.measurements.memory import compare_memory

DATA = Path(__file__).parents[3] / "data"
MEASURED = compare_memory(read_engines(DATA / "measurements"), read_shapes(DATA / "grids"))


def test_every_engine_that_came_up_is_compared():
    """None is left out of the comparison for being awkward."""
    engines = [e for e in read_engines(DATA / "measurements") if e["kv_cache_tokens"]]
    assert len(MEASURED) == len(engines) >= 13


@pytest.mark.parametrize("measured", MEASURED, ids=lambda m: m.logged["engine_id"])
def test_the_planned_cache_is_within_2_percent_of_the_logged_one(measured):
    """In tokens and in bytes, on a GPU of the logged size."""
    assert abs(measured.gap) < 0.02
    assert measured.plan.kv_bytes == pytest.approx(measured.logged["kv_cache_bytes"], rel=0.02)


@pytest.mark.parametrize("measured", MEASURED, ids=lambda m: m.logged["engine_id"])
def test_each_term_is_near_the_logged_one(measured):
    """Weights within 0.1 GiB (a head's own output layer apart, which a dummy one shares), driver within 0.05 GiB.

    Activation lacks at most 1 GiB: 0.1 to 0.2 in every start, the rest in starts that had to compile. The reserve
    for graphs extrapolates one capture (1.39 GiB set aside for 0.74 taken): the plan is up to 1.3 GiB below it.
    """
    gib = 2**30
    gaps = {name: gap / gib for name, gap in measured.term_gaps_bytes.items()}
    head = 0.32 if measured.logged["drafter_lm_head"] == "target" else 0.0
    assert -0.1 < gaps["weights"] < 0.1 + head
    assert abs(gaps["non_torch"]) < 0.05
    assert -1.0 < gaps["activation"] < 0.05
    assert -1.3 < gaps["graphs"] <= 0.0
