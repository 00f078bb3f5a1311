"""What of a sample of prompts do predictions rest on, and what of it can stand for the prompts?

Predictions never look at a text: they rest on shares of structures, lengths, overlap and a few counts. These features
are all that an answer needs, so a client that has them once asks again with them instead of the prompts, for other
traffic or another deployment, and gets the same answer. No text can be had back from them; lengths of the single
prompts are among them, their order is not that of the prompts.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from advisor.fields import Closed, number, refuse, whole
from models.structure import STRUCTURES

MOST_LENGTHS = 10_000
_TOLERANCE = 0.01  # of a sum of shares: they may have been rounded

Share = Annotated[float, number(0, 1)]
Count = Annotated[int, whole(0, 10**12)]
Line = Annotated[str, StringConstraints(max_length=500)]
Lengths = Annotated[list[Annotated[float, number(1, 20_000_000)]], Field(min_length=1, max_length=MOST_LENGTHS)]


class WorkloadFeatures(Closed):
    """What POST /v1/workloads says of a file of prompts; takes the prompts' place in a request."""

    prompts: Annotated[int, whole(1, 10**9)] = Field(description="How many were read")
    format: Line = Field(description="As which they were recognised")
    structure: dict[str, Share] = Field(description="Share of the prompts of each kind; what is left out is 0")
    token_structure: dict[str, Share] = Field(description="Share of the output tokens of each kind")
    structure_overlap: dict[str, Share] = Field(description="Overlap of the prompts of each kind")
    input_tokens: Lengths = Field(description="Of each prompt, with output_tokens beside it; sorted")
    output_tokens: Lengths
    output_log_sd: Annotated[float, number(0, 5)] = Field(default=0.0, description="Of their mean, where predicted")
    input_basis: Line = "given"
    output_basis: Line = "given"
    overlap: Share = Field(description="Expected share of the answer that stands in the prompt or earlier in itself")
    shared_prefix: Share = Field(default=0.0, description="Share of the prompts' text that others of them begin with")
    languages: dict[Line, Share] = Field(default_factory=dict, max_length=200)
    temperature: Annotated[float, number(0, 2)] | None = None
    ignored_sampling: dict[Line, Count] = Field(
        default_factory=dict, max_length=50, description="Prompts with sampling parameters that speculation ignores"
    )
    skipped: dict[Line, Count] = Field(default_factory=dict, max_length=200)
    notes: list[Line] = Field(default_factory=list, max_length=200)
    estimated: list[Line] = Field(default_factory=list, max_length=50)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("structure", "token_structure", "structure_overlap"):
            shares: dict[str, float] = getattr(self, name)
            unknown = sorted(set(shares) - set(STRUCTURES))
            if unknown:
                raise refuse(
                    f"expected kinds of {', '.join(STRUCTURES)}; got {unknown[0][:40]!r}", name, got=unknown[0]
                )
            total = sum(shares.values())
            if name != "structure_overlap" and abs(total - 1.0) > _TOLERANCE:
                raise refuse(f"expected shares that sum to 1, got {total:.3f}", name, got=total)
        if len(self.input_tokens) != len(self.output_tokens):
            what = f"expected as many lengths as input_tokens, {len(self.input_tokens)}, got {len(self.output_tokens)}"
            raise refuse(what, "output_tokens", got=len(self.output_tokens))
        return self
