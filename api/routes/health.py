"""GET /healthz, /readyz and /metrics: is the service up, can it answer, and how is it doing?

Health and readiness are asked by machines that have no key, and say nothing of anybody's requests; metrics need the
scope read where keys are asked for.
"""

from __future__ import annotations

import contextlib
from typing import Literal

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from api.access.access import Reader
from api.history.errors import StorageError
from api.history.history import History
from api.jobs import queue
from api.operation.metrics import MEDIA_TYPE, Metrics
from api.operation.readiness import Readiness, check_artefacts, check_database
from api.version import specworth_version

router = APIRouter(tags=["service"])


class Health(BaseModel):
    """The service answers."""

    model_config = ConfigDict(frozen=True)

    status: Literal["ok"] = "ok"
    version: str


@router.get("/healthz")
async def healthz() -> Health:
    """Answers while recommendations are being made, too: those run in a thread of their own."""
    return Health(version=specworth_version())


@router.get("/readyz", response_model=Readiness, responses={503: {"model": Readiness}})
async def readyz(request: Request) -> Response:
    """Whether requests may be sent here: 200, or 503 with what is missing."""
    checks = [await check_database(request.app.state.history), await anyio.to_thread.run_sync(check_artefacts)]
    ready = all(check.status != "failed" for check in checks)
    told = Readiness(status="ready" if ready else "not ready", checks=checks)
    return Response(told.model_dump_json(exclude_none=True), 200 if ready else 503, media_type="application/json")


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, _: Reader) -> Response:
    """The service's own metrics, in Prometheus' text format; of profile jobs as the database last told."""
    counted: Metrics = request.app.state.metrics
    history: History | None = request.app.state.history
    if history is not None:
        with contextlib.suppress(StorageError):  # counted as a failed operation of the database
            counted.profile_jobs(await history.run("count jobs", queue.census, wait_s=1.0))
    return Response(counted.text(), media_type=MEDIA_TYPE)
