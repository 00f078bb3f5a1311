"""A uniform sample of a stream of unknown length, in one pass and constant memory.

Algorithm L (K.-H. Li, Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n))), ACM TOMS 20(4), 1994): after
the first n items it draws how many items to let pass, so almost all of a long stream costs one comparison each. Seeded:
the same stream gives the same sample.
"""

from __future__ import annotations

import math
import random
from typing import Generic, TypeVar

T = TypeVar("T")


class Reservoir(Generic[T]):
    """Keeps `size` of the items offered, each with equal probability; all of them where `size` is None."""

    def __init__(self, size: int | None, seed: int) -> None:
        """An empty reservoir; equal seeds give equal samples."""
        self.size = size
        self.offered = 0
        self._kept: list[tuple[int, T]] = []
        self._random = random.Random(seed)
        self._weight = 1.0
        self._next = -1  # index of the next item that replaces one

    def offer(self, item: T) -> None:
        """Pass one item by; it is kept or not."""
        index = self.offered
        self.offered = index + 1
        if self.size is None or index < self.size:
            self._kept.append((index, item))
            if index + 1 == self.size:
                self._draw_next(index)
        elif index == self._next:
            self._kept[self._random.randrange(self.size)] = (index, item)
            self._draw_next(index)

    def _draw_next(self, index: int) -> None:
        assert self.size is not None
        # 1 - random() lies in (0, 1], so that neither logarithm meets a zero.
        self._weight *= math.exp(math.log(1.0 - self._random.random()) / self.size)
        passed = math.log(1.0 - self._random.random()) / math.log1p(-self._weight) if self._weight < 1.0 else 0.0
        self._next = index + int(passed) + 1

    def items(self) -> list[T]:
        """What is kept, in the order in which it came."""
        return [item for _, item in sorted(self._kept, key=lambda pair: pair[0])]
