"""What do the engine's passes cost, without speculation and with it, and how far off may the speedup be?

`models.step_cost.passes` prices a pass by what it carries, `models.step_cost.closed_loop` composes requests of passes;
here the shipped constants are applied to a table of rows. Constants, sources and spreads are in
models/artifacts/step_cost.json. The spread is that of held-out predictions of measured speedups, by method and band of
concurrency (models/training/intervals.py); what no measurement covers adds to it in quadrature. No row is refused: an
unknown interconnect costs its latency alone and says so in `gaps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.estimate import Floats
from models.step_cost.closed_loop import PassCosts
from models.step_cost.constants import StepCostConstants, read_constants
from models.step_cost.coverage import GAPS, gap_bit
from models.step_cost.inputs import StepCostInputs
from models.step_cost.passes import HOST_METHODS, price_passes


@dataclass(frozen=True, slots=True)
class StepCostEstimate:
    """Both arms of each row, and how far off the ratio of what they take may be (sd of the natural logarithm)."""

    without: PassCosts
    speculative: PassCosts
    log_sd_end_to_end: Floats  # of the end-to-end speedup, acceptance given
    log_sd_tpot: Floats
    covered: NDArray[np.bool_]  # does any measurement cover this GPU, engine, method and kind of model
    gaps: NDArray[np.int64]  # models.step_cost.coverage.GAPS as bits

    @property
    def base_step_ms(self) -> Floats:
        """A pass of decodes alone, without speculation."""
        return self.without.step_ms

    @property
    def step_ms(self) -> Floats:
        """A pass of decodes alone, with speculation."""
        return self.speculative.step_ms


class StepCostModel:
    """Passes priced with fitted constants; sklearn's predict shape, its fit is models.training.step_cost."""

    constants_: StepCostConstants

    @classmethod
    def from_artefact(cls, folder: Path | None = None) -> StepCostModel:
        """The model with the constants of a folder of artefacts, the shipped ones where left out; ArtefactError."""
        model = cls()
        model.constants_ = read_constants(folder)
        return model

    def predict(self, inputs: StepCostInputs) -> StepCostEstimate:
        """Price every row; one call for the whole table."""
        c = self.constants_
        base = price_passes(inputs, c.value, speculative=False)
        step = price_passes(inputs, c.value, speculative=True, idle_tier_factor=c.idle_tier_factor)
        joining = np.where(np.isin(inputs.method, HOST_METHODS), c.value["joining_sync"], c.value["joining_async"])
        once = np.full(len(inputs), c.value["o_request_ms"])
        end_to_end, tpot = self._spreads(inputs)
        return StepCostEstimate(
            without=PassCosts(
                inputs.concurrency, base, inputs.prefill_chunks, np.full(len(inputs), c.value["joining_async"]), once
            ),
            speculative=PassCosts(inputs.concurrency, step, inputs.prefill_chunks, joining, once),
            log_sd_end_to_end=end_to_end,
            log_sd_tpot=tpot,
            covered=inputs.gaps == 0,
            gaps=inputs.gaps,
        )

    def _spreads(self, inputs: StepCostInputs) -> tuple[Floats, Floats]:
        """Log sd of both speedups: held-out residuals of method and band, and what gaps of coverage add."""
        c = self.constants_
        bits = np.array([gap_bit(gap) for gap in GAPS])
        missing = ((inputs.gaps[:, None] & bits[None, :]) > 0).astype(np.float64)
        methods, which = np.unique(inputs.method, return_inverse=True)
        band = np.maximum(np.searchsorted(c.band_starts, inputs.concurrency, side="right") - 1, 0)
        residual = np.stack([c.residual[str(name)] for name in methods])[which, :, band]
        speculative = np.array([c.residual[str(name)].any() for name in methods])[which]
        added = np.where(speculative, missing @ np.square(c.gap_log_sd), 0.0)
        return np.sqrt(residual[:, 0] ** 2 + added), np.sqrt(residual[:, 1] ** 2 + added)
