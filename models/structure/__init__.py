"""Which kind of work does each prompt ask for?

Acceptance depends on it more than on anything else that a prompt file shows: structured output (code, JSON, SQL) is
predictable for a drafter, creative writing is not. A multinomial logistic regression over words of head and tail,
surface and request fields gives calibrated probabilities; prompts that ask for two things get two shares.

Prompts whose text is not known (token ids, traces) get equal probabilities: nothing is claimed of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.estimate import Floats
from profiler.prompts.sample import Prompt

STRUCTURES: tuple[str, ...] = (
    "code",
    "json",
    "sql",
    "math",
    "translation",
    "summarisation",
    "question_answering",
    "chat",
    "creative",
    "tool_calling",
)


def structure_probabilities(prompts: Sequence[Prompt]) -> Floats:
    """Probability of each of `STRUCTURES`, shape (prompts, 10), rows summing to 1.

    Raises ArtefactError where the trained numbers are missing, damaged or of another version.
    """
    from models.structure.scorer import load_scorer

    if not prompts:
        return np.empty((0, len(STRUCTURES)))
    return load_scorer().probabilities(prompts)
