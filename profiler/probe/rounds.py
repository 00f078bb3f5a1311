"""Which prompts are sent when: rounds of disjoint blocks, so that no cache and no suffix tree ever sees one twice.

A round is a block of prompts that both arms answer before the next is looked at; rounds double, so that a clear case is
settled after the first and the looks stay few. Inside a round each wave holds one structure class, since a server's
counters are global; classes with too few prompts to keep the server at the asked concurrency share a "mixed" wave. A
server that tells acceptance per request needs no such split: its rounds are single waves.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIXED = "mixed"
# Of the concurrency: a block of n requests runs its last `concurrency` requests at a falling number, so that with four
# rounds of turnover the mean stays above 85 %; two for one class, whose waves follow one another.
TURNOVERS = 4
CLASS_TURNOVERS = 2
# Spread of one prompt's log speedup: log_sd times the root of pairs in a profile of data/example_prompts.jsonl at 4 at
# once (8 pairs; suffix decoding of SmolLM2-135M on two cores).
PAIR_LOG_SD = 0.36
MOST_PAIRS = 256  # of one point: that spread then leaves 4 % at 90 %, finer than policies are
ENOUGH_PAIRS = 32  # from here on Student's t at 90 % is within 3 % of the normal's
MAIN_SHARE = 0.6  # of the prompts, for the asked concurrency, where other concurrencies are looked at, too


@dataclass(frozen=True, slots=True)
class WavePlan:
    """Prompts (indices in the sample) of one wave, and what they have in common."""

    structure: str
    prompts: tuple[int, ...]


Round = tuple[WavePlan, ...]


def count_prompts(round_: Round) -> int:
    """Prompts of all its waves."""
    return sum(len(wave.prompts) for wave in round_)


@dataclass(frozen=True)
class Blocks:
    """The prompts of the asked concurrency, in rounds, and those that are left for other settings."""

    rounds: tuple[Round, ...]
    rest: tuple[int, ...]

    @property
    def prompts(self) -> int:
        """Prompts of all rounds."""
        return sum(count_prompts(round_) for round_ in self.rounds)


def plan_blocks(
    structure: Mapping[int, str], *, concurrency: int, one_class_per_wave: bool, look_around: bool, seed: int = 0
) -> Blocks:
    """Divide the prompts (index -> class) into rounds for the asked concurrency and a rest, in a seeded order."""
    order = list(structure)
    random.Random(seed).shuffle(order)
    n = len(order)
    first = max(TURNOVERS * concurrency, 16)
    main = min(n, max(MOST_PAIRS, first))
    if look_around:
        main = min(main, max(ENOUGH_PAIRS, first, round(MAIN_SHARE * n)))
    rounds: list[Round] = []
    begin, size = 0, first
    while begin < main:
        end = min(begin + size, main)
        if main - end < first:  # what is left is too little for a round of its own
            end = main
        rounds.append(plan_round(order[begin:end], structure, concurrency, one_class_per_wave=one_class_per_wave))
        size, begin = end, end  # as many again as there were until now
    return Blocks(tuple(rounds), tuple(order[main:]))


def plan_round(
    prompts: Sequence[int], structure: Mapping[int, str], concurrency: int, *, one_class_per_wave: bool
) -> Round:
    """The waves of one block: one, or one for each class that fills one and a mixed one for the others."""
    if not one_class_per_wave:
        return (WavePlan(MIXED, tuple(prompts)),)
    by_class: dict[str, list[int]] = {}
    for index in prompts:
        by_class.setdefault(structure[index], []).append(index)
    large = {name: its for name, its in by_class.items() if len(its) >= CLASS_TURNOVERS * concurrency}
    mixed = [index for index in prompts if structure[index] not in large]
    waves = [WavePlan(name, tuple(its)) for name, its in large.items()]
    if len(by_class) == 1 and not large:
        return (WavePlan(next(iter(by_class)), tuple(prompts)),)
    if mixed:
        names = {structure[index] for index in mixed}
        waves.append(WavePlan(MIXED if len(names) > 1 else names.pop(), tuple(mixed)))
    return tuple(waves)
