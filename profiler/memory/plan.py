"""How is a GPU's memory shared out, and how many sequences does the KV cache hold, with speculation and without?

vLLM's own accounting: requested = utilization x total; KV = requested - weights - drafter weights - peak activation -
non-torch - graphs, each modelled here from the architecture and the settings (`activation`, `graphs`, `cache`). Refused
with what to change: a target that does not fit, a cache that holds no sequence of max_model_len (vLLM does not start
then), ranks that do not divide the heads. Not modelled: image encoders, adapters, other processes on the GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from profiler.architecture import Architecture
from profiler.compatibility import batch_defaults, model_runner, parse_version, subtracts_graph_memory
from profiler.deployment import Deployment, Speculation
from profiler.errors import DeploymentError
from profiler.memory.activation import peak_activation_bytes
from profiler.memory.cache import BLOCK_TOKENS, sequence_bytes, token_bytes
from profiler.memory.graphs import capture_sizes, graph_bytes

GIB = 2**30

# Memory that the driver and libraries take beside torch: 0.24 GiB in design's logged case (H200, vLLM 0.26); on several
# GPUs communication adds to it: the median of public start-up logs with 2 to 4 ranks (0.21, 0.30, 0.33, 0.95 GiB).
_NON_TORCH_BYTES = round(0.24 * GIB)
_NON_TORCH_BYTES_SEVERAL = round(0.31 * GIB)
_MOST_RANKS = 64  # how far a fitting tensor_parallel_size is sought
_REPLICATED = ("norm", "router", "position")  # roles whose weights every rank holds whole


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes on each rank (one GPU of `tensor_parallel_size`), and what the cache holds over all of them together."""

    total_bytes: int  # what the driver shows
    requested_bytes: int  # utilization x total
    weight_bytes: int  # the target's
    drafter_weight_bytes: int
    activation_bytes: int  # peak of the profile run
    non_torch_bytes: int
    graph_bytes: int  # what the profile sets aside; 0 where the version sets nothing aside
    kv_bytes: int
    kv_bytes_per_token: int  # of one more token, target and drafter
    kv_tokens: int  # as vLLM logs "GPU KV cache size"
    concurrency: int  # how many sequences of `request_tokens` the cache holds at once
    sequence_bytes: int  # of one such sequence
    request_tokens: float  # prompt and answer of one request, as asked

    def preempts(self, running: int) -> bool:
        """Whether that many sequences of `request_tokens` are more than the cache holds: some wait or restart."""
        return running > self.concurrency

    def spare_kv_bytes(self, running: int) -> int:
        """Bytes of cache left beside that many sequences; negative where they do not fit."""
        return self.kv_bytes - running * self.sequence_bytes


def plan_memory(deployment: Deployment, speculation: Speculation | None, *, request_tokens: float) -> MemoryPlan:
    """Plan the memory of each rank; `request_tokens` are prompt plus answer of a typical request.

    Raises DeploymentError where vLLM would not start, with the tensor_parallel_size or max_model_len that would do.
    """
    if not (math.isfinite(request_tokens) and request_tokens > 0):
        raise DeploymentError(
            "A request needs a length", expected="a positive number of tokens", got=repr(request_tokens),
            field="traffic",
        )  # fmt: skip
    _check_ranks(deployment, speculation)
    plan = _share_out(deployment, speculation, request_tokens=request_tokens)
    longest = _longest(deployment)
    needed = _needed_bytes(deployment, speculation, tokens=longest)
    if plan.kv_bytes < needed:
        raise _does_not_fit(deployment, speculation, plan, longest=longest, needed=needed)
    return plan


def _drafter(deployment: Deployment, speculation: Speculation | None) -> Architecture | None:
    """What is loaded beside the target: the draft, or for mtp without one the target's own module."""
    if speculation is None:
        return None
    if speculation.draft is None and speculation.method == "mtp":
        return deployment.target.mtp_head
    return speculation.draft


def _check_ranks(deployment: Deployment, speculation: Speculation | None) -> None:
    ranks = deployment.tensor_parallel_size
    draft = _drafter(deployment, speculation)
    for model, field in ((deployment.target, "deployment"), (draft, "deployment.speculation.draft")):
        if model is not None and model.num_attention_heads % ranks:
            fitting = [n for n in range(1, _MOST_RANKS + 1) if model.num_attention_heads % n == 0]
            raise DeploymentError(
                f"{ranks} ranks do not divide the {model.num_attention_heads} attention heads of {model.name}",
                expected="a tensor_parallel_size among " + ", ".join(map(str, fitting)),
                got=str(ranks),
                field="deployment.tensor_parallel_size" if field == "deployment" else field,
            )


def _longest(deployment: Deployment) -> int:
    """max_model_len, or what vLLM takes for it: the positions that the config declares."""
    longest = deployment.max_model_len or deployment.target.max_position_embeddings
    if longest is None:
        raise DeploymentError(
            f"The config of {deployment.target.name} does not say how long a sequence may be",
            expected="max_model_len in the deployment",
            field="deployment.max_model_len",
        )
    return longest


def rank_weight_bytes(architecture: Architecture, *, tensor_parallel_size: int) -> int:
    """Weights on one rank: matrices split, norms and routers whole, and the table of rotary positions."""
    total = 0.0
    for group in architecture.weights:
        if not group.borrowed:
            total += group.size_bytes / (1 if group.role in _REPLICATED else tensor_parallel_size)
    rotary = (architecture.max_position_embeddings or 0) * architecture.head_dim * 2
    return round(total + rotary)


def _share_out(deployment: Deployment, speculation: Speculation | None, *, request_tokens: float) -> MemoryPlan:
    target, gpu, ranks = deployment.target, deployment.gpu, deployment.tensor_parallel_size
    draft = _drafter(deployment, speculation)
    method = speculation.method if speculation else None
    drafted = speculation.num_speculative_tokens if speculation else 0
    version = parse_version(deployment.engine_version)
    defaults = batch_defaults(gpu, deployment.engine_version)
    max_num_seqs = deployment.max_num_seqs or defaults.max_num_seqs
    batched_tokens = deployment.max_num_batched_tokens or min(
        defaults.max_num_batched_tokens, max_num_seqs * _longest(deployment)
    )
    runner = model_runner(target, method, deployment.engine_version)
    requested = round(deployment.gpu_memory_utilization * gpu.memory_bytes)
    weights = rank_weight_bytes(target, tensor_parallel_size=ranks)
    drafter_weights = 0 if draft is None else rank_weight_bytes(draft, tensor_parallel_size=ranks)
    activation = peak_activation_bytes(
        target,
        draft,
        max_num_batched_tokens=batched_tokens,
        max_num_seqs=max_num_seqs,
        tensor_parallel_size=ranks,
        speculative=speculation is not None,
        probabilistic_drafts=speculation is not None and speculation.draft_sample_method == "probabilistic",
        runner=runner,
        version=version,
    )
    graphs = 0
    if (
        not deployment.enforce_eager
        and subtracts_graph_memory(deployment.engine_version)
        and (runner == 1 or version >= (0, 32, 0))
    ):
        sizes = capture_sizes(
            max_num_seqs=max_num_seqs, num_speculative_tokens=drafted, max_num_batched_tokens=batched_tokens
        )
        graphs = graph_bytes(sizes, hidden_size=target.hidden_size)
    non_torch = _NON_TORCH_BYTES if ranks == 1 else _NON_TORCH_BYTES_SEVERAL
    kv = requested - weights - drafter_weights - activation - non_torch - graphs
    per_token = token_bytes(target, kv_cache_dtype=deployment.kv_cache_dtype, tensor_parallel_size=ranks)
    if draft is not None:
        per_token += token_bytes(draft, kv_cache_dtype=deployment.kv_cache_dtype, tensor_parallel_size=ranks)
    # Drafted tokens take slots of their own before they are accepted (VllmConfig.num_lookahead_tokens).
    one = _occupied_bytes(deployment, speculation, tokens=request_tokens + (drafted if draft is not None else 0))
    longest = _longest(deployment)
    whole = _needed_bytes(deployment, speculation, tokens=longest)
    per_sequence = math.ceil(longest / BLOCK_TOKENS) * BLOCK_TOKENS
    return MemoryPlan(
        total_bytes=gpu.memory_bytes,
        requested_bytes=requested,
        weight_bytes=weights,
        drafter_weight_bytes=drafter_weights,
        activation_bytes=activation,
        non_torch_bytes=non_torch,
        graph_bytes=graphs,
        kv_bytes=kv,
        kv_bytes_per_token=round(per_token),
        kv_tokens=max(0, int(kv / whole * per_sequence) // BLOCK_TOKENS * BLOCK_TOKENS) if whole else 0,
        concurrency=max(0, int(kv // one)) if one else max_num_seqs,
        sequence_bytes=round(one),
        request_tokens=request_tokens,
    )


def _occupied_bytes(
    deployment: Deployment, speculation: Speculation | None, *, tokens: float, in_flight: int = 0
) -> float:
    """Bytes of one sequence on one rank, the drafter's layers included."""
    target, ranks, dtype = deployment.target, deployment.tensor_parallel_size, deployment.kv_cache_dtype
    draft = _drafter(deployment, speculation)
    return sum(
        sequence_bytes(model, tokens=tokens, kv_cache_dtype=dtype, tensor_parallel_size=ranks, in_flight=in_flight)
        for model in ((target,) if draft is None else (target, draft))
    )


def _needed_bytes(deployment: Deployment, speculation: Speculation | None, *, tokens: float) -> float:
    """Bytes that vLLM wants for one sequence of that length before it starts: windows hold what is in flight, too."""
    defaults = batch_defaults(deployment.gpu, deployment.engine_version)
    in_flight = 2 * (deployment.max_num_batched_tokens or defaults.max_num_batched_tokens)  # two batches overlap
    return _occupied_bytes(deployment, speculation, tokens=tokens, in_flight=in_flight)


def _does_not_fit(
    deployment: Deployment, speculation: Speculation | None, plan: MemoryPlan, *, longest: int, needed: float
) -> DeploymentError:
    """The error that says what would do: more ranks, or a shorter max_model_len where some cache is left."""
    target, gpu, ranks = deployment.target, deployment.gpu, deployment.tensor_parallel_size
    draft = _drafter(deployment, speculation)
    with_draft = f" with {draft.name}" if draft is not None else ""
    enough = _enough_ranks(deployment, speculation, longest=longest)
    if enough is None:
        more = f"no number of these GPUs up to {_MOST_RANKS} does: take larger ones or a quantised model"
    else:
        more = f"tensor_parallel_size {enough} ({enough} of these GPUs) would do"
    fixed = plan.weight_bytes + plan.drafter_weight_bytes
    if plan.kv_bytes <= 0:
        return DeploymentError(
            f"{target.name}{with_draft} does not fit {'the GPU' if ranks == 1 else f'{ranks} GPUs'} {gpu.name}",
            expected=f"weights, activations and a KV cache within {plan.requested_bytes / GIB:.1f} GiB on each GPU",
            got=f"{fixed / GIB:.1f} GiB of weights and {plan.activation_bytes / GIB:.1f} GiB of activations",
            remedy=more,
            field="deployment.tensor_parallel_size",
        )
    shorter = _longest_that_fits(deployment, speculation, plan, longest=longest)
    lower = f"set max_model_len to at most {shorter:,}, or raise gpu_memory_utilization; " if shorter else ""
    return DeploymentError(
        f"The KV cache of {target.name}{with_draft} on {gpu.name} holds not one sequence of max_model_len {longest:,}",
        expected=f"{needed / GIB:.2f} GiB for one sequence on each GPU",
        got=f"{plan.kv_bytes / GIB:.2f} GiB beside {fixed / GIB:.1f} GiB of weights",
        remedy=lower + more,
        field="deployment.max_model_len",
    )


def _enough_ranks(deployment: Deployment, speculation: Speculation | None, *, longest: int) -> int | None:
    ranks = deployment.tensor_parallel_size * 2
    while ranks <= _MOST_RANKS:
        wider = replace(deployment, tensor_parallel_size=ranks)
        draft = _drafter(deployment, speculation)
        divides = not any(m is not None and m.num_attention_heads % ranks for m in (deployment.target, draft))
        if divides:
            plan = _share_out(wider, speculation, request_tokens=1.0)
            if plan.kv_bytes >= _needed_bytes(wider, speculation, tokens=longest):
                return ranks
        ranks *= 2
    return None


def _longest_that_fits(
    deployment: Deployment, speculation: Speculation | None, plan: MemoryPlan, *, longest: int
) -> int:
    """The largest max_model_len, in whole blocks, of which the cache holds one sequence; 0 where none fits."""
    low, high = 0, longest // BLOCK_TOKENS
    while low < high:
        middle = (low + high + 1) // 2
        if _needed_bytes(deployment, speculation, tokens=middle * BLOCK_TOKENS) <= plan.kv_bytes:
            low = middle
        else:
            high = middle - 1
    return low * BLOCK_TOKENS
