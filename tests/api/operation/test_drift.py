"""Drift: the index against hand-computed values, and the reference against the rows that it is made from."""

from __future__ import annotations

import csv
import math

import pytest

from advisor.recommendation import WorkloadSummary
from api.operation.drift import FEWEST, NUMBERS, Drift, Reference, read_reference, stability_index
from api.operation.training_features import bins_of, features_of
from models.structure import STRUCTURES


def workload(**changes):
    known = {
        "prompts": 1, "format": "list", "structure": {"code": 1.0}, "input_tokens": 100.0, "input_tokens_p95": 100.0,
        "output_tokens": 100.0, "overlap": 0.1, "temperature": 0.0, "concurrency": 1, "cached_prefix_share": 0.0,
        "languages": {}, "skipped": {}, "notes": [], "estimated": [],
    }  # fmt: skip
    return WorkloadSummary(**(known | changes))


def test_the_index_is_the_published_formula():
    """By hand: (0.3 - 0.5) ln(0.3 / 0.5) + (0.7 - 0.5) ln(0.7 / 0.5)."""
    assert stability_index([0.5, 0.5], [0.3, 0.7]) == pytest.approx(0.2 * math.log(0.7 / 0.3))
    assert stability_index([0.2, 0.8], [0.2, 0.8]) == 0.0
    assert 1.0 < stability_index([1.0, 0.0], [0.0, 1.0]) < 20.0  # empty bins count as a little


REFERENCE = Reference(
    edges=dict.fromkeys(NUMBERS, (10.0,)),
    shares=dict.fromkeys(NUMBERS, (0.5, 0.5)),
    ranges=dict.fromkeys(NUMBERS, (0.0, 100.0)),
    structure={"code": 1.0, "chat": 0.0},
)


def test_requests_like_the_training_rows_show_no_drift_and_others_do():
    """Half below and half above an edge in the middle is no drift; all above is; few requests say nothing."""
    alike, other = Drift(REFERENCE), Drift(REFERENCE)
    for n in range(FEWEST):
        if n == FEWEST - 1:
            assert alike.distances() == {}
        low = n % 2 == 0
        alike.add(workload(concurrency=1 if low else 50, input_tokens=1.0 if low else 50.0))
        other.add(workload(concurrency=50, input_tokens=50.0, structure={"chat": 1.0}))
    assert alike.distances()["concurrency"] == pytest.approx(0.0)
    assert alike.distances()["structure"] == pytest.approx(0.0, abs=0.01)
    assert other.distances()["input_tokens"] > 1.0
    assert other.distances()["structure"] > 1.0


def test_what_lies_outside_every_row_is_named():
    """Each feature on its own."""
    drift = Drift(REFERENCE)
    assert drift.add(workload()) == []
    assert drift.add(workload(concurrency=101, output_tokens=1000.0)) == ["concurrency", "output_tokens"]


def test_old_requests_leave_the_window():
    """A thousand new ones make the drift of the old ones forgotten."""
    drift = Drift(REFERENCE)
    for _ in range(500):
        drift.add(workload(concurrency=50))
    for n in range(1000):
        drift.add(workload(concurrency=1 + 49 * (n % 2)))
    assert drift.compared == 1000
    assert drift.distances()["concurrency"] == pytest.approx(0.0)


def test_bins_are_filled_alike_and_hold_every_row():
    """Shares sum to 1; repeated values share a bin; the range is that of the rows."""
    even = bins_of([float(n) for n in range(100)])
    assert even["shares"] == [0.1] * 10
    assert (even["low"], even["high"]) == (0.0, 99.0)
    repeated = bins_of([1.0] * 60 + [2.0] * 40)
    assert (repeated["edges"], repeated["shares"]) == ([2.0], [0.6, 0.4])
    assert bins_of([5.0])["shares"] == [1.0]


def test_features_are_read_from_measured_tables(tmp_path):
    """Numbers by their table, structures by prompts; kinds without a class are counted as left out."""

    def write(name, rows):
        with (tmp_path / name).open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)

    write("cost_cells.csv", [{"concurrency": n, "input_tokens": 10 * n, "output_tokens": 5} for n in (1, 2, 4)])
    write(
        "acceptance_cells.csv",
        [
            {"temperature": 0, "structure": "code", "prompts": 30},
            {"temperature": 1, "structure": "qa", "prompts": 10},
            {"temperature": 1, "structure": "stem", "prompts": 10},
        ],
    )
    found = features_of(tmp_path)
    assert found["numbers"]["input_tokens"]["high"] == 40.0
    assert found["numbers"]["temperature"]["rows"] == 3
    assert found["structure"]["shares"]["code"] == 0.75
    assert found["structure"]["shares"]["question_answering"] == 0.25
    assert found["structure"]["cells_left_out"] == 1


def test_the_shipped_reference_is_whole():
    """Every feature, shares that sum to 1, one edge fewer than bins, and the classifier's own classes."""
    reference = read_reference()
    for name in NUMBERS:
        assert len(reference.shares[name]) == len(reference.edges[name]) + 1
        assert sum(reference.shares[name]) == pytest.approx(1.0, abs=1e-4)
        assert reference.ranges[name][0] < reference.ranges[name][1]
    assert tuple(reference.structure) == STRUCTURES
    assert sum(reference.structure.values()) == pytest.approx(1.0, abs=1e-4)
