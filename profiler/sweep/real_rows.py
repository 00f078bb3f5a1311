"""What is kept of real traffic: one flat row a cell, with digests of greedy answers in place of text.

Latencies in milliseconds, rates per second. Counts are those of vLLM's metrics over the measured span; `answers`,
`answers_alike` and `answers_cut` are over all requests of the cell that ended, the loop's start included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiler.sweep.closed_loop import CellMeasurement
from profiler.sweep.real_grid import RealCell, RealEngine
from profiler.sweep.traffic import PromptCycle

PROTOCOL_VERSION = 1


def real_row(
    engine: RealEngine, cell: RealCell, measured: CellMeasurement, traffic: PromptCycle,
    prompts: Sequence[Sequence[int]], *, key: str, most_output_tokens: int, facts: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The row of one measured cell; `prompts` are its token ids, `facts` those of its engine and host."""
    speculation = engine.speculation
    counted = measured.counters
    rates = np.array([tokens / seconds for seconds, tokens in measured.windows])
    tpot_s = [f.decode_s / (f.output_tokens - 1) for f in measured.timed if f.output_tokens > 1]
    return {
        "key": key, "protocol": PROTOCOL_VERSION, "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "engine": engine.name, "target": engine.target, "method": speculation.method if speculation else "none",
        "drafter": speculation.draft if speculation else None,
        "num_speculative_tokens": speculation.num_speculative_tokens if speculation else 0,
        "draft_sample_method": speculation.draft_sample_method if speculation and speculation.draft else None,
        **cell.model_dump(), "prompts": len(prompts), "most_output_tokens": most_output_tokens,
        "input_tokens_mean": round(float(np.mean([len(prompt) for prompt in prompts])), 2),
        "output_tokens_mean": round(measured.answer_tokens / measured.completions, 2),
        "output_tokens_per_s": round(counted.generation_tokens / measured.measured_s, 3),
        "output_tokens_per_s_cv": round(float(np.std(rates, ddof=1) / np.mean(rates)), 4) if len(rates) > 1 else None,
        "repeats": len(rates), "repeat_output_tokens_per_s": [round(float(rate), 2) for rate in rates],
        "ttft_ms_mean": _mean(measured.ttft_s), "ttft_ms_p50": _quantile(measured.ttft_s, 0.5),
        "ttft_ms_p95": _quantile(measured.ttft_s, 0.95),
        "tpot_ms_p50": _quantile(tpot_s, 0.5), "tpot_ms_p95": _quantile(tpot_s, 0.95),
        "e2e_ms_p50": _quantile(measured.e2e_s, 0.5), "e2e_ms_p95": _quantile(measured.e2e_s, 0.95),
        "requests_timed": len(measured.timed),
        "step_ms_mean": _mean(measured.step_s), "step_ms_p50": _quantile(measured.step_s, 0.5),
        "step_ms_p90": _quantile(measured.step_s, 0.9),
        "steps": counted.steps, "completions": measured.completions, "answer_tokens": measured.answer_tokens,
        "generation_tokens": counted.generation_tokens,
        "decode_tokens": counted.generation_tokens - counted.first_tokens, "decode_steps": counted.decode_steps,
        "prompt_tokens": counted.prompt_tokens, "drafts": counted.drafts, "drafted_tokens": counted.drafted_tokens,
        "accepted_tokens": counted.accepted_tokens, "accepted_per_position": list(counted.accepted_per_position),
        "preemptions": counted.preemptions, "cached_prompt_tokens": counted.cached_prompt_tokens,
        "answers": traffic.answers, "answers_cut": traffic.cut,
        "answers_alike": traffic.alike if cell.temperature == 0.0 else None,
        "answer_digests": [digest or "-" for digest in traffic.digests] if cell.temperature == 0.0 else None,
        "ended_by": measured.ended_by, "fill_s": round(measured.fill_s, 3),
        "measured_s": round(measured.measured_s, 3), **facts,
    }  # fmt: skip


def _quantile(seconds: Sequence[float] | NDArray[np.float64], q: float) -> float | None:
    return round(1e3 * float(np.quantile(seconds, q)), 4) if len(seconds) else None


def _mean(seconds: Sequence[float] | NDArray[np.float64]) -> float | None:
    return round(1e3 * float(np.mean(seconds)), 4) if len(seconds) else None
