"""What does NVIDIA's aiconfigurator say of these batches? Runs under an interpreter that has it; needs nothing of ours.

benchmarks/rival_aiconfigurator.py starts it: JSON on standard input {"models": {name: config.json}, "asks": [...]},
JSON on standard output {"version", "data_version", "answers": [...]}. An ask is {"model", "gemm", "nextn", "accepted",
"tensor_parallel_size", "concurrency", "input_tokens", "output_tokens", "budget"}; its answer holds each mode's
latencies in milliseconds, or says in `unknown` why there are none.

One session per model, precision, width and draft length is kept: what `aiconfigurator cli estimate` builds anew for
each call (seconds) then answers in a millisecond. The steps are those of its static and agg estimates.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import traceback
from functools import cache
from importlib.metadata import version
from pathlib import Path

SYSTEM, BACKEND = "h200_sxm", "vllm"


def main():
    """Answer every ask."""
    asked = json.load(sys.stdin)
    # The tool prints what it loads; only the answer belongs on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        logging.disable(logging.WARNING)
        answered = answer(asked["models"], asked["asks"])
    json.dump(answered, sys.stdout)


def answer(models, asks):
    """The tool's latencies for each ask."""
    from aiconfigurator.sdk.backends.factory import get_backend
    from aiconfigurator.sdk.config import RuntimeConfig
    from aiconfigurator.sdk.config_builders import apply_nextn, build_model_config
    from aiconfigurator.sdk.inference_session import InferenceSession
    from aiconfigurator.sdk.models import get_model, resolve_context_fmha_by_data
    from aiconfigurator.sdk.perf_database import get_database_view, get_latest_database_version
    from aiconfigurator.sdk.speculative import SpeculativeDecodingProfile

    latest = get_latest_database_version(system=SYSTEM, backend=BACKEND)
    # SILICON: measured kernels only, no estimates where the tool has none.
    database = get_database_view(
        SYSTEM, BACKEND, latest, allow_missing_data=False, database_mode="SILICON", transfer_policy=None
    )
    if database is None or database.backend != BACKEND or database.system != SYSTEM:
        sys.exit(f"aiconfigurator has no measured data for {BACKEND} on {SYSTEM}")

    with tempfile.TemporaryDirectory() as folder:
        for name, config in models.items():
            (Path(folder) / name).mkdir()
            (Path(folder) / name / "config.json").write_text(json.dumps(config))

        @cache
        def session(name, gemm, width, nextn):
            path = str(Path(folder) / name)
            # Width, pipeline, attention data parallelism, experts' width and split; then precisions of GEMMs, cache,
            # attention, experts, communication: what is left out the tool reads from config.json.
            config = build_model_config(width, 1, 1, width, 1, gemm, None, None, gemm, None)
            apply_nextn(config, nextn)
            resolve_context_fmha_by_data(config, path, database, BACKEND, is_context_role=True)
            return InferenceSession(get_model(path, config, BACKEND), database, get_backend(BACKEND))

        def latencies(ask):
            ran = session(ask["model"], ask["gemm"], ask["tensor_parallel_size"], ask["nextn"])
            runtime = RuntimeConfig(
                isl=ask["input_tokens"], osl=ask["output_tokens"], batch_size=ask["concurrency"], prefix=0
            )
            profile = SpeculativeDecodingProfile.from_inputs(ask["nextn"], ask["accepted"])
            static = ran.run_static(runtime_config=runtime, mode="static", stride=1)
            found = {"static_step": static.get_result_dict()["tpot"]}
            summaries = {"static": profile.project_summary(static, role="static")}
            budgets = {
                "agg": min(ask["input_tokens"], ask["budget"]),
                "agg_budget": min(ask["input_tokens"] * ask["concurrency"], ask["budget"]),
            }
            for mode, tokens in budgets.items():
                summaries[mode] = profile.project_summary(
                    ran.run_agg(runtime, ctx_tokens=tokens, decode_tokens_per_iteration=profile.tokens_per_iteration),
                    role="agg",
                )
            for mode, summary in summaries.items():
                row = summary.get_result_dict()
                found[mode] = {"end_to_end": row["request_latency"], "first": row["ttft"], "tpot": row["tpot"]}
            return found

        answers = []
        for ask in asks:
            try:
                answers.append(latencies(ask))
            except Exception as error:  # whatever the tool raises is why it has no answer
                traceback.print_exc(file=sys.stderr)
                answers.append({"unknown": f"{type(error).__name__}: {error}".splitlines()[0][:160]})
    return {"version": version("aiconfigurator"), "data_version": database.version, "answers": answers}


if __name__ == "__main__":
    main()
