"""POST /v1/capacity-plans: how many replicas does a demand need, on which GPU, and what does speculation save of that?

A plan takes seconds of the worker thread; nothing of it is kept.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from advisor.plan import CapacityPlan, PlanRequest, plan_capacity
from api.access.access import Asker
from api.routes.dependencies import BodyDep, SettingsDep, WorkerDep, body_of, parse_object

router = APIRouter(prefix="/v1", tags=["capacity plans"])


@router.post("/capacity-plans", openapi_extra=body_of("PlanRequest"), response_model=CapacityPlan)
async def plan(_: Asker, request: Request, body: BodyDep, settings: SettingsDep, worker: WorkerDep) -> Response:
    """Replicas, utilisation and cost, hour by hour, with speculation and without."""

    def answer() -> CapacityPlan:
        return plan_capacity(PlanRequest.model_validate(parse_object(body, settings)))

    found = await worker.run(answer)
    request.state.about = {"plan": found.cheapest.gpu, "hours": len(found.demand)}
    return Response(found.model_dump_json(), media_type="application/json")
