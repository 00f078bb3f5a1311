"""What an acceptance prediction is made from and what it yields.

One row is one candidate under one workload: a method with its k, the sampling temperature and how the prompts divide
over the structure classes. A table of rows is predicted at once; nothing here is a loop over candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.estimate import Estimate, Floats

POSITIONS = 8  # conditional acceptances are always given for at least this many draft positions


@dataclass(frozen=True, slots=True)
class AcceptanceInputs:
    """Equal-length arrays, one row per candidate; `structure` holds each row's token shares over the classes."""

    method: NDArray[np.str_]
    num_speculative_tokens: NDArray[np.int64]
    temperature: Floats
    probabilistic: NDArray[np.bool_]  # draft_sample_method == "probabilistic"
    size_ratio: Floats  # parameters of the drafter / of the target; nan where there is no drafter
    overlap: Floats  # share of the output that copies prompt or earlier output, 0..1; nan: as its classes let expect
    lookup_min: Floats  # shortest match that n-gram lookup drafts on, prompt_lookup_min; nan: vLLM's default
    structure: Floats  # (n, classes), rows sum to 1, in the order of models.structure.STRUCTURES

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.method.shape[0])

    @classmethod
    def of(
        cls,
        *,
        method: ArrayLike,
        num_speculative_tokens: ArrayLike,
        temperature: ArrayLike,
        structure: ArrayLike,
        probabilistic: ArrayLike = False,
        size_ratio: ArrayLike = np.nan,
        overlap: ArrayLike = np.nan,
        lookup_min: ArrayLike = np.nan,
    ) -> AcceptanceInputs:
        """Broadcast scalars and arrays to one table; one structure mixture may serve all rows."""
        shares = np.atleast_2d(np.asarray(structure, dtype=np.float64))
        names = np.atleast_1d(np.asarray(method, dtype=np.str_))
        names, tokens, heat, soft, ratio, copied, match, _ = np.broadcast_arrays(
            names, num_speculative_tokens, temperature, probabilistic, size_ratio, overlap, lookup_min,
            np.zeros(shares.shape[0]),
        )  # fmt: skip
        return cls(
            method=names,
            num_speculative_tokens=tokens.astype(np.int64),
            temperature=heat.astype(np.float64),
            probabilistic=soft.astype(np.bool_),
            size_ratio=ratio.astype(np.float64),
            overlap=copied.astype(np.float64),
            lookup_min=match.astype(np.float64),
            structure=np.broadcast_to(shares, (names.shape[0], shares.shape[1])),
        )

    @classmethod
    def concatenate(cls, tables: Sequence[AcceptanceInputs]) -> AcceptanceInputs:
        """Join the rows of several tables into one, so that they are predicted in one call."""
        return cls(*(np.concatenate([getattr(table, field.name) for table in tables]) for field in fields(cls)))


@dataclass(frozen=True, slots=True)
class AcceptanceEstimate:
    """Acceptance of each row, as vLLM counts it.

    `per_position[:, i]` is the probability that draft token i+1 is accepted given that those before it were (nan beyond
    the row's k); `acceptance_length` = 1 + Σ Π α over the steps that drafted; `draft_share` = m, the share of decode
    steps that drafted. AL - 1 and m are lognormal about their values with the given standard deviations.
    """

    per_position: Floats
    draft_share: Floats
    acceptance_length: Floats
    length_log_sd: Floats
    draft_share_log_sd: Floats
    measured: NDArray[np.bool_]  # True where counts of the user's own traffic stand behind the row

    @property
    def tokens_per_step(self) -> Floats:
        """τ = 1 + m · (AL - 1): tokens per decode step, all steps counted."""
        return 1.0 + self.draft_share * (self.acceptance_length - 1.0)

    @property
    def gain(self) -> Estimate:
        """τ - 1 = m · (AL - 1), the extra tokens of a step, with both spreads in it (taken as independent)."""
        return Estimate(self.tokens_per_step - 1.0, np.hypot(self.length_log_sd, self.draft_share_log_sd))
