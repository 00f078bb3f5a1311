"""Which log-odds of acceptance explain the published tables, and how far off are they for a source never seen?

    python benchmarks/fit_published_acceptance.py PUBLISHED.csv            # writes models/priors/acceptance.json
    python benchmarks/fit_published_acceptance.py PUBLISHED.csv --check    # prints only

PUBLISHED.csv (1,087 published rows with source, target, method, k, task, temperature, acceptance length and notes) is
not part of the project; what it says of the coefficients is: a Gaussian over them, which training starts from. Used:
chains of known k (SpecForge's topk = 1 rows, speculators, the MiniMax-M3 blog, InferenceX' golden lengths), and
EAGLE-3's Table 1 for its contrasts alone (tasks, temperature 0 and 1, EAGLE-2 to EAGLE-3, Medusa to EAGLE): its trees
have free levels of their own. Left out: other trees, DFlash and DSpark (other methods), AngelSlim (k is not stated),
images and audio, every speedup but prompt lookup's, whose acceptance Spec-Bench gives for the whole benchmark alone.
A temperature that is not stated is taken as 0. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from models.acceptance import AcceptanceInputs, AcceptanceModel
from models.structure import STRUCTURES
from models.training.acceptance_fit import AcceptanceFit, coefficients_of_fit, fit_acceptance
from models.training.acceptance_priors import Published
from models.training.acceptance_rows import AcceptanceRows, read_rows

MEASUREMENTS = Path(__file__).resolve().parent.parent / "data" / "measurements"
TASKS = {
    "code": "code", "coding": "code", "HumanEval": "code", "math": "math", "math_reasoning": "math",
    "translation": "translation", "summarization": "summarisation", "rag": "summarisation", "finance qa": "qa",
    "science qa": "qa", "qa": "qa", "stem": "qa", "humanities": "qa", "reasoning": "qa", "chat": "chat",
    "instruction": "chat", "question": "chat", "multi-turn conversation": "chat", "math reasoning": "math",
    "writing": "creative", "roleplay": "creative", "tool_call": "tool_calling",
}  # fmt: skip
# The pair that is measured, data/grids/acceptance-1.yaml: the drafter's size is counted from its ratio.
DESIGN_RATIO = 0.494 / 1.544  # Qwen2.5-Coder 0.5B and 1.5B, parameters by their model cards
# Vicuna-68M (double7/vicuna-68m) for Vicuna-13B, and the depth that transformers' assisted generation starts with.
VICUNA_RATIO, VICUNA_DEPTH = 0.068 / 13.0, 5
# Trees of EAGLE-3's Table 1: their depth only sets where their free level lies.
TREES = {"EAGLE": 5, "EAGLE-2": 6, "EAGLE-3": 8, "Medusa": 5, "HASS": 6, "Hydra": 5}

ROW_SD, GROUP_SD, CLASS_SD, SLOPE_SD, LEVEL_SD = 0.12, 0.5, 0.7, 0.5, 3.0  # regularisation, log-odds and log(AL - 1)


@dataclass(frozen=True)
class Row:
    """One published acceptance length."""

    source: str
    group: str  # source, target and drafter: what shares a level
    level: str  # whose intercept: a method, or a tree of Table 1
    k: int
    task: str
    temperature: float
    probabilistic: bool
    log_ratio: float  # nan: no size
    length: float


def task_class(task: str) -> str | None:
    name = task.split(" (")[0]
    found = TASKS.get(name)
    return "question_answering" if found == "qa" else found


def usable(record: dict[str, str]) -> Row | None:
    """The record as a row, or None where its notes say that it cannot be one."""
    source, drafter, notes = record["source"], record["draft_or_method"], record["notes"]
    task = task_class(record["task"])
    if not record["mean_accept_len"] or task is None:
        return None
    length, temperature = float(record["mean_accept_len"]), float(record["temperature"] or 0.0)
    group = f"{source}|{record['model_target']}|{drafter}"
    common = {"source": source, "group": group, "task": task, "temperature": temperature, "probabilistic": False,
              "length": length}  # fmt: skip
    if "EAGLE-3 Table 1" in source:
        if drafter == "SpS draft model":
            return Row(level="draft_model", k=VICUNA_DEPTH, log_ratio=float(np.log(VICUNA_RATIO)), **common)
        if drafter in TREES:
            return Row(level=f"tree {drafter}", k=TREES[drafter], log_ratio=np.nan, **common)
        return None
    if "tree" in notes or not record["num_spec_tokens"] or length <= 1.02:
        return None
    method = {"EAGLE-3": "eagle3", "eagle3": "eagle3", "MTP": "mtp"}.get(drafter.split(":")[0].split(" (")[0])
    if method is None:
        return None
    return Row(level=method, k=int(record["num_spec_tokens"]), log_ratio=np.nan, **common)


class Fit:
    """The regularised logit model over rows; parameters are one flat vector."""

    def __init__(self, rows: list[Row], levels: list[str]) -> None:
        self.rows, self.levels = rows, levels
        self.groups = sorted({row.group for row in rows})
        self.level = np.array([levels.index(row.level) for row in rows])
        self.group = np.array([self.groups.index(row.group) for row in rows])
        self.task = np.array([STRUCTURES.index(row.task) for row in rows])
        self.k = np.array([row.k for row in rows])
        self.t = np.array([row.temperature for row in rows])
        self.probabilistic = np.array([row.probabilistic for row in rows])
        ratios = np.array([row.log_ratio for row in rows])
        self.ratio = np.where(np.isnan(ratios), 0.0, ratios - np.log(DESIGN_RATIO))
        self.observed = np.log(np.array([row.length for row in rows]) - 1.0)
        # A source of 264 rows must not outvote one of 11: its rows weigh as the square root of their number.
        counts = {row.source: sum(other.source == row.source for other in rows) for row in rows}
        self.weight = np.array([counts[row.source] ** -0.25 for row in rows])
        self.decays = ["eagle3", "mtp", "draft_model"]
        self.decay = np.array([self.decays.index(r.level) if r.level in self.decays else 0 for r in rows])
        sizes = {"level": len(levels), "task": 10, "slope": 10, "mean_slope": 1, "power": 1, "relief": 1, "size": 1,
                 "decay": 3, "group": len(self.groups)}  # fmt: skip
        self.slices, start = {}, 0
        for name, size in sizes.items():
            self.slices[name] = slice(start, start + size)
            start += size
        self.size = start

    def part(self, x: np.ndarray, name: str) -> np.ndarray:
        return x[self.slices[name]]

    def log_gain(self, x: np.ndarray, *, with_groups: bool = True) -> np.ndarray:
        """log(AL - 1) of every row."""
        relief = np.where(self.probabilistic, self.part(x, "relief")[0], 1.0)
        heat = self.t ** self.part(x, "power")[0] * relief
        odds = self.part(x, "level")[self.level] + self.part(x, "task")[self.task]
        odds = odds - heat * self.part(x, "slope")[self.task] + self.part(x, "size")[0] * self.ratio
        if with_groups:
            odds = odds + self.part(x, "group")[self.group]
        i = np.arange(1, 9)[None, :]
        by_position = odds[:, None] + self.part(x, "decay")[self.decay][:, None] * np.log(i)
        alpha = np.where(i <= self.k[:, None], 1.0 / (1.0 + np.exp(-by_position)), 0.0)
        return np.log(np.cumprod(alpha, axis=1).sum(axis=1))

    def residuals(self, x: np.ndarray) -> np.ndarray:
        p = self.part
        return np.concatenate([
            self.weight * (self.log_gain(x) - self.observed) / ROW_SD, p(x, "group") / GROUP_SD,
            p(x, "task") / CLASS_SD, (p(x, "slope") - p(x, "mean_slope")) / SLOPE_SD, p(x, "level") / LEVEL_SD,
            p(x, "mean_slope") / 1.0, (p(x, "power") - 1.5) / 0.5, p(x, "decay") / 0.5, p(x, "size") / 0.5,
            (p(x, "relief") - 0.5) / 0.3,
            [p(x, "task").sum() / 0.01],
        ])  # fmt: skip

    def solve(self) -> np.ndarray:
        start, low, high = np.zeros(self.size), np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for name, value, least, most in (
            ("slope", 0.5, 0.0, np.inf), ("mean_slope", 0.5, 0.0, np.inf), ("power", 1.5, 1.0, 3.0),
            ("relief", 0.5, 0.0, 1.0), ("size", 0.3, 0.0, np.inf),
        ):  # fmt: skip
            start[self.slices[name]], low[self.slices[name]], high[self.slices[name]] = value, least, most
        return least_squares(self.residuals, start, bounds=(low, high)).x


def left_out(rows: list[Row], levels: list[str], method: str, key: str, measured: AcceptanceRows) -> list[dict]:
    """Errors for each source (or group) of a method that the fit has not seen: of log(AL - 1), and of AL.

    Beside this fit: one acceptance for all of the method's rows, and the trained model, which starts from this fit
    (without the source) and learns from what was measured here.
    """
    found = []
    for name in sorted({getattr(row, key) for row in rows if row.level == method}):
        kept = [row for row in rows if getattr(row, key) != name]
        alike = [row for row in kept if row.level == method]
        out = [row for row in rows if getattr(row, key) == name and row.level == method]
        if not alike and not len(measured):
            continue  # nothing is left to tell
        fit, seen = Fit(kept, levels), Fit(out, levels)
        x = fit.solve()
        y = np.concatenate([x[: fit.slices["group"].start], np.zeros(len(seen.groups))])
        predicted = seen.log_gain(y, with_groups=False)
        gain = np.exp(seen.observed)
        entry = {"method": method, "left out": short_name(name, key), "rows": len(out)}
        if alike:
            one = np.mean([one_alpha(row.length, row.k) for row in alike])
            rival = np.array([sum(np.power(1 / (1 + np.exp(-one)), i) for i in range(1, row.k + 1)) for row in out])
            entry["MAE of AL"] = mean_error(np.exp(predicted), gain)
            entry["bias of AL"] = float(np.mean(np.exp(predicted) - gain))
            entry["log sd"] = float(np.sqrt(np.mean(np.square(predicted - seen.observed))))
            entry["MAE, one acceptance"] = mean_error(rival, gain)
        if len(measured):
            entry["MAE, with what was measured"] = mean_error(trained_gain(fit, x, out, measured), gain)
        found.append({name: round(value, 3) if isinstance(value, float) else value for name, value in entry.items()})
    return found


def lookup_left_out(records: list[dict[str, str]], fit: Fit, x: np.ndarray, measured: AcceptanceRows) -> list[dict]:
    """Published prompt lookup (matches of 3 tokens down to 1, 10 copied) by what was measured here alone."""
    tokens = lookup_tokens(records)
    tasks = ["creative" if name == "instruction" else name for name in tokens]
    rows = [Row("", "", "ngram", 10, task, 0.0, False, np.nan, 0.0) for task in tasks]
    predicted = trained_gain(fit, x, rows, measured, lookup_min=1.0) if len(measured) else []
    return [
        {"task": name, "runs": len(values), "tokens a step": round(float(np.mean(values)), 2),
         "predicted": round(float(1.0 + gain), 2)}
        for (name, values), gain in zip(tokens.items(), predicted, strict=False)
    ]  # fmt: skip


def mean_error(predicted: np.ndarray, observed: np.ndarray) -> float:
    return float(np.mean(np.abs(predicted - observed)))


_STARTED: list[AcceptanceFit] = []


def trained_gain(
    fit: Fit, x: np.ndarray, rows: list[Row], measured: AcceptanceRows, *, lookup_min: float = np.nan
) -> np.ndarray:
    """τ - 1 of rows by the model that training makes of a published fit and the measured rows."""
    document = gaussian(fit, x) | {"lookup": {"log_gain": {"chat": 0.0}, "log_sd": 0.3}}
    lower = document["covariance"]
    covariance = np.array([line + [lower[j][i] for j in range(i + 1, len(lower))] for i, line in enumerate(lower)])
    published = Published(tuple(document["names"]), np.array(document["mean"]), covariance, document)
    if not _STARTED:  # saves time alone
        _STARTED.append(fit_acceptance(measured, published))
    model = AcceptanceModel.of(
        coefficients_of_fit(fit_acceptance(measured, published, start=_STARTED[0]), published)
    )  # fmt: skip
    estimate = model.predict(AcceptanceInputs.of(
        method=[row.level for row in rows], num_speculative_tokens=[row.k for row in rows],
        temperature=[row.temperature for row in rows],
        structure=np.eye(len(STRUCTURES))[[STRUCTURES.index(row.task) for row in rows]],
        size_ratio=[np.exp(row.log_ratio) for row in rows], lookup_min=lookup_min,
    ))  # fmt: skip
    return estimate.tokens_per_step - 1.0


def one_alpha(length: float, k: int) -> float:
    """Log-odds of the single α that gives this acceptance length (Leviathan et al. 2023)."""
    low, high = -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        alpha = 1 / (1 + np.exp(-middle))
        low, high = (middle, high) if 1 + sum(alpha**i for i in range(1, k + 1)) < length else (low, middle)
    return (low + high) / 2


def short_name(name: str, key: str) -> str:
    """A source without its address and commit; the target of a group."""
    if key == "group":
        return name.split("|")[1]
    return re.sub(r"github |@[0-9a-f]+|golden_al_distribution/", "", name)[:70]


def lookup_tokens(records: list[dict[str, str]]) -> dict[str, list[float]]:
    """Tokens a step of prompt lookup by class, one value a source and target."""
    found: dict[str, list[float]] = {}
    for record in records:
        if record["draft_or_method"] == "PLD (ngram)" and record["mean_accept_len"]:
            name = "instruction" if "instruction" in record["task"] else task_class(record["task"])
            found.setdefault(str(name), []).append(float(record["mean_accept_len"]))
    by_run: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    for record in records:
        if record["draft_or_method"] == "PLD" and "mean accepted tokens=" in record["notes"]:
            mean = float(record["notes"].split("mean accepted tokens=")[1].split(" ")[0])
            run = (record["hardware"], record["model_target"])
            by_run.setdefault(run, []).append((str(task_class(record["task"])), float(record["speedup"]), mean))
    for rows in by_run.values():
        # At batch 1 the cost of a step is the same for all tasks, so tokens a step go with the speedup.
        scale = np.mean([mean for _, _, mean in rows]) / np.mean([speedup for _, speedup, _ in rows])
        for name, speedup, _ in rows:
            found.setdefault(name, []).append(max(speedup * scale, 1.02))
    return found


def gaussian(fit: Fit, x: np.ndarray) -> dict:
    """The fit as a Gaussian over what training takes from it: means and covariance, levels of EAGLE and Medusa derived.

    The covariance is that of the regularised least squares (its Jacobian's), groups and trees integrated out.
    """
    step = 1e-5
    jacobian = np.stack([(fit.residuals(x + step * unit) - fit.residuals(x - step * unit)) / (2 * step)
                         for unit in np.eye(fit.size)], axis=1)  # fmt: skip
    covariance = np.linalg.inv(jacobian.T @ jacobian)
    level = {name: np.eye(fit.size)[fit.slices["level"].start + i] for i, name in enumerate(fit.levels)}
    eagle = level["eagle3"] + level["tree EAGLE-2"] - level["tree EAGLE-3"]
    rows = {f"level {name}": level[name] for name in ("eagle3", "mtp", "draft_model")}
    rows |= {"level eagle": eagle, "level medusa": eagle + level["tree Medusa"] - level["tree EAGLE"]}
    for part in ("task", "slope"):
        rows |= {f"{part} {name}": np.eye(fit.size)[fit.slices[part].start + i] for i, name in enumerate(STRUCTURES)}
    for part in ("power", "relief", "size"):
        rows[part] = np.eye(fit.size)[fit.slices[part].start]
    rows |= {f"decay {name}": np.eye(fit.size)[fit.slices["decay"].start + i] for i, name in enumerate(fit.decays)}
    take = np.stack(list(rows.values()))
    spread = take @ covariance @ take.T
    return {"names": list(rows), "mean": [round(float(v), 4) for v in take @ x],
            "covariance": [[round(float(v), 6) for v in line[: i + 1]] for i, line in enumerate(spread)],
            "size_centre": round(float(np.log(DESIGN_RATIO)), 4)}  # fmt: skip


def lookup_prior(records: list[dict[str, str]]) -> dict:
    """What prompt lookup gains by class: log of the tokens that a step adds, and its spread between targets."""
    logs = {name: np.log(np.array(values) - 1.0) for name, values in lookup_tokens(records).items()}
    spread = float(np.sqrt(np.mean(np.concatenate([v - v.mean() for v in logs.values() if len(v) > 1]) ** 2)))
    gain = {name: round(float(logs[name].mean()), 3) for name in STRUCTURES if name in logs}
    gain["creative"] = round(float(logs["instruction"].mean()), 3)
    return {"log_gain": gain, "log_sd": round(spread, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("published", type=Path, help="CSV of published acceptance lengths")
    parser.add_argument("--check", action="store_true", help="print, write nothing")
    arguments = parser.parse_args()
    with arguments.published.open(encoding="utf-8", newline="") as stream:
        records = list(csv.DictReader(stream))
    rows = [row for row in map(usable, records) if row is not None]
    levels = sorted({row.level for row in rows})
    fit = Fit(rows, levels)
    x = fit.solve()
    errors = fit.log_gain(x) - fit.observed
    measured = read_rows(MEASUREMENTS)
    table = left_out(rows, levels, "eagle3", "source", measured) + left_out(rows, levels, "mtp", "group", measured)
    table += left_out(rows, levels, "draft_model", "source", measured)
    for row in table:
        print(row)
    summary = {
        "rows": {name: int(sum(row.level == name for row in rows)) for name in levels},
        "row_log_sd": round(float(np.sqrt(np.mean(np.square(errors)))), 3),
        "group_log_odds_sd": round(float(np.std(fit.part(x, "group"))), 3),
        "left_out_log_sd": {method: round(float(np.sqrt(np.mean([row["log sd"] ** 2 for row in table
                                                                 if row["method"] == method]))), 3)
                            for method in ("eagle3", "mtp")},
    }  # fmt: skip
    document = {"written_by": "benchmarks/fit_published_acceptance.py", "classes": list(STRUCTURES), **gaussian(fit, x),
                "lookup": lookup_prior(records), "summary": summary, "left_out": table,
                "lookup_left_out": lookup_left_out(records, fit, x, measured)}  # fmt: skip
    for name, mean, line in zip(document["names"], document["mean"], document["covariance"], strict=True):
        print(f"{name:28s} {mean:7.3f} +- {line[-1] ** 0.5:.3f}")
    if not arguments.check:
        path = Path(__file__).resolve().parent.parent / "models" / "priors" / "acceptance.json"
        text = json.dumps(document, indent=1)
        # One line for each list of numbers: a matrix that people can read.
        text = re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)
        path.write_text(text + "\n", encoding="utf-8")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
