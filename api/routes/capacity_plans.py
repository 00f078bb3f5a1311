"""POST /v1/capacity-plans: how many replicas does a demand need, on which GPU, and what does speculation save of that?

A plan takes seconds of the worker thread; nothing of it is kept. A class may name a stored profile as its evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fastapi import APIRouter, Request, Response

from advisor.plan import CapacityPlan, PlanRequest, plan_capacity
from advisor.request import EvidenceSpec
from api.access.access import Asker
from api.history import profiles
from api.history.history import History
from api.routes.dependencies import BodyDep, HistoryDep, SettingsDep, WorkerDep, body_of, parse_object
from profiler.probe.profile import Profile

router = APIRouter(prefix="/v1", tags=["capacity plans"])


@router.post("/capacity-plans", openapi_extra=body_of("PlanRequest"), response_model=CapacityPlan)
async def plan(
    _: Asker, request: Request, body: BodyDep, settings: SettingsDep, worker: WorkerDep, history: HistoryDep
) -> Response:  # fmt: skip
    """Replicas, utilisation and cost, hour by hour, with speculation and without."""

    def answer() -> CapacityPlan | PlanRequest:
        """The plan, or the request as it was read where the history comes first."""
        asked = PlanRequest.model_validate(parse_object(body, settings))
        return asked if history is not None and _names(asked) else plan_capacity(asked)

    found = await worker.run(answer)
    if isinstance(found, PlanRequest):
        assert history is not None
        adopted = _with_profiles(found, await _documents(history, found))
        found = await worker.run(lambda: plan_capacity(adopted))
    request.state.about = {"plan": found.cheapest.gpu, "hours": len(found.demand)}
    return Response(found.model_dump_json(), media_type="application/json")


def _names(asked: PlanRequest) -> dict[str, str]:
    """Ids of stored profiles, by class."""
    given = {name: spec.evidence.profile_id for name, spec in asked.classes.items() if spec.evidence is not None}
    return {name: str(key) for name, key in given.items() if key is not None}


async def _documents(history: History, asked: PlanRequest) -> dict[str, str]:
    """The stored profiles, by id; ids that none has are left out, and the advisor says so."""
    found = {}
    for key in set(_names(asked).values()):
        document = await history.run("find", partial(profiles.document, key=key))
        if document is not None:
            found[key] = document
    return found


def _with_profiles(asked: PlanRequest, documents: Mapping[str, str]) -> PlanRequest:
    classes = dict(asked.classes)
    for name, key in _names(asked).items():
        if key in documents:
            evidence = EvidenceSpec.of(Profile.model_validate_json(documents[key]))
            classes[name] = classes[name].model_copy(update={"evidence": evidence})
    return asked.model_copy(update={"classes": classes})
