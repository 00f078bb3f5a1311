"""What is kept of real traffic: one flat row a cell, with digests of greedy answers in place of text.

Latencies in milliseconds, rates per second. Counts are those of vLLM's metrics over the measured span; `answers`,
`answers_alike` and `answers_cut` are over all requests of the cell that ended, the loop's start included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from profiler.sweep.closed_loop import CellMeasurement
from profiler.sweep.real_grid import RealCell, RealEngine
from profiler.sweep.rows import counted_facts, mean_ms, quantile_ms, speculation_facts, variation
from profiler.sweep.traffic import PromptCycle

PROTOCOL_VERSION = 1


def real_row(
    engine: RealEngine, cell: RealCell, measured: CellMeasurement, traffic: PromptCycle,
    prompts: Sequence[Sequence[int]], *, key: str, most_output_tokens: int, facts: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The row of one measured cell; `prompts` are its token ids, `facts` those of its engine and host."""
    counted = measured.counters
    rates = [tokens / seconds for seconds, tokens in measured.windows]
    tpot_s = [f.decode_s / (f.output_tokens - 1) for f in measured.timed if f.output_tokens > 1]
    return {
        "key": key, "protocol": PROTOCOL_VERSION, "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": engine.name, "target": engine.target, **speculation_facts(engine.speculation),
        **cell.model_dump(), "prompts": len(prompts), "most_output_tokens": most_output_tokens,
        "input_tokens_mean": round(float(np.mean([len(prompt) for prompt in prompts])), 2),
        "output_tokens_mean": round(measured.answer_tokens / measured.completions, 2),
        "output_tokens_per_s": round(counted.generation_tokens / measured.measured_s, 3),
        "output_tokens_per_s_cv": variation(rates),
        "repeats": len(rates), "repeat_output_tokens_per_s": [round(rate, 2) for rate in rates],
        "ttft_ms_mean": mean_ms(measured.ttft_s), "ttft_ms_p50": quantile_ms(measured.ttft_s, 0.5),
        "ttft_ms_p95": quantile_ms(measured.ttft_s, 0.95),
        "tpot_ms_p50": quantile_ms(tpot_s, 0.5), "tpot_ms_p95": quantile_ms(tpot_s, 0.95),
        "e2e_ms_p50": quantile_ms(measured.e2e_s, 0.5), "e2e_ms_p95": quantile_ms(measured.e2e_s, 0.95),
        "requests_timed": len(measured.timed),
        "step_ms_mean": mean_ms(measured.step_s), "step_ms_p50": quantile_ms(measured.step_s, 0.5),
        "step_ms_p90": quantile_ms(measured.step_s, 0.9),
        "completions": measured.completions, "answer_tokens": measured.answer_tokens,
        **counted_facts(counted), "decode_steps": counted.decode_steps,
        "answers": traffic.answers, "answers_cut": traffic.cut,
        "answers_alike": traffic.alike if cell.temperature == 0.0 else None,
        "answer_digests": [digest or "-" for digest in traffic.digests] if cell.temperature == 0.0 else None,
        "ended_by": measured.ended_by, "fill_s": round(measured.fill_s, 3),
        "measured_s": round(measured.measured_s, 3), **facts,
    }  # fmt: skip
