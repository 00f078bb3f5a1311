"""Coverage, noise, curves and pictures of the measurements."""

import math

import pytest

from profiler.measurements import read_cells
from profiler.measurements.coverage import CONCURRENCY_BANDS, FLAGS, band_of, coverage
from profiler.measurements.curves import crossovers, speedup_curves
from profiler.measurements.merge import derive
from profiler.measurements.noise import noise_floor
from profiler.measurements.plots import draw_speedups


@pytest.mark.parametrize(
    ("value", "band"), [(1, "1"), (2, "2-8"), (8, "2-8"), (9, "9-32"), (256, "129-256"), (257, "beyond")]
)
def test_every_concurrency_has_one_band(value, band):
    """Bands meet without a gap."""
    assert band_of(value, CONCURRENCY_BANDS) == band


def test_coverage_counts_cells_not_runs(ours):
    """A cell measured again is one cell; the counts of each method add up to its own."""
    rows = read_cells(ours)
    seen = coverage(rows)
    assert seen.runs == len(rows)
    assert seen.cells == len({row["cell_id"] for row in rows}) < seen.runs
    for table in (seen.by_concurrency, seen.by_context, seen.by_target, seen.by_k):
        assert sum(int(line[-1]) for line in table) == seen.cells
        for line in table:
            assert sum(int(count) for count in line[1:-1] if count != "-") == int(line[-1])
    assert seen.without_baseline == 0


def test_every_flag_is_explained(ours):
    """In coverage's words and in the data card."""
    card = (ours.parent / "README.md").read_text(encoding="utf-8")
    assert {flag for row in read_cells(ours) for flag in (row["flags"] or "").split()} <= set(FLAGS)
    assert all(f"`{flag}`" in card for flag in FLAGS)


def run_of(rate, cell="a"):
    return {
        "cell_id": cell, "output_tokens_per_s": rate, "engine": "e", "concurrency": 1, "input_tokens": 2,
        "output_tokens": 3, "flags": None,
    }  # fmt: skip


def test_the_noise_floor_is_the_difference_of_two_runs():
    """Relative to their mean, over all pairs of a cell; cells measured once tell nothing."""
    floor = noise_floor([run_of(95.0), run_of(105.0), run_of(100.0), run_of(7.0, "b")])
    assert (floor.cells, floor.pairs) == (1, 3)
    assert floor.largest == pytest.approx(0.1)
    assert floor.median == pytest.approx(10 / 205, rel=0.06)
    assert math.isnan(noise_floor([run_of(1.0)]).median)
    assert noise_floor([run_of(95.0), run_of(50.0) | {"flags": "clumped"}]).pairs == 0


def test_crossovers_lie_on_a_logarithmic_axis():
    """From 1.2 at 16 to 0.8 at 64 the speedup is 1 at 32; a touch is no crossing; two are both found."""
    assert crossovers((16, 64), (1.2, 0.8)) == pytest.approx((32.0,))
    assert crossovers((1, 2, 4), (1.2, 1.0, 1.2)) == ()
    assert crossovers((1, 4, 16), (0.9, 1.1, 0.9)) == pytest.approx((2.0, 8.0))


def test_curves_average_a_bands_cells_and_rise_in_concurrency(ours):
    """One line for each engine and band; every speculative cell of plain traffic is in one."""
    curves = speedup_curves(read_cells(ours))
    assert len({(c.engine, c.context) for c in curves}) == len(curves)
    assert all(list(c.concurrency) == sorted(set(c.concurrency)) for c in curves)
    k3 = next(c for c in curves if c.engine == "llama8b-eagle3-k3" and c.context == "1-256")
    assert k3.speedup[0] > 1.5
    assert any(64 < crossover < 256 for crossover in k3.crossovers)


def test_pictures_are_png_files_of_every_target(ours, tmp_path):
    """One for each target that has speedups."""
    rows = read_cells(ours)
    written = draw_speedups(rows, tmp_path / "plots")
    targets = {row["target"] for row in rows if row["method"] != "none"}
    assert {path.name for path in written} == {f"speedup-{target}.png" for target in targets}
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000 for path in written)


def test_the_tables_are_what_their_rows_derive_to(ours):
    """Nothing in the derived columns was written by hand."""
    rows = read_cells(ours)
    assert derive(dict(row) for row in rows) == rows
