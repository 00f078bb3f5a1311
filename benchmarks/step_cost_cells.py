"""The measured cells as a table to fit to, and the rules and formulas that a fitted step cost must beat."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from models.step_cost.closed_loop import PassCosts, closed_loop
from models.step_cost.inputs import StepCostInputs, step_cost_inputs
from models.step_cost.passes import HOST_METHODS, price_passes
from profiler.measurements import read_cells, read_engines
from profiler.measurements.deployment import measured_deployment, read_shapes

DATA = Path(__file__).resolve().parents[1] / "data"
CELLS = DATA / "measurements" / "cost_cells.csv"
SUSPECT = {"imbalanced", "short", "disagreeing", "spread", "unsettled", "preempted"}
BANDS = ((1, 8), (9, 32), (33, 128), (129, 1024))  # concurrency

# What the design notes' bursts gave, with which these cells were first compared.
FORMER = {
    "o_layer_ms": 0.01817, "e_bw": 0.7313, "e_kv": 0.7844, "e_f": 0.5452, "e_p": 0.623, "o_verify_ms": 0.8095,
    "o_head_ms": 0.034, "o_draft_host_ms": 5.121, "o_sync_ms": 2.326, "o_propose_ms": 0.023,
}  # fmt: skip


class Cells:
    """Equal-length arrays over the runs of all cells whose engine had vLLM's default capture sizes."""

    def __init__(self) -> None:
        """Read data/measurements."""
        engines = {engine["engine_id"]: engine for engine in read_engines(DATA / "measurements")}
        shapes = read_shapes(DATA / "grids")
        # Graphs without multiples of k + 1 pad every step: five rows of an engine with a short list are left out.
        self.rows = [row for row in read_cells(DATA / "measurements") if "compilation_config" not in row["key"]]
        known = {i: measured_deployment(engines[i], shapes) for i in {row["engine_id"] for row in self.rows}}
        tables = []
        ratio = []  # drafter's weight traffic / target's: the c of the literature's formula
        for row in self.rows:
            deployment, speculation = known[row["engine_id"]]
            tables.append(step_cost_inputs(
                deployment, speculation, concurrency=row["concurrency"],
                context_tokens=row["input_tokens"] + row["output_tokens"] / 2, prefill_tokens=row["input_tokens"],
                draft_share=1.0 if row["draft_share"] is None else min(row["draft_share"], 1.0),
            ))  # fmt: skip
            draft = None if speculation is None else speculation.draft
            ratio.append(
                0.0
                if draft is None
                else float(
                    draft.decode_weight_bytes(np.ones(1))[0] / deployment.target.decode_weight_bytes(np.ones(1))[0]
                )
            )
        self.inputs = StepCostInputs.concatenate(tables)
        self.method = np.array([row["method"] for row in self.rows])
        self.target = np.array([row["target"] for row in self.rows])
        self.k = self.column("num_speculative_tokens")
        self.b, self.s, self.n = (self.column(c) for c in ("concurrency", "input_tokens", "output_tokens"))
        self.tau, self.length = self.column("tokens_per_step"), self.column("acceptance_length")
        self.end_to_end_ms = 1e3 * self.b * self.n / self.column("output_tokens_per_s")
        self.tpot_ms, self.step_ms = self.column("tpot_ms"), self.column("step_ms_p50")
        self.first_token_ms = self.column("ttft_ms_p50")
        self.speedup, self.speedup_tpot = self.column("speedup_end_to_end"), self.column("speedup_tpot")
        self.speculative = self.method != "none"
        # Fewer completions than a third of the steps: the median step carries no prefill.
        self.pure = self.column("completions") < self.column("steps") / 3
        self.suspect = np.array([bool(SUSPECT & set((row["flags"] or "").split())) for row in self.rows])
        self.literature = self.length / (1.0 + self.k * np.array(ratio))
        points = list(zip(self.target, self.b, self.s, self.n, strict=True))
        baseline = {point: i for i, point in enumerate(points) if not self.speculative[i]}
        self.baseline = np.array([baseline.get(point, -1) for point in points])  # row of the same point's baseline
        self.point = np.unique(np.stack([self.b, self.s, self.n]), axis=1, return_inverse=True)[1].ravel()
        self.band = np.select([(self.b >= low) & (self.b <= high) for low, high in BANDS], range(len(BANDS)))
        self.judged = self.speculative & ~np.isnan(self.speedup) & (self.baseline >= 0)

    def column(self, name):
        """A column as floats, nan where empty."""
        return np.array([np.nan if row[name] is None else float(row[name]) for row in self.rows])

    def latencies(self, constants):
        """What constants predict for each row; the baseline's rows without speculation."""
        base = price_passes(self.inputs, constants, speculative=False)
        step = price_passes(self.inputs, constants, speculative=True)
        costs = PassCosts(
            self.b, np.where(self.speculative[:, None], step, base), self.inputs.prefill_chunks,
            np.where(np.isin(self.method, HOST_METHODS), constants["joining_sync"], constants["joining_async"]),
            np.full_like(self.b, constants["o_request_ms"]),
        )  # fmt: skip
        return costs, closed_loop(costs, tokens_per_step=self.tau, output_tokens=self.n)

    def speedups(self, latencies):
        """(end-to-end, TPOT) speedups of predictions: predicted baseline over predicted row."""
        end, tpot = latencies.end_to_end_ms, latencies.tpot_ms
        return end[self.baseline] / end, tpot[self.baseline] / tpot

    def former(self):
        """End-to-end and TPOT speedups by the design notes' formula with the constants fitted to its bursts."""
        i, c = self.inputs, FORMER

        def a_pass(weights, kv, flops, layers, peak):
            memory = (weights / c["e_bw"] + kv / c["e_kv"]) / i.bandwidth_bytes_per_s
            return layers * c["o_layer_ms"] + 1e3 * (memory**4 + (flops / (c["e_f"] * peak)) ** 4) ** 0.25

        base = a_pass(i.base_weight_bytes, i.kv_bytes, i.base_flops, i.layers, i.peak_flops_per_s)
        step = a_pass(i.step_weight_bytes, i.kv_bytes, i.step_flops, i.layers, i.peak_flops_per_s)
        drafter = (i.draft_weight_bytes, i.draft_kv_bytes)
        model, host = self.method == "draft_model", np.isin(self.method, HOST_METHODS)
        first, later = (
            np.maximum(a_pass(*drafter, flops, i.draft_layers, i.draft_peak_flops_per_s)
                       + np.where(model, 0.0, c["o_head_ms"]), np.where(model, c["o_draft_host_ms"], 0.0))
            for flops in (i.draft_first_flops, i.draft_flops)
        )  # fmt: skip
        started = np.minimum(i.draft_passes, 1.0)
        step = step + started * first + (i.draft_passes - started) * later
        propose = np.where(self.method == "ngram", self.b * c["o_propose_ms"], 0.0)
        step = step + np.where(host, c["o_sync_ms"] + propose, c["o_verify_ms"])
        prefill = 1e3 * i.prefill_flops / (c["e_p"] * i.peak_flops_per_s)
        own = prefill + 1e3 * i.draft_prefill_flops / (c["e_p"] * i.draft_peak_flops_per_s)
        decode, decode_with = (self.n - 1) * base, (self.n - 1) * step / self.tau
        return ((self.b * prefill + decode) / (self.b * own + decode_with),
                ((self.b - 1) * prefill + decode) / ((self.b - 1) * own + decode_with))  # fmt: skip
