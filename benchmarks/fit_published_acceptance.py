"""Which log-odds of acceptance explain the published tables, and how far off are they for a source never seen?

    python benchmarks/fit_published_acceptance.py PUBLISHED.csv            # writes models/priors/acceptance.yaml
    python benchmarks/fit_published_acceptance.py PUBLISHED.csv --check    # prints only

PUBLISHED.csv (1,087 published rows with source, target, method, k, task, temperature, acceptance length and notes) is
not part of the project; the coefficients are. Used: chains of known k (SpecForge's topk = 1 rows, speculators, the
MiniMax-M3 blog, InferenceX' golden lengths), and EAGLE-3's Table 1 for its contrasts alone (tasks, temperature 0 and 1,
EAGLE-2 to EAGLE-3, Medusa to EAGLE): its trees have free levels of their own. Left out: other trees, DFlash and DSpark
(other methods), AngelSlim (k is not stated), images and audio, every speedup but prompt lookup's, whose
acceptance Spec-Bench gives for the whole benchmark alone. A temperature that is not stated is taken as 0. Added: the
design's own table of Qwen2.5-Coder 1.5B drafted by 0.5B. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from scipy.optimize import least_squares

CLASSES = ("code", "json", "sql", "math", "translation", "summarisation", "question_answering", "chat", "creative",
           "tool_calling")  # fmt: skip
TASKS = {
    "code": "code", "coding": "code", "HumanEval": "code", "math": "math", "math_reasoning": "math",
    "translation": "translation", "summarization": "summarisation", "rag": "summarisation", "finance qa": "qa",
    "science qa": "qa", "qa": "qa", "stem": "qa", "humanities": "qa", "reasoning": "qa", "chat": "chat",
    "instruction": "chat", "question": "chat", "multi-turn conversation": "chat", "math reasoning": "math",
    "writing": "creative", "roleplay": "creative", "tool_call": "tool_calling",
}  # fmt: skip
# Design's table: acceptance length, k = 4, 0.5B for 1.5B, at T = 0, 0.7, 1 (greedy drafts) and 1 (probabilistic).
DESIGN = {
    "own JSON": ("json", 4.8, 4.8, 4.8, 4.7), "extraction": ("json", 4.1, 3.8, 3.1, 4.0),
    "own code": ("code", 4.3, 3.7, 3.6, 3.9), "own SQL": ("sql", 3.8, 3.7, 3.2, 3.8),
    "math": ("math", 4.2, 4.1, 3.9, 4.0), "summarisation": ("summarisation", 4.0, 3.4, 2.2, 3.0),
    "retrieval": ("summarisation", 3.4, 3.3, 3.1, 3.0), "creative": ("creative", 2.9, 2.5, 1.9, 2.6),
}  # fmt: skip
DESIGN_RATIO = 0.494 / 1.544  # Qwen2.5-Coder 0.5B and 1.5B, parameters by their model cards
# Vicuna-68M (double7/vicuna-68m) for Vicuna-13B, and the depth that transformers' assisted generation starts with.
VICUNA_RATIO, VICUNA_DEPTH = 0.068 / 13.0, 5
# Trees of EAGLE-3's Table 1: their depth only sets where their free level lies.
TREES = {"EAGLE": 5, "EAGLE-2": 6, "EAGLE-3": 8, "Medusa": 5, "HASS": 6, "Hydra": 5}
# Prompt lookup on every step: tokens a step in EAGLE-3's Table 1; the design's two n-gram measurements.
NGRAM_MEASURED = {"summarisation": (3.7, 2.6), "translation": (2.4, 1.03)}  # acceptance length, tokens a step
NGRAM_K = 4

# Two drafters 4.1 log units of size apart carry the size coefficient, each with a level (GROUP_SD on the log odds,
# of which about half reaches log(AL - 1) at the acceptances seen).
SIZE_LOG_SD = 0.5 * 0.5 * np.sqrt(2) / np.log(DESIGN_RATIO / VICUNA_RATIO)
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


def design_rows() -> list[Row]:
    settings = [(0.0, False), (0.7, False), (1.0, False), (1.0, True)]
    return [
        Row("design", "design", "draft_model", 4, task, t, p, float(np.log(DESIGN_RATIO)), min(length, 4.95))
        for task, *lengths in DESIGN.values()
        for (t, p), length in zip(settings, lengths, strict=True)
    ]


class Fit:
    """The regularised logit model over rows; parameters are one flat vector."""

    def __init__(self, rows: list[Row], levels: list[str]) -> None:
        self.rows, self.levels = rows, levels
        self.groups = sorted({row.group for row in rows})
        self.level = np.array([levels.index(row.level) for row in rows])
        self.group = np.array([self.groups.index(row.group) for row in rows])
        self.task = np.array([CLASSES.index(row.task) for row in rows])
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


def left_out(rows: list[Row], levels: list[str], method: str, key: str) -> np.ndarray:
    """Log errors of AL - 1 for each source (or group) of a method that the fit has not seen, one mean square each."""
    squares = []
    for name in sorted({getattr(row, key) for row in rows if row.level == method}):
        kept = [row for row in rows if getattr(row, key) != name]
        if not any(row.level == method for row in kept):
            continue
        x = Fit(kept, levels).solve()
        seen = Fit([row for row in rows if getattr(row, key) == name and row.level == method], levels)
        y = np.concatenate([x[: Fit(kept, levels).slices["group"].start], np.zeros(len(seen.groups))])
        errors = seen.log_gain(y, with_groups=False) - seen.observed
        squares.append(np.mean(np.square(errors)))
        print(f"  left out of {method}: {name[:70]:70s} bias {errors.mean():+.2f} rms {np.sqrt(squares[-1]):.2f}")
    return np.array(squares)


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


def one_alpha(length: float, k: int) -> float:
    """Log-odds of the single α that gives this acceptance length (Leviathan et al. 2023)."""
    low, high = -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        alpha = 1 / (1 + np.exp(-middle))
        low, high = (middle, high) if 1 + sum(alpha**i for i in range(1, k + 1)) < length else (low, middle)
    return (low + high) / 2


def ngram_entries(records: list[dict[str, str]]) -> tuple[dict, dict]:
    """Class effects on acceptance and on the drafting share for methods that copy."""
    tokens = lookup_tokens(records)
    logs = {name: np.log(np.array(values) - 1.0) for name, values in tokens.items()}
    means = {name: float(np.mean(values)) for name, values in logs.items()}
    spread = float(np.sqrt(np.mean(np.concatenate([v - v.mean() for v in logs.values() if len(v) > 1]) ** 2)))
    average = float(np.mean([means[name] for name in means if name != "instruction"]))
    gain = {name: means.get(name, average) for name in CLASSES} | {"creative": means["instruction"]}
    # Acceptance of a draft goes with how much is copied, on the line through the design's two measurements.
    (high, low) = (NGRAM_MEASURED["summarisation"], NGRAM_MEASURED["translation"])
    a = {name: one_alpha(pair[0], NGRAM_K) for name, pair in NGRAM_MEASURED.items()}
    x = {"summarisation": np.log(high[1] - 1), "translation": np.log(low[1] - 1)}
    line = (a["summarisation"] - a["translation"]) / (x["summarisation"] - x["translation"])
    alpha = {name: a["translation"] + line * float(np.clip(gain[name], x["translation"], x["summarisation"]) -
                                                    x["translation"]) for name in CLASSES}  # fmt: skip
    share = {}
    for name in CLASSES:
        p = 1 / (1 + np.exp(-alpha[name]))
        m = min(np.exp(gain[name]) / sum(p**i for i in range(1, NGRAM_K + 1)), 0.95)
        share[name] = float(np.log(m / (1 - m)))
    overlap = {name: float(np.exp(gain[name]) / (1 + np.exp(gain[name]))) for name in CLASSES}
    half = float(np.log((high[0] - 1) / (low[0] - 1)) / 2)
    return (
        {"alpha": alpha, "share": share, "overlap": overlap},
        {"tokens_log_sd": spread, "length_log_sd": half, "unmeasured": [n for n in CLASSES if n not in means]},
    )


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
        rows |= {f"{part} {name}": np.eye(fit.size)[fit.slices[part].start + i] for i, name in enumerate(CLASSES)}
    for part in ("power", "relief", "size"):
        rows[part] = np.eye(fit.size)[fit.slices[part].start]
    rows |= {f"decay {name}": np.eye(fit.size)[fit.slices["decay"].start + i] for i, name in enumerate(fit.decays)}
    take = np.stack(list(rows.values()))
    spread = take @ covariance @ take.T
    return {"names": list(rows), "mean": [round(float(v), 4) for v in take @ x],
            "covariance": [[round(float(v), 6) for v in line[: i + 1]] for i, line in enumerate(spread)],
            "size_centre": round(float(np.log(DESIGN_RATIO)), 4)}  # fmt: skip


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(float(value), 3) for name, value in values.items()}


def describe(
    fit: Fit, x: np.ndarray, spreads: dict[str, float], ngram: dict, ngram_spread: dict, summary: dict
) -> dict:
    level = dict(zip(fit.levels, fit.part(x, "level"), strict=True))
    decay = dict(zip(fit.decays, fit.part(x, "decay"), strict=True))
    eagle = level["eagle3"] + level["tree EAGLE-2"] - level["tree EAGLE-3"]
    medusa = eagle + level["tree Medusa"] - level["tree EAGLE"]
    chains = "fit to published chains of known k: "

    def entry(intercept: float, d: float, sd: float, source: str, size: float = 0.0) -> dict:
        return {"intercept": round(float(intercept), 3), "decay": round(float(d), 3), "size": round(float(size), 3),
                "size_log_sd": round(float(SIZE_LOG_SD) if size else 0.0, 3), "class_effects": "models",
                "length_log_sd": round(float(sd), 3), "source": source}  # fmt: skip

    def copying(sd: float, share_sd: float, source: str) -> dict:
        return {"intercept": 0.0, "decay": 0.0, "size": 0.0, "size_log_sd": 0.0, "class_effects": "copying",
                "length_log_sd": round(float(sd), 3), "source": source,
                "drafting": {"logit_sd": round(share_sd, 3), "copy": 1.0, "intercept": 0.0,
                             "classes": rounded(ngram["share"])}}  # fmt: skip

    contrast = float(np.hypot(spreads["eagle3"], 0.15))
    return {
        "classes": list(CLASSES),
        "size_centre": round(float(np.log(DESIGN_RATIO)), 4),
        "temperature": {
            "power": round(float(fit.part(x, "power")[0]), 3),
            "probabilistic_relief": round(float(fit.part(x, "relief")[0]), 3),
            "slope": rounded(dict(zip(CLASSES, fit.part(x, "slope"), strict=True))),
            "source": "the design's table (T = 0, 0.7, 1; greedy and probabilistic drafts) and EAGLE-3's Table 1 "
            "(arXiv 2503.01840, T = 0 and 1); classes without a contrast of their own are drawn to the mean",
        },
        "class_effects": {
            "models": rounded(dict(zip(CLASSES, fit.part(x, "task"), strict=True))),
            "models_source": chains + "SpecForge, speculators, MiniMax-M3, the design's table; Table 1's contrasts",
            "copying": rounded(ngram["alpha"]),
            "copying_source": "log-odds of one α; line through the design's two n-gram measurements (summarisation "
            "AL 3.7 at 2.6 tokens a step, translation 2.4 at 1.03, taken at k = 4)",
        },
        "expected_overlap": rounded(ngram["overlap"])
        | {"source": "(τ - 1) / τ of prompt lookup at T = 0: Spec-Bench and EAGLE-3's Table 1; creative as Alpaca; "
           "mean of the others for " + ", ".join(n for n in ngram_spread["unmeasured"] if n != "creative")},
        "methods": {
            "eagle3": entry(level["eagle3"], decay["eagle3"], spreads["eagle3"],
                            chains + "SpecForge, speculators, MiniMax-M3 blog, InferenceX; spread: sources left out"),
            "eagle": entry(eagle, decay["eagle3"], contrast,
                           "EAGLE-3 plus the contrast of EAGLE-2 to it (same head as EAGLE) in EAGLE-3's Table 1"),
            "mtp": entry(level["mtp"], decay["mtp"], spreads["mtp"],
                         chains + "InferenceX, coding alone; spread: the larger of targets left out and EAGLE-3's"),
            "draft_model": entry(level["draft_model"], decay["draft_model"], spreads["draft_model"],
                                 "the design's table, and Vicuna-68M for Vicuna-13B in EAGLE-3's Table 1 for the size; "
                                 "spread: EAGLE-3's, widened as a mean of two drafters is", fit.part(x, "size")[0]),
            "medusa": entry(medusa, decay["eagle3"], float(np.hypot(contrast, 0.3)),
                            "EAGLE plus the contrast of Medusa to it in EAGLE-3's Table 1, trees both"),
            "ngram": copying(ngram_spread["length_log_sd"], max(ngram_spread["tokens_log_sd"], 0.5),
                             "prompt lookup in Spec-Bench and EAGLE-3's Table 1; the design's two measurements; "
                             "length spread: half the log distance of those two"),
            "suffix": copying(ngram_spread["length_log_sd"] * 1.5, max(ngram_spread["tokens_log_sd"], 0.5) * 1.5,
                              "no published table was at hand: n-gram's, with spreads half as wide again"),
        },
        "within_log_sd": summary["within_log_sd"],
        "within_source": "sd of log(AL - 1) that tasks of one drafter keep beside the fit: what requests differ by",
        "fit": summary,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("published", type=Path, help="CSV of published acceptance lengths")
    parser.add_argument("--check", action="store_true", help="print, write nothing")
    arguments = parser.parse_args()
    with arguments.published.open(encoding="utf-8", newline="") as stream:
        records = list(csv.DictReader(stream))
    rows = [row for row in map(usable, records) if row is not None] + design_rows()
    levels = sorted({row.level for row in rows})
    fit = Fit(rows, levels)
    x = fit.solve()
    errors = fit.log_gain(x) - fit.observed
    squares = {"eagle3": left_out(rows, levels, "eagle3", "source"), "mtp": left_out(rows, levels, "mtp", "group"),
               "draft_model": left_out(rows, levels, "draft_model", "group")}  # fmt: skip
    spreads = {name: float(np.sqrt(values.mean())) for name, values in squares.items()}
    spreads["mtp"] = max(spreads["mtp"], spreads["eagle3"])
    # Two drafters cannot judge each other across a hundredfold of size: EAGLE-3's spread, as if learned from two.
    spreads["draft_model"] = spreads["eagle3"] * np.sqrt(1 + 1 / len(squares["draft_model"]))
    summary = {
        "rows": {name: int(sum(row.level == name for row in rows)) for name in levels},
        "within_log_sd": round(float(np.sqrt(np.mean(np.square(errors)))), 3),
        "group_log_odds_sd": round(float(np.std(fit.part(x, "group"))), 3),
        "left_out_log_sd": {name: round(float(np.sqrt(v.mean())), 3) for name, v in squares.items()},
    }
    ngram, ngram_spread = ngram_entries(records)
    summary["prompt_lookup_tokens_log_sd"] = round(ngram_spread["tokens_log_sd"], 3)
    document = describe(fit, x, spreads, ngram, ngram_spread, summary)
    if not arguments.check:
        path = Path(__file__).resolve().parent.parent / "models" / "priors" / "acceptance.yaml"
        note = "# Written by benchmarks/fit_published_acceptance.py: change it there.\n"
        path.write_text(note + yaml.safe_dump(document, sort_keys=False, width=120), encoding="utf-8")
    print(yaml.safe_dump(document, sort_keys=False, width=120))
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
