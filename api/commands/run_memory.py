"""`specworth memory`: vLLM's memory plan without speculation and with each drafter, and what the difference costs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from advisor.candidates import find_candidates
from advisor.deployment import resolve_deployment
from advisor.request import DeploymentSpec
from api.commands.request import print_notes, request_fields, validated
from api.report.content import Table
from api.report.terminal import print_table
from api.report.wording import gib, method_brief
from profiler.errors import DeploymentError
from profiler.memory import MemoryPlan, plan_memory

_TYPICAL_K = 3  # draft tokens where none are given: they change the plan by lookahead slots only
_ROWS = (
    ("requested", "requested_bytes"),
    ("target's weights", "weight_bytes"),
    ("drafter's weights", "drafter_weight_bytes"),
    ("activations at their peak", "activation_bytes"),
    ("beside torch", "non_torch_bytes"),
    ("CUDA graphs", "graph_bytes"),
    ("KV cache", "kv_bytes"),
)


def run_memory(options: Mapping[str, Any]) -> int:
    """Print the plans; 0. Raises DeploymentError where the target, or a drafter that was named, does not fit."""
    fields, odd = request_fields(options)
    spec = validated(DeploymentSpec, fields["deployment"], below="deployment")
    deployment = resolve_deployment(spec)
    length = options["request_tokens"]
    plans: dict[str, MemoryPlan] = {"without": plan_memory(deployment, None, request_tokens=length)}
    refused: dict[str, str] = {}
    for candidate in find_candidates(deployment, spec.speculation):
        if spec.speculation is None and candidate.draft is None and candidate.method != "mtp":
            continue  # n-gram and suffix decoding have no weights and no cache: they are the plan without
        k = options["num_speculative_tokens"] or _TYPICAL_K
        label = method_brief(candidate.method, None, candidate.draft_name)
        try:
            plans[label] = plan_memory(deployment, candidate.speculation(k), request_tokens=length)
        except DeploymentError as error:
            if spec.speculation is not None:
                raise
            refused[label] = error.line()
    if options["json"]:
        told = {name: dataclasses.asdict(plan) for name, plan in plans.items()}
        print(json.dumps({"plans": told, "refused": refused}, indent=2, ensure_ascii=False))
        return 0
    _print(plans, refused, _title(spec, length), length)
    print_notes((*odd, *(f"{deployment.target.name}: {note}" for note in deployment.target.notes)))
    return 0


def _title(spec: DeploymentSpec, length: int) -> str:
    """What the plan is of, as its title."""
    gpus = f"{spec.tensor_parallel_size} x {spec.gpu.name}" if spec.tensor_parallel_size > 1 else spec.gpu.name
    return f"{spec.target.name} on {gpus}, vLLM {spec.engine_version}: GiB on each GPU, requests of {length:,} tokens"


def _print(plans: Mapping[str, MemoryPlan], refused: Mapping[str, str], title: str, length: int) -> None:
    names = list(plans)
    first = plans[names[0]]
    unfit = tuple(f"{name} does not fit: {line}." for name, line in refused.items())
    if len(plans) > 2:
        print_table(title, _overview(plans), (_shared(first), *unfit))
        return
    rows = [(label, *(gib(getattr(plan, field)) for plan in plans.values())) for label, field in _ROWS]
    rows.append(("KV cache, bytes per token", *(f"{plan.kv_bytes_per_token:,}" for plan in plans.values())))
    rows.append(("KV cache, tokens", *(f"{plan.kv_tokens:,}" for plan in plans.values())))
    rows.append((f"requests of {length:,} tokens at once", *(f"{plan.concurrency:,}" for plan in plans.values())))
    notes = [
        f"{name} leaves room for {first.kv_tokens - plan.kv_tokens:,} tokens fewer "
        f"({1 - plan.kv_tokens / first.kv_tokens:.1%} of the cache)."
        for name, plan in list(plans.items())[1:]
        if first.kv_tokens
    ]
    print_table(title, Table(("", *names), tuple(rows)), (*notes, *unfit))


def _overview(plans: Mapping[str, MemoryPlan]) -> Table:
    """One line a drafter, where there are too many to stand side by side with every term."""
    rows = tuple(
        (
            name,
            gib(plan.drafter_weight_bytes),
            gib(plan.kv_bytes),
            f"{plan.kv_bytes_per_token:,}",
            f"{plan.kv_tokens:,}",
            f"{plan.concurrency:,}",
        )
        for name, plan in plans.items()
    )
    return Table(("", "drafter GiB", "KV GiB", "KV bytes/token", "KV tokens", "requests"), rows)


def _shared(plan: MemoryPlan) -> str:
    """What all of them have in common, and where the rest of the terms is."""
    return (
        f"vLLM takes {gib(plan.requested_bytes)} GiB on each GPU, {gib(plan.weight_bytes)} of them for the target's "
        "weights; --draft with one of these shows every term."
    )
