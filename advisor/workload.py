"""How is the workload told in the answer: what was read, what it asks for, and what of it was estimated?"""

from __future__ import annotations

from advisor.load import Load
from advisor.recommendation import WorkloadSummary
from advisor.traffic import Traffic
from models.workload import Workload
from profiler.prompts.sample import PromptSample


def summarise(sample: PromptSample, workload: Workload, traffic: Traffic, load: Load) -> WorkloadSummary:
    """The workload of the answer."""
    conditions = traffic.conditions
    return WorkloadSummary(
        prompts=len(sample.prompts),
        format=sample.format,
        structure={
            name: round(share, 4)
            for name, share in sorted(workload.structure_shares.items(), key=lambda pair: -pair[1])
        },
        input_tokens=conditions.input_tokens,
        input_tokens_p95=traffic.input_tokens_p95,
        output_tokens=conditions.output_tokens,
        overlap=conditions.overlap,
        temperature=conditions.temperature,
        concurrency=load.concurrency,
        cached_prefix_share=conditions.cached_prefix_share,
        languages=dict(workload.languages),
        skipped=dict(sample.skipped),
        notes=list(sample.notes),
        estimated=[*traffic.estimated, *load.estimated],
    )
