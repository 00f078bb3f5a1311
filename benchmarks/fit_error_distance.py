"""How far does an error of the predicted speedup reach, and what does one probed concurrency tell of the others?

    python benchmarks/fit_error_distance.py        # from data/measurements; tables, the last line is JSON

Residuals are those of held-out targets: log(measured / predicted), the step cost fitted without the cell's target. The
residuals of one deployment (target, method, k) are taken as Gaussian with the intervals' spread, correlated by exp(-d),
d² = Σ (Δ log x / reach_x)² over concurrency and lengths, plus noise; the reaches maximise the likelihood over all
deployments, one scale of the variance for each. Likelihoods of other reaches are told beside it: what they differ by is
what the data can tell.

Then each cell in turn is a profile of its deployment, and corrects the predictions at other concurrencies by
`advisor.fusion`. Errors before and after are told in three ways: acceptance given, so that costs alone err; acceptance
predicted cold (off by the acceptance model's own spread) until the profile's counts replace it; and the same of a
profile without counts, whose speedup is all it tells.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from advisor import fusion
from advisor.fusion import Rows, fuse
from models.estimate import Estimate, Floats
from models.training.benefit_rows import Composition, Nested
from models.training.cells import Cells
from models.training.folds import TARGET_OUT, folds

DATA = Path(__file__).resolve().parents[1] / "data" / "measurements"
AXES = ("concurrency", "input_tokens", "output_tokens")
GIVEN, COUNTED, UNCOUNTED = "acceptance given", "acceptance predicted, then counted", "acceptance predicted"
LEAST_CELLS = 5
NOISE = 0.02  # log sd of a measured speedup: two throughputs, each within 1.5 %
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Rows of the cells of one target with one way of speculating."""

    name: str
    rows: np.ndarray


@dataclass(frozen=True, slots=True)
class Told:
    """Mean absolute errors of log speedups at concurrencies that were not probed."""

    pairs: int
    before: float
    after: float

    @property
    def left(self) -> float:
        """Share of the error that is left."""
        return self.after / self.before


def deployments(cells: Cells, least: int = LEAST_CELLS) -> list[Deployment]:
    """Every target with each method, drafter and k that has enough judged cells.

    A head with an output layer of its own is another drafter than the same head that borrows the target's.
    """
    columns = (cells.target, cells.method, cells.num_speculative_tokens, cells.drafter, cells.size_ratio)
    names = np.array([f"{t} {m} k={k:g} {d} (c = {c:.3f})" for t, m, k, d, c in zip(*columns, strict=True)])
    found = [Deployment(str(name), np.flatnonzero(cells.judged & (names == name))) for name in np.unique(names)]
    return [one for one in found if one.rows.size >= least]


def probed(cells: Cells, held_out: Composition, one: Deployment, *, mode: str, same_lengths: bool) -> list[tuple]:
    """(weight, error before, error after) of each cell at another concurrency than each probed cell."""
    rows, spread = one.rows, np.zeros(len(cells)) if mode == GIVEN else held_out.expected.log_sd
    truth = np.log(cells.speedup[rows])
    told = []
    for node, weight in [(0.0, 1.0)] if mode == GIVEN else zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
        cold = held_out.at(node * spread)[0][rows]
        before = np.abs(cold - truth)
        # The profile's counts tell the acceptance, at every concurrency alike.
        known, slope = held_out.at(node * spread if mode == UNCOUNTED else np.zeros(len(cells)))
        open_sd = slope * spread if mode == UNCOUNTED else np.zeros(len(cells))
        for probe in range(rows.size):
            others = cells.concurrency[rows] != cells.concurrency[rows[probe]]
            if same_lengths:
                for axis in AXES[1:]:
                    others &= getattr(cells, axis)[rows] == getattr(cells, axis)[rows[probe]]
            if not others.any():
                continue
            at = rows[[probe]]
            fused = fuse(
                _estimate(held_out, known, open_sd, rows), _places(cells, held_out, open_sd, rows),
                predicted=_estimate(held_out, known, open_sd, at), points=_places(cells, held_out, open_sd, at),
                measured=Estimate(cells.speedup[at], np.array([NOISE])),
            )  # fmt: skip
            after = np.abs(np.log(fused.estimate.value) - truth)
            told += [(weight, before[i], after[i]) for i in np.flatnonzero(others)]
    return told


def _estimate(held_out: Composition, log_speedup: Floats, open_sd: Floats, rows: np.ndarray) -> Estimate:
    return Estimate(np.exp(log_speedup[rows]), np.hypot(held_out.log_sd, open_sd)[rows])


def _places(cells: Cells, held_out: Composition, open_sd: Floats, rows: np.ndarray) -> Rows:
    return Rows.of(
        concurrency=cells.concurrency[rows], input_tokens=cells.input_tokens[rows],
        output_tokens=cells.output_tokens[rows], k=cells.num_speculative_tokens[rows],
        temperature=np.zeros(rows.size), log_sd=np.hypot(held_out.log_sd, open_sd)[rows],
        acceptance_log_sd=open_sd[rows],
    )  # fmt: skip


def errors(cells: Cells, held_out: Composition, *, mode: str, same_lengths: bool) -> Told:
    """Over all deployments, each with the same weight."""
    means = []
    pairs = 0
    for one in deployments(cells):
        told = np.array(probed(cells, held_out, one, mode=mode, same_lengths=same_lengths))
        if told.size:
            pairs += len(told)
            means.append(np.average(told[:, 1:], axis=0, weights=told[:, 0]))
    before, after = np.mean(means, axis=0)
    return Told(pairs, float(before), float(after))


def minus_log_likelihood(reach: Floats, cells: Cells, held_out: Composition, *, but: str = "") -> float:
    """Of the residuals of all deployments, each with the scale of its variance that fits it best."""
    total = 0.0
    given, _ = held_out.at(np.zeros(len(cells)))
    for one in deployments(cells):
        if cells.target[one.rows[0]] == but:
            continue
        place = np.log(np.stack([getattr(cells, axis)[one.rows] for axis in AXES], axis=1)) / reach
        apart = np.sqrt(((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=2))
        sd, gap = held_out.log_sd[one.rows], np.log(cells.speedup[one.rows]) - given[one.rows]
        best = np.inf
        for scale in np.geomspace(0.02, 20.0, 24):
            covariance = scale * np.exp(-apart) * np.outer(sd, sd) + NOISE**2 * np.eye(sd.size)
            sign, logdet = np.linalg.slogdet(covariance)
            if sign > 0:
                best = min(best, 0.5 * (logdet + gap @ np.linalg.solve(covariance, gap)))
        total += best
    return float(total)


def held_out_composition(cells: Cells) -> Composition:
    """Every judged cell by a fit without its target."""
    assert folds(cells)[TARGET_OUT]
    return Nested(cells).compose(np.ones(len(cells), dtype=np.bool_))


def main() -> None:
    cells = Cells.read(DATA)
    held_out = held_out_composition(cells)
    given, _ = held_out.at(np.zeros(len(cells)))
    for one in deployments(cells):
        gap = np.log(cells.speedup[one.rows]) - given[one.rows]
        print(f"{one.name:60} {one.rows.size:3} cells, mean {gap.mean():+.3f}, sd {gap.std():.3f}, "
              f"rms z {np.sqrt(np.mean((gap / held_out.log_sd[one.rows]) ** 2)):.2f}")  # fmt: skip
    start = np.full(3, 0.7)
    fit = minimize(
        lambda x: minus_log_likelihood(np.exp(x), cells, held_out), start, method="Nelder-Mead",
        options={"xatol": 0.03, "fatol": 0.02, "initial_simplex": np.vstack([start, start + np.eye(3)])},
    )  # fmt: skip
    reach = dict(zip(AXES, np.exp(fit.x).round(2).tolist(), strict=True))
    for target in np.unique(cells.target[cells.judged]):
        without = minimize(
            lambda x, out=target: minus_log_likelihood(np.exp(x), cells, held_out, but=str(out)),
            fit.x,
            method="Nelder-Mead",
            options={"xatol": 0.05, "fatol": 0.05, "initial_simplex": np.vstack([fit.x, fit.x + np.eye(3)])},
        )
        print(f"without {target}: {np.exp(without.x).round(2).tolist()}")
    print(f"\nreaches of the largest likelihood {reach}; log likelihood lost by others:")
    for other in (fusion.REACH, (0.5,) * 3, (1.0,) * 3, (2.0,) * 3, (3.0,) * 3, (5.0,) * 3, (1.7, 0.03, 0.8)):
        lost = (
            minus_log_likelihood(np.broadcast_to(np.asarray(other, dtype=float)[..., :3], 3), cells, held_out) - fit.fun
        )
        print(f"  {other!s:24} {lost:.2f}")
    shipped, table = fusion.REACH, {}
    for name, used in (("as shipped", shipped), ("fitted", np.append(np.exp(fit.x), np.exp(fit.x[0])))):
        fusion.REACH = used
        for mode in (GIVEN, COUNTED, UNCOUNTED):
            for same in (True, False):
                told = errors(cells, held_out, mode=mode, same_lengths=same)
                row = f"{name}, {mode}, {'same' if same else 'all'} lengths"
                table[row] = {"pairs": told.pairs, "before": round(told.before, 4), "after": round(told.after, 4)}
                print(
                    f"{row:50} {told.pairs:6} pairs, error {told.before:.3f} -> {told.after:.3f}, {told.left:.0%} left"
                )
    fusion.REACH = shipped
    print(json.dumps({"cells": int(cells.judged.sum()), "deployments": len(deployments(cells)), "reach": reach,
                      "errors": table}))  # fmt: skip


if __name__ == "__main__":
    main()
