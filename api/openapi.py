"""What the service says of itself: FastAPI's schema, with the bodies that are read by hand, keys and problems."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from advisor.gate.request import GateRequest
from advisor.plan import PlanRequest
from advisor.request import RecommendationRequest
from api import problems
from api.comparisons.request import ComparisonRequest
from api.history.record import RecommendationPost
from api.jobs.request import ProfileRequest
from api.routes.history import Changes
from profiler.probe.profile import Profile

# Schemas by the names under which operations refer to them.
_OWN: dict[str, type[BaseModel]] = {
    "RecommendationRequest": RecommendationPost, "Problem": problems.Problem, "Changes": Changes, "Profile": Profile,
    "ProfileRequest": ProfileRequest, "GateRequest": GateRequest,
    "ExplorationRequest": RecommendationRequest, "ComparisonRequest": ComparisonRequest, "PlanRequest": PlanRequest,
}  # fmt: skip
_OPEN = ("/healthz", "/readyz")


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the application."""
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name, model in _OWN.items():
        own = model.model_json_schema(ref_template="#/components/schemas/{model}")
        for part, definition in own.pop("$defs", {}).items():
            schemas.setdefault(part, definition)
        schemas[name] = own
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own shape of a 422, which we never answer
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "ApiKey": {"type": "http", "scheme": "bearer", "description": "Where the operator asks for keys"}
    }
    problem = {
        "description": "What is wrong, as problem details",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["4XX"] = problem
            operation["responses"]["5XX"] = problem
            if path not in _OPEN:
                operation["security"] = [{"ApiKey": []}, {}]  # the empty one: no key, on loopback
    return schema
