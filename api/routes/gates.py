"""POST /v1/gates: does evidence keep a policy? A recommendation or a profile, given or stored, or two live servers.

Servers are watched only where the operator allows to connect (SPECWORTH_ATTACH_HOSTS and loopback), for callers who may
measure, and a few at a time; the watch ends with its caller or the service.
"""

from __future__ import annotations

import asyncio
from functools import partial

from fastapi import APIRouter, Request, Response

from advisor.gate import GateVerdict, judge_profile, judge_recommendation
from advisor.gate.live import Servers, watch
from advisor.gate.request import CanarySpec, GateRequest
from advisor.recommendation import Recommendation
from api.access.access import Access, Asker
from api.history import profiles, recommendations
from api.history.history import History
from api.jobs.destinations import AllowList, read_address
from api.problems import ProblemError
from api.routes.dependencies import BodyDep, HistoryDep, SettingsDep, WorkerDep, body_of, parse_object
from api.routes.rows import unknown_id
from api.settings import Settings
from profiler.load import Endpoint
from profiler.probe.profile import Profile

router = APIRouter(prefix="/v1", tags=["gates"])
_BODY = body_of("GateRequest")
MOST_WATCHES = 4  # at one time; each look of one takes some 30 ms of the process
_ASK_EVERY_S = 1.0  # whether the caller is still there


@router.post("/gates", openapi_extra=_BODY, response_model=GateVerdict)
async def gate(
    _: Asker, request: Request, body: BodyDep, settings: SettingsDep, worker: WorkerDep, history: HistoryDep
) -> Response:
    """Pass, fail or not yet, each rule with its figure."""

    def read() -> GateRequest:
        return GateRequest.model_validate(parse_object(body, settings))

    asked = await worker.run(read)
    if asked.canary is not None:
        access: Access = request.app.state.access
        access.admit(request, "profile")
        verdict = await _watched(asked, asked.canary, request, settings)
    else:
        verdict = await worker.run(partial(_judged, asked, await _stored(asked, history)))
    request.state.about = {"gate": verdict.outcome, "kind": verdict.kind}
    return Response(verdict.model_dump_json(), media_type="application/json")


def _judged(asked: GateRequest, document: str | None) -> GateVerdict:
    if asked.profile is not None or asked.profile_id is not None:
        profile = asked.profile or Profile.model_validate_json(document or "")
        return judge_profile(asked.policy, profile)
    recommendation = asked.recommendation or Recommendation.model_validate_json(document or "")
    return judge_recommendation(asked.policy, recommendation)


async def _stored(asked: GateRequest, history: History | None) -> str | None:
    """The document that an id names; None where the evidence came whole."""
    key = asked.recommendation_id or asked.profile_id
    if key is None:
        return None
    what = "recommendation" if asked.recommendation_id else "profile"
    if history is None:
        detail = "this service keeps nothing (SPECWORTH_STORE is false); expected the evidence itself; got an id"
        raise ProblemError(404, "no-history", "Nothing is kept here", detail)
    if asked.recommendation_id:
        row = await history.run("find", lambda database: recommendations.find(database, key))
        found = None if row is None else str(row.values["answer"])
    else:
        found = await history.run("find", lambda database: profiles.document(database, key))
    if found is None:
        raise unknown_id(what, key, see=f"GET /v1/{what}s")
    return found


async def _watched(asked: GateRequest, canary: CanarySpec, request: Request, settings: Settings) -> GateVerdict:
    servers = await asyncio.to_thread(_servers, canary, settings)
    watches: set[asyncio.Task[GateVerdict]] = request.app.state.canaries
    if len(watches) >= MOST_WATCHES:
        detail = f"{MOST_WATCHES} canaries are being watched; try again when one is done"
        raise ProblemError(429, "too-many-canaries", "Too many canaries", detail, headers={"Retry-After": "60"})
    stopping: asyncio.Event = request.app.state.stopping
    task = asyncio.create_task(
        watch(asked.policy, servers, window_s=canary.window_s, every_s=min(canary.every_s, canary.window_s))
    )
    watches.add(task)
    try:
        while not (await asyncio.wait({task}, timeout=_ASK_EVERY_S))[0]:
            if stopping.is_set() or await request.is_disconnected():
                detail = "the watch ended before its window did; nothing was judged"
                raise ProblemError(503, "stopping", "The service is stopping", detail)
        return task.result()
    finally:
        task.cancel()
        watches.discard(task)


def _servers(canary: CanarySpec, settings: Settings) -> Servers:
    """Both, at the addresses that were checked; the operator's key goes to listed ones alone."""
    allowed = AllowList.parse(settings.attach_hosts)
    found = []
    for name in ("control", "canary"):
        field = f"canary.{name}"
        address = read_address(getattr(canary, name), field=field)
        key = settings.attach_api_key if allowed.lists(address) else None
        found.append(
            Endpoint(
                address.url, api_key=None if key is None else key.get_secret_value(),
                address=allowed.resolve(address, field=field),
            )
        )  # fmt: skip
    return Servers(control=found[0], canary=found[1], model=canary.model, method=canary.method)
