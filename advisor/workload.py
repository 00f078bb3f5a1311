"""How is the workload told in the answer: what was read, what it asks for, and what of it was estimated?"""

from __future__ import annotations

from advisor.described import Described
from advisor.load import Load
from advisor.recommendation import WorkloadSummary
from advisor.traffic import Traffic


def summarise(described: Described, traffic: Traffic, load: Load) -> WorkloadSummary:
    """The workload of the answer."""
    conditions = traffic.conditions
    return WorkloadSummary(
        prompts=described.prompts,
        format=described.format,
        structure={
            name: round(share, 4)
            for name, share in sorted(described.workload.structure_shares.items(), key=lambda pair: -pair[1])
        },
        input_tokens=conditions.input_tokens,
        input_tokens_p95=traffic.input_tokens_p95,
        output_tokens=conditions.output_tokens,
        overlap=conditions.overlap,
        temperature=conditions.temperature,
        concurrency=load.concurrency,
        cached_prefix_share=conditions.cached_prefix_share,
        languages=dict(described.workload.languages),
        skipped=dict(described.skipped),
        notes=list(described.notes),
        estimated=[*traffic.estimated, *load.estimated],
    )
