"""The open queue against a simulation pass by pass, and against what is known exactly."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.plan.passes import Classes, Replica
from advisor.plan.queue import offered, stable
from advisor.plan.sizing import Objective, kept_rate, replica_capacity, replicas_for
from models.step_cost.closed_loop import PassCosts, closed_loop
from tests.advisor.plan.cases import CASES, replica, saturation
from tests.advisor.plan.simulated import Drafting, simulate


# How far off each may be is what benchmarks/plan_queue.py found (docs/plan.md), and room for a short run's chance.
@pytest.mark.parametrize(
    ("name", "load", "requests", "off"),
    [
        ("chat", 0.7, 2500, 0.15),
        ("chat, EAGLE-3", 0.7, 2500, 0.15),
        ("short", 0.6, 3000, 0.15),
        ("documents", 0.5, 1000, 0.30),
    ],
)
def test_percentiles_are_near_those_of_a_simulation(name, load, requests, off):
    """p95 of both times and the mean number of requests, for traffic of several kinds."""
    traffic = CASES[name]
    one, budget = replica(traffic)
    rate = load * saturation(one)
    queue = offered(one, rate)
    seen = simulate(one, rate, list(traffic.drafting), seed=7, requests=requests, budget_chunks=budget)
    assert queue.concurrency == pytest.approx(seen.concurrency, rel=off)
    assert queue.first_token_p95_ms == pytest.approx(seen.first_token_p95_ms, rel=off)
    assert queue.tpot_p95_ms == pytest.approx(seen.tpot_p95_ms, rel=off)


def test_beyond_its_saturation_a_simulated_replica_falls_behind():
    """The rate from which no state is stationary is the one beyond which simulated requests pile up."""
    traffic = CASES["chat, 16 slots"]
    one, budget = replica(traffic)
    most = saturation(one)
    assert stable(one, 0.99 * most)
    assert not stable(one, 1.02 * most)
    below, above = (
        simulate(one, factor * most, [Drafting()], seed=3, requests=700, budget_chunks=budget).concurrency
        for factor in (0.9, 1.3)
    )
    assert below < 30
    assert above > 60


def plain(slots: int, *, pass_ms: float = 10.0, tokens: float = 100.0) -> Replica:
    """A replica whose passes take the same whatever they carry, and prompts cost nothing."""
    grid = np.unique(np.round(np.geomspace(1, slots, 12)))
    one = np.ones((grid.size, 1))
    classes = Classes(np.ones(1), np.array([tokens]), one, 0 * one, 0 * one, np.ones((1, 1)), np.ones(1))
    return Replica(grid, np.full((grid.size, 8), pass_ms), np.ones(grid.size), 1.0, 0.0, classes)


def test_where_passes_cost_the_same_it_is_the_exact_queue():
    """Time per token then is a pass; n is that of M/M/B by Erlang's formulas, whose services are the lives here."""
    one, rate = plain(8), 6.0
    load = offered(one, rate)
    assert load.tpot_p95_ms == pytest.approx([10.0], rel=0.03)
    # A life at each n: the wait for the next pass, the prefill, 100 passes. Alone there is no wait.
    work = rate * (100 * 10.0 + 10.0 + 5.0) / 1e3
    weights = [work**n / np.prod(np.arange(1.0, n + 1)) for n in range(9)]
    waiting = weights[8] / (1 - work / 8)
    expected = waiting / (sum(weights[:8]) + waiting)
    assert load.waiting == pytest.approx(expected, rel=0.03)


def test_at_its_own_throughput_it_agrees_with_the_closed_loop():
    """At the rate that a closed loop of 64 completes, 64 requests are there on average, to a few per cent."""
    traffic = CASES["chat"]
    one, _ = replica(traffic)
    pass_ms = np.array([[np.interp(64.0, one.concurrency, one.pass_ms[:, g]) for g in range(8)]])
    costs = PassCosts(np.array([64.0]), pass_ms, np.ones(1), np.array([one.joining_passes]), np.array([one.request_ms]))
    loop = closed_loop(costs, tokens_per_step=np.ones(1), output_tokens=np.array([250.0]))
    load = offered(one, 64e3 / float(loop.end_to_end_ms[0]))
    assert load.concurrency == pytest.approx(64.0, rel=0.06)


def test_percentiles_rise_with_the_rate():
    """So that there is one most that a replica takes."""
    one, _ = replica(CASES["chat and documents, EAGLE-3"])
    loads = [offered(one, rate) for rate in np.linspace(0.05, 0.97, 12) * saturation(one)]
    for name in ("first_token_p95_ms", "tpot_p95_ms"):
        values = np.array([getattr(load, name) for load in loads])
        assert (np.diff(values, axis=0) > -1e-6).all()


def test_a_class_with_longer_prompts_waits_longer_for_its_first_token():
    """Its own prompt is computed, whatever the others bring."""
    one, _ = replica(CASES["chat and documents, EAGLE-3"])
    chat, documents = offered(one, 5.0).first_token_p95_ms
    assert documents > chat + 20.0


@pytest.mark.parametrize(
    ("objective", "bound"),
    [(Objective(120.0, np.inf), "ttft"), (Objective(np.inf, 12.0), "tpot"), (Objective(np.inf, np.inf), "throughput")],
)
def test_capacity_is_the_rate_at_which_the_objective_just_holds(objective, bound):
    """A little below it is kept, a little above it is not, and what breaks is told."""
    one, _ = replica(CASES["chat"])
    found = replica_capacity(one, objective)
    assert found.bound_by == bound
    assert objective.kept(offered(one, 0.99 * found.request_rate))
    assert not objective.kept(offered(one, 1.01 * found.request_rate))
    assert kept_rate(one, objective, guess=3.0) == pytest.approx(found.request_rate, rel=0.01)


def test_an_objective_below_what_one_request_alone_takes_has_no_capacity():
    """No number of replicas helps then, and the closest is told."""
    one, _ = replica(CASES["chat"])
    found = replica_capacity(one, Objective(np.inf, 3.0))
    assert found.request_rate is None
    assert found.bound_by == "tpot"
    assert found.alone.tpot_p95_ms[0] > 3.0
    assert kept_rate(one, Objective(np.inf, 3.0), guess=1.0) is None


def test_replicas_are_whole_and_never_fewer_than_the_least():
    """Rates split evenly; a rate that just fits needs no more."""
    assert [replicas_for(rate, 2.0, least=1) for rate in (0.0, 0.1, 2.0, 2.1, 9.9)] == [1, 1, 1, 2, 5]
    assert replicas_for(0.0, None, least=2) == 2
    assert replicas_for(1.0, None, least=2) is None
