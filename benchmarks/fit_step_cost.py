"""Which constants of a pass's cost explain the measured cells, and how well do they predict cells they never saw?

    python benchmarks/fit_step_cost.py              # fit, held-out tables; the last line is JSON
    python benchmarks/fit_step_cost.py --write      # and models/priors/step_cost.yaml

Fit: robust least squares (scipy, soft_l1) on logarithms of request times, speedups, decode steps and lone prefills of
data/measurements/cost_cells.csv, each cell with its measured τ and m, so that only the cost is fitted. Priors keep what
a fold does not tell near the design notes' values. Evaluation: all is predicted, the baseline too, by a fit that saw
neither the speculative rows nor the baseline rows of the held-out group (leave one method-k out: its rows alone).
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import yaml
from scipy.optimize import least_squares
from step_cost_cells import BANDS, CELLS, Cells

# Value and log sd before any cell is seen, and why.
PRIOR = {
    "o_layer_ms": (0.03, 0.7, "the design notes' fit has 0.014 to 0.018 in another formula; wide"),
    "e_bw": (0.77, 0.1, "the design notes' fit"),
    "e_kv": (0.56, 0.3, "the design notes' fit"),
    "e_f": (0.55, 0.3, "the design notes' fit, 0.45 to 0.55"),
    "e_p": (0.71, 0.15, "the design notes' fit"),
    "o_piece_ms": (0.3, 0.7, "Llama-3.1-8B's mixed pass takes about 10 ms more than its roofline over 32 layers"),
    "o_ungraphed_ms": (0.8, 0.5, "vllm-project/vllm-omni issue 7960: 22 to 23 ms a token over 28 layers in eager mode"),
    "o_seq_ms": (0.03, 1.0, "wide"),
    "o_seq_graph_ms": (0.01, 1.0, "wide"),
    "o_verify_ms": (0.3, 1.0, "the design notes has 0, its bursts fitted here 0.8; wide"),
    "o_head_ms": (0.03, 1.0, "o_draft of the design notes less the head's roofline"),
    "o_head_host_ms": (1.0, 1.0, "wide"),
    "o_head_bare_ms": (3.0, 1.0, "wide"),
    "o_draft_host_ms": (4.6, 0.7, "the design notes: a 1B draft step costs 3 to 7 ms"),
    "o_sync_ms": (2.0, 1.0, "wide"),
    "o_propose_ms": (0.01, 1.0, "wide"),
    "o_request_ms": (5.0, 0.7, "TTFT at concurrency 1 less a pass"),
    "joining_async": (2.0, 0.3, "asynchronous scheduling has one pass running and one scheduled"),
    "joining_sync": (1.0, 0.3, "one pass running"),
}
NAMES = tuple(PRIOR)
# Of which these cells say nothing; sources in step_cost_document.py.
PUBLISHED = {"o_reduce_ms": 0.0064, "e_link": 0.12, "e_link_large": 0.9, "o_eager_ms": 0.8}
# Noise of what is fitted to, in logarithms: cells repeat within 0.3 %, the rest is what a formula of this kind leaves.
SPREAD = {"end_to_end": 0.07, "speedup": 0.05, "step": 0.10, "first_token": 0.15}
SUSPECT_WEIGHT = 0.6  # flagged rows count a third as much (squared)
THRESHOLD, Z = 1.05, 1.6449


def constants_at(shift):
    """Constants by name; `shift` is the logarithm of each over its prior's value."""
    return PUBLISHED | {name: PRIOR[name][0] * float(np.exp(shift[row])) for row, name in enumerate(NAMES)}


def fit(cells, seen):
    """Robust least squares over the rows of the mask `seen`."""
    weight = np.where(seen, np.where(cells.suspect, SUSPECT_WEIGHT, 1.0), 0.0)
    prior_sd = np.array([sd for _, sd, _ in PRIOR.values()])
    pair = cells.judged & seen & seen[cells.baseline]

    def residuals(shift):
        costs, found = cells.latencies(constants_at(shift))
        speedup = cells.speedups(found)[0]
        rows = [
            weight * np.log(found.end_to_end_ms / cells.end_to_end_ms) / SPREAD["end_to_end"],
            (weight * np.log(speedup / cells.speedup) / SPREAD["speedup"])[pair],
            (weight * np.log(costs.step_ms / cells.step_ms) / SPREAD["step"])[cells.pure],
            (weight * np.log(found.first_token_ms / cells.first_token_ms) / SPREAD["first_token"])[cells.b == 1],
        ]
        return np.concatenate([*rows, shift / prior_sd])

    return least_squares(residuals, np.zeros(len(NAMES)), loss="soft_l1", x_scale="jac", max_nfev=40)


def folds(cells):
    """Family -> list of (name, rows to predict, rows that the fit must not see)."""
    families = {"one target out": [], "one method and k out": [], "traffic points out": []}
    for target in np.unique(cells.target):
        families["one target out"].append((target, cells.target == target, cells.target == target))
    for method, k in sorted(set(zip(cells.method[cells.judged], cells.k[cells.judged], strict=True))):
        rows = (cells.method == method) & (cells.k == k)
        families["one method and k out"].append((f"{method} k={k:g}", rows, rows))
    for part in range(5):
        rows = cells.point % 5 == part
        families["traffic points out"].append((str(part), rows, rows))
    high, long = cells.b >= 128, cells.s >= 4096
    return families | {"concurrency >= 128 out": [("high", high, high)], "context >= 4096 out": [("long", long, long)]}


def held_out(cells):
    """Family -> (end-to-end, TPOT) predictions of each row by a fit that did not see it (nan where in no fold)."""
    found = {}
    for family, parts in folds(cells).items():
        both = np.full((2, len(cells.rows)), np.nan)
        for _, rows, hidden in parts:
            _, latencies = cells.latencies(constants_at(fit(cells, ~hidden).x))
            both[:, rows] = np.stack(cells.speedups(latencies))[:, rows]
        found[family] = both
    return found


def sd_of(errors):
    """Log sd whose 90 % interval holds nine in ten of the errors, not below their root mean square over 1.3."""
    size = np.abs(errors)
    return float(max(np.quantile(size, 0.9) / Z, np.sqrt(np.mean(size**2)) / 1.3)) if size.size else np.nan


def spreads(cells, errors, rows, least=4):
    """(method, band) -> log sd from held-out errors; the whole method's where a band has fewer than `least` cells."""
    table = {}
    for method in ("eagle3", "draft_model", "ngram"):
        own = rows & (cells.method == method)
        for band in range(len(BANDS)):
            some = own & (cells.band == band)
            chosen = some if some.sum() >= least else own if own.sum() >= least else rows
            table[method, band] = sd_of(errors[chosen])
    return table


def score(cells, rows, predicted, truth):
    """Errors, decisions at 1.05 and regret of predictions of some rows."""
    value, true = predicted[rows], truth[rows]
    size = np.abs(value / true - 1)
    enable, pays = value >= THRESHOLD, true >= THRESHOLD
    right = [np.mean(enable[pays == side] == side) for side in (True, False) if (pays == side).any()]
    regret = 1 - np.where(enable, true, 1.0) / np.maximum(true, 1.0)
    known = np.isfinite(value) & (value > 0)  # a rule predicts no speedup
    return {
        "cells": int(rows.sum()), "mape": float(size[known].mean()) if known.any() else None,
        "p90": float(np.quantile(size[known], 0.9)) if known.any() else None,
        "bias": float((value / true - 1)[known].mean()) if known.any() else None,
        "balanced_accuracy": float(np.mean(right)), "regret": float(regret.mean()),
    }  # fmt: skip


def coverage(cells, family, parts, predicted):
    """Share of the held-out cells in 90 % intervals whose widths come from the other folds' held-out errors."""
    errors = np.log(predicted / cells.speedup)
    held = cells.judged & np.isfinite(errors)
    inside = np.full(len(cells.rows), np.nan)
    for _, rows, _ in parts:
        others = held & ~rows if len(parts) > 1 else held
        if others.sum() < 8:
            continue
        table = spreads(cells, errors, others)
        for row in np.flatnonzero(held & rows):
            inside[row] = abs(errors[row]) <= Z * table[cells.method[row], cells.band[row]]
    return inside


def evaluate(cells):
    """The held-out table: family -> method -> predictor -> scores."""
    predictions = held_out(cells)
    former = cells.former()
    table = {}
    for family, parts in folds(cells).items():
        end, tpot = predictions[family]
        inside = coverage(cells, family, parts, end)
        held = cells.judged & np.isfinite(end)
        rivals = {
            "this fit": end, "bursts' constants": former[0], "AL / (1 + k c)": cells.literature,
            "always enable": np.where(held, np.inf, np.nan), "disable above 32": np.where(cells.b > 32, 0.0, np.inf),
        }  # fmt: skip
        table[family] = {}
        for method in ("all", "eagle3", "draft_model", "ngram"):
            rows = held if method == "all" else held & (cells.method == method)
            if not rows.any():
                continue
            found = {name: score(cells, rows, value, cells.speedup) for name, value in rivals.items()}
            found["this fit"]["coverage"] = float(np.nanmean(inside[rows]))
            timed = rows & np.isfinite(cells.speedup_tpot)
            for name, value in (("this fit", tpot), ("bursts' constants", former[1])):
                of = score(cells, timed, value, cells.speedup_tpot)
                found[name] |= {"tpot_mape": of["mape"], "tpot_p90": of["p90"]}
            table[family][method] = found
    return table, predictions


def show(table):
    """Print the held-out table."""
    names = ("mape", "p90", "bias", "tpot_mape", "balanced_accuracy", "regret", "coverage")
    for family, methods in table.items():
        print(f"\n{family}\n{'':34}{'n':>4}" + "".join(f"{name:>19}" for name in names))
        for method, rivals in methods.items():
            for rival, s in rivals.items():
                cellwise = "".join(f"{s[x]:>19.3f}" if s.get(x) is not None else f"{'-':>19}" for x in names)
                print(f"{method:13}{rival:21}{s['cells']:>4}{cellwise}")


def main():
    """Fit, evaluate, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write models/priors/step_cost.yaml and the table")
    given = parser.parse_args()
    cells = Cells()
    best = fit(cells, np.ones(len(cells.rows), dtype=bool))
    constants = constants_at(best.x)
    covariance = np.linalg.inv(best.jac.T @ best.jac)
    for name, sd in zip(NAMES, np.sqrt(np.diag(covariance)), strict=True):
        print(f"{name:16s} {constants[name]:.4g}  log sd {sd:.3f}")
    table, predictions = evaluate(cells)
    show(table)
    if given.write:
        from step_cost_document import card, document

        digest = hashlib.sha256(CELLS.read_bytes()).hexdigest()
        models = Path(__file__).resolve().parents[1] / "models"
        note = "# Written by benchmarks/fit_step_cost.py: change it there.\n"
        entries = document(cells, constants, covariance, predictions, digest)
        text = yaml.safe_dump(entries, sort_keys=False, width=120)
        (models / "priors" / "step_cost.yaml").write_text(note + text, encoding="utf-8")
        (models / "artifacts" / "step_cost.md").write_text(card(cells, table, digest), encoding="utf-8")
    print(json.dumps({"constants": {n: round(v, 5) for n, v in constants.items()}, "held_out": table}))


if __name__ == "__main__":
    main()
