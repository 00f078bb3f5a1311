"""One vLLM engine, as `vllm serve` would build it, without the HTTP front.

The engine core runs in a process of its own and this one only queues requests and takes outputs, as the API server
does (`engine_process="separate"`, the default); "in_process" puts both into one process, where queueing and output
handling cost the step's own time whenever scheduling is not asynchronous. Defaults (batched tokens, sequences, capture
sizes, scheduling) are those of vLLM's OpenAI server.

The only module that imports vLLM. Written against 0.26.0 and tried with 0.32.0; foreign errors leave it as EngineError.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Literal

from profiler.errors import SpecworthError
from profiler.sweep.closed_loop import Counters, Finished


class EngineError(SpecworthError):
    """vLLM could not start this engine, or it died."""


def prepare_environment(engine_process: Literal["separate", "in_process"]) -> None:
    """Set what vLLM reads at import: no network, no usage statistics, and where its core runs."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if engine_process == "separate" else "0"


def import_vllm(architectures: Iterable[str] = ()) -> str:
    """Import what an engine needs, without touching the GPU, so that forked processes start warm; vLLM's version.

    vLLM inspects each model class in a fresh interpreter (which imports all of vLLM again) unless a cache file tells
    about it. Inspecting here, in this process, saves that; if it were to initialise CUDA, vLLM would notice and spawn.
    """
    try:
        import vllm
        import vllm.v1.engine.llm_engine
    except ImportError as error:
        remedy = "run this under vLLM's interpreter"
        raise EngineError("vLLM cannot be imported", got=str(error), remedy=remedy) from error
    for module in (
        "vllm.v1.engine.core",
        "vllm.v1.worker.gpu_worker",
        "vllm.v1.worker.gpu.model_runner",
        "vllm.v1.worker.gpu_model_runner",
        "vllm.v1.attention.backends.flash_attn",
        "vllm.model_executor.model_loader.dummy_loader",
        "vllm.compilation.backends",
        "torch._inductor.compile_fx",
        "torch._dynamo",
    ):
        try:
            import_module(module)
        except Exception as error:  # a missing optional module only makes the start slower
            print(f"not imported ahead: {module}: {error}", file=sys.stderr)
    registry: Any = import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = lambda inspect: inspect()
    _give_heads_their_output_layer()
    for name in architectures:
        try:
            registry.ModelRegistry.models[name].load_model_cls()
        except Exception as error:
            print(f"not imported ahead: {name}: {error}", file=sys.stderr)
    return str(vllm.__version__)


def _give_heads_their_output_layer() -> None:
    """Have an EAGLE-3 head of dummy weights draft over its own vocabulary, as a published one does.

    vLLM gives a head the target's output layer unless its checkpoint holds one (vllm/model_executor/models/utils.py,
    process_eagle_weight), and dummy weights come without a checkpoint: a draft pass would read 128,256 rows for 32,000.
    """
    try:
        heads = import_module("vllm.model_executor.models.llama_eagle3")
        heads.Eagle3LlamaForCausalLM.has_own_lm_head = True
    except (ImportError, AttributeError) as error:
        print(f"EAGLE-3 heads keep the target's output layer: {error}", file=sys.stderr)


def cuda_is_initialized() -> bool:
    """Whether this process holds a CUDA context, so that a forked child could not use the GPU."""
    import torch

    return bool(torch.cuda.is_initialized())


class InProcessEngine:
    """A started engine that takes token ids and is stepped by its caller; see `closed_loop.LoadedEngine`."""

    def __init__(self, arguments: Mapping[str, Any], *, natural_ends: bool = False) -> None:
        """Start an engine from vLLM engine arguments; takes about a minute on a GPU.

        With `natural_ends` a request ends where the model ends it, at the latest after its number of tokens.
        """
        from vllm import SamplingParams
        from vllm.engine.arg_utils import EngineArgs
        from vllm.sampling_params import RequestOutputKind
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.llm_engine import LLMEngine
        from vllm.v1.metrics.reader import get_metrics_snapshot

        self._sampling, self._final_only = SamplingParams, RequestOutputKind.FINAL_ONLY
        self._delta, self._natural_ends = RequestOutputKind.DELTA, natural_ends
        self._snapshot = get_metrics_snapshot
        try:
            self._engine = LLMEngine.from_engine_args(
                EngineArgs(**arguments), usage_context=UsageContext.OPENAI_API_SERVER
            )
        except Exception as error:
            raise EngineError("the engine did not start", got=f"{type(error).__name__}: {error}") from error

    def submit(self, request_id: str, prompt: list[int], *, output_tokens: int, temperature: float) -> None:
        """Queue one request that writes exactly `output_tokens`; at most so many with natural ends."""
        parameters = self._sampling(
            temperature=temperature,
            max_tokens=output_tokens,
            ignore_eos=not self._natural_ends,
            detokenize=False,
            output_kind=self._final_only,
        )  # fmt: skip; no min_tokens: it would add a logits processor to every step
        self._engine.add_request(request_id, {"prompt_token_ids": prompt}, parameters)

    def submit_text(
        self, request_id: str, prompt: list[int], *, output_tokens: int, temperature: float, seed: int,
        schema: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Queue one request that ends where the model ends it, or after `output_tokens`; see `step_tokens`."""
        from vllm.sampling_params import StructuredOutputsParams

        parameters = self._sampling(
            temperature=temperature,
            max_tokens=output_tokens,
            seed=seed if temperature else None,
            detokenize=False,
            output_kind=self._delta,
            structured_outputs=StructuredOutputsParams(json=dict(schema)) if schema is not None else None,
        )
        self._engine.add_request(request_id, {"prompt_token_ids": prompt}, parameters)

    def step_tokens(self) -> list[tuple[str, list[int], bool]]:
        """Wait for the core's next output: request, its new tokens (one decode step's), and whether it ended."""
        try:
            outputs = self._engine.step()
        except Exception as error:
            raise EngineError("the engine died", got=f"{type(error).__name__}: {error}") from error
        return [(output.request_id, list(output.outputs[0].token_ids), output.finished) for output in outputs]

    def encode_chat(self, messages: list[dict[str, Any]]) -> list[int]:
        """Token ids of a conversation under the model's own chat template, ready for the answer."""
        tokenizer: Any = self._engine.get_tokenizer()
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]

    def step(self) -> list[Finished]:
        """Wait for the core's next output; the requests that it ended."""
        try:
            outputs = self._engine.step()
        except Exception as error:
            raise EngineError("the engine died", got=f"{type(error).__name__}: {error}") from error
        return [
            Finished(
                request_id=output.request_id, output_tokens=len(output.outputs[0].token_ids),
                ttft_s=output.metrics.first_token_latency,
                decode_s=output.metrics.last_token_ts - output.metrics.first_token_ts,
                token_ids=output.outputs[0].token_ids,
            )
            for output in outputs if output.finished
        ]  # fmt: skip

    def running_ttft_s(self) -> dict[str, float]:
        """TTFT of the requests that have a first token and still run."""
        return {s.external_req_id: s.stats.first_token_latency for s in self._states() if not s.is_prefilling}

    def abort_all(self) -> None:
        """Drop everything in flight."""
        self._engine.abort_request([state.external_req_id for state in self._states()])

    def _states(self) -> list[Any]:
        return list(self._engine.output_processor.request_states.values())

    def counters(self) -> Counters:
        """Totals since the engine started, from the metrics that /metrics serves."""
        values: dict[str, Any] = {}
        for metric in self._snapshot():
            for attribute in ("value", "values", "count"):
                if hasattr(metric, attribute):
                    values[metric.name.removeprefix("vllm:")] = getattr(metric, attribute)
        return Counters(
            generation_tokens=values.get("generation_tokens", 0),
            prompt_tokens=values.get("prompt_tokens", 0),
            first_tokens=values.get("time_to_first_token_seconds", 0),
            steps=values.get("iteration_tokens_total", 0),
            decode_steps=values.get("inter_token_latency_seconds", 0),  # observed once a request and step
            drafts=values.get("spec_decode_num_drafts", 0),
            drafted_tokens=values.get("spec_decode_num_draft_tokens", 0),
            accepted_tokens=values.get("spec_decode_num_accepted_tokens", 0),
            accepted_per_position=tuple(values.get("spec_decode_num_accepted_tokens_per_pos", ())),
            preemptions=values.get("num_preemptions", 0),
            cached_prompt_tokens=values.get("prefix_cache_hits", 0),
        )

    def facts(self) -> dict[str, Any]:
        """Settings as vLLM resolved them, by the names of our rows."""
        import torch

        config = self._engine.vllm_config
        speculation = config.speculative_config
        graphs, scheduler, cache = config.compilation_config, config.scheduler_config, config.cache_config
        mode = getattr(graphs, "cudagraph_mode", None)
        return {
            "torch_version": str(torch.__version__),
            "model_runner": "V2" if getattr(config, "use_v2_model_runner", False) else "V1",
            "async_scheduling": bool(scheduler.async_scheduling),
            "cudagraph_mode": getattr(mode, "name", str(mode)),
            "cudagraph_capture_sizes": list(graphs.cudagraph_capture_sizes or []),
            "max_num_seqs": scheduler.max_num_seqs,
            "max_num_batched_tokens": scheduler.max_num_batched_tokens,
            "max_model_len": config.model_config.max_model_len,
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "kv_cache_dtype": str(cache.cache_dtype),
            "block_size": cache.block_size,
            "gpu_memory_utilization": cache.gpu_memory_utilization,
            "enable_prefix_caching": bool(cache.enable_prefix_caching),
            "enable_chunked_prefill": bool(scheduler.enable_chunked_prefill),
            "drafter_lm_head": "own" if getattr(speculation, "method", None) == "eagle3" else None,
            "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        }

    def vocab_size(self) -> int:
        """Token ids below this are valid in prompts."""
        return int(self._engine.model_config.get_vocab_size())
