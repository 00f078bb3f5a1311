"""The service: `create_app(settings)` puts routes, limits, history and problem details together.

Started by `specworth serve`, or by any ASGI server with `uvicorn --factory api.app:create_app`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI

from api import problems
from api.access.access import Access
from api.history.database import open_database
from api.history.history import History
from api.openapi import describe
from api.operation.drift import Drift, read_reference
from api.operation.metrics import Metrics
from api.operation.readiness import warm_up
from api.operation.requests import Requests
from api.operation.stopping import tell_when_stopping
from api.pages import assets, compare, explorer
from api.pages import history as history_page
from api.routes import (
    capacity_plans,
    catalog,
    comparisons,
    explorations,
    gates,
    health,
    history,
    profile_jobs,
    profiles,
    recommendations,
    reports,
)
from api.settings import Settings, load_settings
from api.version import specworth_version
from api.worker import Worker

logger = logging.getLogger("specworth")

_DESCRIPTION = (
    "Is speculative decoding worth it for your vLLM workload? Post a sample of prompts, a deployment and its traffic. "
    f"Every error is RFC 9457 problem details ({problems.MEDIA_TYPE}) with what was expected and what came."
)
_MOST_DRAWINGS = 8  # reports in line: one takes a second


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; settings come from the environment where none are given.

    Raises InputError for settings that cannot be used together, StorageError for a database that never can.
    """
    settings = settings or load_settings()
    app = FastAPI(title="specworth", version=specworth_version(), description=_DESCRIPTION, lifespan=_lifespan)
    app.state.settings = settings
    app.state.access = Access(settings)
    app.state.metrics = metrics = Metrics(Drift(read_reference()))
    app.state.history = _open_history(settings, metrics)
    app.state.worker = Worker(max_waiting=settings.max_waiting)
    app.state.drawing = Worker(max_waiting=_MOST_DRAWINGS)
    app.state.stopping = asyncio.Event()  # set when the service is told to stop: streams of events then end
    app.state.streams = set()  # of events of profile jobs, that are open
    app.state.canaries = set()  # pairs of servers that are being watched
    app.state.comparisons = set()  # pairs of servers that answer one prompt
    app.add_middleware(Requests, metrics=metrics)
    problems.install(app)
    for module in (
        recommendations,
        explorations,
        history,
        profile_jobs,
        profiles,
        reports,
        gates,
        comparisons,
        capacity_plans,
        catalog,
        health,
    ):
        app.include_router(module.router)
    for page in (explorer, compare, assets, history_page):
        app.include_router(page.router)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI documents for own schemas
    return app


def _open_history(settings: Settings, metrics: Metrics) -> History | None:
    if not settings.store:
        return None
    wait_s = settings.database_wait_s
    database = open_database(settings.database_url, wait_s=wait_s)
    return History(database, wait_s=wait_s, max_waiting=settings.max_waiting, observe=metrics.database)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Migrate and read the models before the first request; close the database after the last."""
    kept: History | None = app.state.history
    tell_when_stopping(app.state.stopping)
    if kept is not None:
        await anyio.to_thread.run_sync(kept.prepare_if_there)
    if (damage := await anyio.to_thread.run_sync(warm_up)) is not None:
        logger.error("not ready: %s", damage)
    yield
    if kept is not None:
        await anyio.to_thread.run_sync(kept.close)
