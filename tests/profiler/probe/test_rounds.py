"""Every prompt is sent once, rounds double, and a wave holds one class where classes are large enough."""

from itertools import pairwise

import pytest

from profiler.probe.bracketing import bracket
from profiler.probe.rounds import MIXED, plan_blocks


def classes(**counts: int) -> dict[int, str]:
    names = [name for name, count in counts.items() for _ in range(count)]
    return dict(enumerate(names))


@pytest.mark.parametrize("n", [8, 16, 33, 64, 100, 257, 500])
@pytest.mark.parametrize("one_class", [True, False])
def test_each_prompt_is_in_one_wave_or_left(n: int, one_class: bool) -> None:
    """No prompt twice, none lost, and the same order for the same seed."""
    structure = classes(code=n // 2, chat=n - n // 2)
    blocks = plan_blocks(structure, concurrency=4, one_class_per_wave=one_class, look_around=True)
    used = [i for round_ in blocks.rounds for wave in round_ for i in wave.prompts]
    assert sorted([*used, *blocks.rest]) == sorted(structure)
    assert blocks == plan_blocks(structure, concurrency=4, one_class_per_wave=one_class, look_around=True)


def test_rounds_double_so_that_looks_are_few() -> None:
    """Each round is as large as all before it; 256 pairs take five looks at most."""
    blocks = plan_blocks(classes(code=500), concurrency=4, one_class_per_wave=False, look_around=False)
    sizes = [sum(len(wave.prompts) for wave in round_) for round_ in blocks.rounds]
    assert sizes == [16, 16, 32, 64, 128]
    assert all(len(a) == len(b) == 1 for a, b in pairwise(blocks.rounds))


def test_a_class_has_a_wave_of_its_own_where_it_fills_one() -> None:
    """Classes that would not keep the server at its concurrency share a wave."""
    blocks = plan_blocks(classes(code=200, chat=200, sql=6), concurrency=8, one_class_per_wave=True, look_around=False)
    first = {wave.structure: len(wave.prompts) for wave in blocks.rounds[-1]}
    assert {"code", "chat"} <= set(first)
    assert all(count >= 16 for name, count in first.items() if name in ("code", "chat"))
    assert set(first) <= {"code", "chat", "sql", MIXED}


def test_without_looking_around_nothing_is_left_over() -> None:
    """All prompts serve the asked concurrency where no other is measured."""
    assert not plan_blocks(classes(chat=90), concurrency=4, one_class_per_wave=True, look_around=False).rest
    assert plan_blocks(classes(chat=90), concurrency=4, one_class_per_wave=True, look_around=True).rest


def speedup(concurrency: int) -> float:
    """Falls with load, 1.05 at 24."""
    return 1.05 * (24 / concurrency) ** 0.2


@pytest.mark.parametrize("asked", [1, 8, 24, 64])
def test_doubling_and_halving_bracket_the_crossover(asked: int) -> None:
    """From any start the largest that pays and the smallest that does not come within a quarter of each other."""
    seen: dict[int, float | None] = {asked: speedup(asked)}
    while (following := bracket(seen, threshold=1.05, most=256)) is not None:
        assert following not in seen
        seen[following] = speedup(following)
    pays = max(c for c in seen if speedup(c) >= 1.05)
    fails = min(c for c in seen if speedup(c) < 1.05)
    assert pays <= 24 < fails <= 1.26 * pays + 1
    assert len(seen) <= 12


def test_with_one_arm_alone_neighbours_are_named_once() -> None:
    """Before the other arm is known the planner goes up and down from what is asked, and ends."""
    seen: dict[int, float | None] = {8: None}
    while (following := bracket(seen, threshold=1.05, most=256)) is not None:
        seen[following] = None
    assert list(seen) == [8, 16, 4, 32, 2]


def test_what_always_pays_ends_at_the_most() -> None:
    """Nothing beyond what prompts suffice for is asked for."""
    seen: dict[int, float | None] = {8: 2.0, 16: 2.0, 20: 2.0}
    assert bracket(seen, threshold=1.05, most=20) is None
