"""Which drafters are known for this target?

Heads that name it among their targets, and the draft models that its family is commonly drafted with: same tokenizer,
same vocabulary size (vLLM refuses a draft model of another size: SpeculativeConfig,
verify_equal_vocab_size_if_draft_model), fewer bytes of weights to read for a token. A target's own
multi-token-prediction layers are no entry of their own: `Architecture.mtp_head` tells of them. Whether a drafter pays
is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profiler.architecture import Architecture
from profiler.catalog.models import HeadEntry, ModelEntry, entries_beside, find_entry, find_model


@dataclass(frozen=True, slots=True)
class DrafterEntry:
    """One known drafter of a target."""

    method: Literal["draft_model", "eagle", "eagle3", "medusa"]
    name: str
    architecture: Architecture
    trained_context: int | None  # tokens of its training sequences; None where not published (and for draft models)
    source: str


def drafters_for(target: Architecture | str) -> list[DrafterEntry]:
    """Known drafters of a target: its heads first, then draft models from small to large.

    A target that the catalog does not hold has none. Raises UnknownNameError for a name that no catalog knows.
    """
    architecture = find_model(target) if isinstance(target, str) else target
    entry = find_entry(architecture.name)
    if not isinstance(entry, ModelEntry):
        return []
    models, heads = entries_beside(entry)
    found = [_from_head(head) for head in heads if entry.name in head.targets]
    drafts = [
        DrafterEntry("draft_model", model.name, model.architecture, None, model.source)
        for model in models
        if model.usual_drafter and model.tokenizer == entry.tokenizer and model.name != entry.name
    ]
    reads = float(architecture.decode_weight_bytes(1.0))
    drafts = [
        drafter
        for drafter in drafts
        if drafter.architecture.vocab_size == architecture.vocab_size
        and float(drafter.architecture.decode_weight_bytes(1.0)) < reads
    ]
    return found + sorted(drafts, key=lambda drafter: drafter.architecture.parameters)


def _from_head(head: HeadEntry) -> DrafterEntry:
    return DrafterEntry(head.method, head.name, head.architecture, head.trained_context, head.source)
