"""What would be accepted of each kind of prompt alone?

The mean over a workload hides that a poem is accepted least and JSON most. Each class of which there is something in
the sample is predicted as if all prompts were of it, with the overlap that its own prompts have; everything else stays
as it is. It is the models' own prediction even where counts were given, since those are of the mixture.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from advisor.choice import acceptance_length
from advisor.predictions import Case, predict_acceptance
from advisor.recommendation import Interval
from models.structure import STRUCTURES
from models.workload import Workload
from profiler.deployment import Deployment

LEAST_SHARE = 0.01  # of the prompts: a class with less of them is the classifier's doubt rather than traffic


def lengths_by_class(deployment: Deployment, case: Case, workload: Workload) -> dict[str, Interval]:
    """Class -> acceptance length of its prompts alone, largest share first; empty where there are no texts."""
    overlap = workload.structure_overlap
    if not overlap.size:
        return {}
    shares = workload.structure
    told = sorted((i for i in range(len(STRUCTURES)) if shares[i] >= LEAST_SHARE), key=lambda i: -shares[i])
    only = np.eye(len(STRUCTURES))
    cases = [
        replace(case, conditions=replace(case.conditions, structure=only[i], overlap=float(overlap[i]))) for i in told
    ]
    found = predict_acceptance(deployment, cases, None)
    return {STRUCTURES[i]: acceptance_length(found, row) for row, i in enumerate(told)}
