"""Where speculation stops to pay."""

import numpy as np

from advisor.crossover import curve_grid, find_crossover, fine_grid


def test_found():
    """It pays up to 96 and not beyond."""
    found = find_crossover(concurrency=[1, 32, 96, 97, 128], pays=[True, True, True, False, False])
    assert (found.concurrency, found.reason, found.ranges) == (96, "found", ((1, 96),))


def test_none():
    """It never pays."""
    found = find_crossover(concurrency=[1, 2, 4], pays=[False] * 3)
    assert (found.concurrency, found.reason, found.ranges) == (None, "none", ())


def test_beyond_capacity():
    """It pays up to the last concurrency that the server can run."""
    found = find_crossover(concurrency=[1, 2, 4], pays=[True] * 3)
    assert (found.concurrency, found.reason, found.ranges) == (4, "beyond_capacity", ((1, 4),))


def test_it_may_pay_in_two_ranges():
    """A gap in the middle makes two ranges; the crossover is the end of the last."""
    found = find_crossover(concurrency=[1, 2, 3, 4, 5], pays=[True, False, False, True, False])
    assert (found.concurrency, found.reason, found.ranges) == (4, "found", ((1, 1), (4, 4)))


def test_curves_rise_and_hold_what_is_asked():
    """More than three points, strictly rising, the asked one among them, nothing else beyond the limit."""
    for limit, asked in ((1, 1), (2, 1), (3, 500), (100, 16), (1024, 77)):
        grid = curve_grid(limit=limit, asked=asked)
        assert len(grid) > 3
        assert list(grid) == sorted(set(grid))
        assert asked in grid


def test_fine_grid_ends_at_the_limit():
    """Every limit is looked at, in steps of a few per cent at most."""
    for limit in (1, 63, 64, 65, 300, 1024):
        grid = fine_grid(limit=limit)
        assert grid[0] == 1
        assert grid[-1] == limit
        assert np.all(np.diff(grid) >= 1)
        assert np.all(np.diff(grid) <= np.maximum(1, 0.05 * grid[:-1]))
