"""The service: `create_app(settings)` puts routes, limits and problem details together.

Started by `specworth serve`, or by any ASGI server with `uvicorn --factory api.app:create_app`.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from advisor import RecommendationRequest
from api import problems
from api.routes import catalog, health, recommendations
from api.settings import Settings, load_settings
from api.version import specworth_version
from api.worker import Worker

_DESCRIPTION = (
    "Is speculative decoding worth it for your vLLM workload? Post a sample of prompts, a deployment and its traffic. "
    f"Every error is RFC 9457 problem details ({problems.MEDIA_TYPE}) with what was expected and what came."
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; settings come from the environment where none are given."""
    app = FastAPI(title="specworth", version=specworth_version(), description=_DESCRIPTION)
    app.state.settings = settings or load_settings()
    app.state.worker = Worker(max_waiting=app.state.settings.max_waiting)
    problems.install(app)
    for module in (recommendations, catalog, health):
        app.include_router(module.router)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _openapi(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way that FastAPI documents for own schemas
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's schema, with the request body (read by hand) and the problems that every operation can answer."""
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for model in (RecommendationRequest, problems.Problem):
        own = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(own.pop("$defs", {}))
        schemas[model.__name__] = own
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own shape of a 422, which we never answer
        schemas.pop(unused, None)
    problem = {
        "description": "What is wrong, as problem details",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["4XX"] = problem
            operation["responses"]["5XX"] = problem
    return schema
