"""The closed loop's closed form: the design notes' where floors vanish, a simulation where they do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.step_cost import PassCosts, closed_loop
from models.step_cost.passes import PREFILL_GRID


def of(*values):
    return np.array(values, dtype=np.float64)


def costs(pass_ms, *, running, joining=0.0, request=0.0, chunks=1.0):
    return PassCosts(of(running), np.asarray(pass_ms, dtype=np.float64)[None, :], of(chunks), of(joining), of(request))


def loop(arm, *, tau=1.0, n=128.0):
    found = closed_loop(arm, tokens_per_step=of(tau), output_tokens=of(n))
    return found.end_to_end_ms[0], found.first_token_ms[0], found.tpot_ms[0]


def test_a_single_slot_by_hand():
    """One request at a time: a prefill of 91 ms, then 191 steps of 5.6 ms; 3 ms of the host's once."""
    end, first, tpot = loop(costs(5.6 + (91 - 5.6) * PREFILL_GRID, running=1, request=3), n=192)
    assert end == pytest.approx(3 + 91 + 191 * 5.6)
    assert first == pytest.approx(3 + 91)
    assert tpot == pytest.approx(5.6)


@given(
    running=st.integers(1, 512), prefill=st.floats(0, 1000), step=st.floats(1, 50), n=st.floats(2, 4000),
    tau=st.floats(1, 8),
)  # fmt: skip
def test_without_floors_it_is_design_md_s_formula(running, prefill, step, n, tau):
    """T(j) = T + j t: a request takes b prefills and its passes, the one of its prefill included."""
    end, first, tpot = loop(costs(step + prefill * PREFILL_GRID, running=running), tau=tau, n=n)
    passes = 1 + max((n - 1) / tau, min(n - 1, 1))
    assert end == pytest.approx(running * prefill + passes * step, rel=1e-6)
    assert end == pytest.approx(first + (n - 1) * tpot)


def simulated(pass_ms, *, slots, steps, passes=20_000):
    """Mean time of a request in a loop whose requests take between half and one and a half times `steps` steps."""
    rng = np.random.default_rng(3)
    left = rng.integers(0, steps, slots)  # decode steps; at 0 the next pass prefills the slot's next request
    time, ended = 0.0, 0
    for _ in range(passes):
        prefilling = left == 0
        time += np.interp(prefilling.sum(), PREFILL_GRID, pass_ms)
        ended += prefilling.sum()
        left = np.where(prefilling, rng.integers(steps // 2, steps + steps // 2 + 1, slots), left - 1)
    return slots * time / ended


@pytest.mark.parametrize(("slots", "steps"), [(4, 40), (32, 50), (64, 25)])
def test_floors_agree_with_a_simulated_loop(slots, steps):
    """A pass with a prefill costs a floor however many it carries: the closed form is the simulated mean within 2 %."""
    pass_ms = np.where(PREFILL_GRID > 0, 12 + 0.5 * PREFILL_GRID, 5.0)
    end, _, _ = loop(costs(pass_ms, running=slots), tau=1.0, n=steps + 1)
    assert end == pytest.approx(simulated(pass_ms, slots=slots, steps=steps), rel=0.02)


def test_fewer_passes_carry_fewer_floors():
    """With floors a crowded loop gains more from τ = 2.5 at equal passes than prefills and steps alone would say."""
    floors = costs(np.where(PREFILL_GRID > 0, 12 + 0.5 * PREFILL_GRID, 5.0), running=128)
    none = costs(5.0 + 7.5 * PREFILL_GRID, running=128)
    gains = [loop(arm)[0] / loop(arm, tau=2.5)[0] for arm in (floors, none)]
    assert gains[0] > 1.2 * gains[1]


def test_one_token_has_no_decode_steps():
    """Requests of one token are prefilled and gone: all slots prefill in every pass."""
    end, first, _ = loop(costs(5.0 + 10.0 * PREFILL_GRID, running=8), n=1)
    assert end == pytest.approx(first)
    assert first == pytest.approx(5 + 80)


def test_a_request_waits_for_the_passes_in_flight():
    """Two passes go by before a full loop takes a request in, none before an empty one."""
    flat = np.full(PREFILL_GRID.size, 10.0)
    assert loop(costs(flat, running=1, joining=2))[1] == pytest.approx(10)
    assert loop(costs(flat, running=100, joining=2))[1] == pytest.approx(10 + 2 * 0.99 * 10)


def test_scaled_and_chosen_rows():
    """A machine half as fast takes twice as long; rows are picked from every column."""
    arm = costs(5.0 + PREFILL_GRID, running=4, request=1)
    assert loop(arm.scaled(2.0))[0] == pytest.approx(2 * loop(arm)[0])
    both = PassCosts(*(np.concatenate([getattr(arm, name)] * 2) for name in PassCosts.__slots__))
    assert both.rows(slice(1, 2)).running.shape == (1,)
