"""POST /v1/recommendations: is speculative decoding worth it here? And the same body checked without an answer."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from advisor import Recommendation, RecommendationRequest, advise
from api.examples import REQUEST_EXAMPLES
from api.routes.dependencies import BodyDep, SettingsDep, WorkerDep, parse_object

router = APIRouter(prefix="/v1", tags=["recommendations"])

# The body is read by hand (limits, repeated keys), so its schema is told by hand too.
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/RecommendationRequest"},
                "examples": REQUEST_EXAMPLES,
            }
        },
    }
}


class Checked(BaseModel):
    """A body that is a valid request."""

    model_config = ConfigDict(frozen=True)

    valid: Literal[True] = True
    prompts: int = Field(description="Prompts in the body, readable or not")


@router.post("/recommendations", openapi_extra=_BODY, response_model=Recommendation)
async def recommend(body: BodyDep, settings: SettingsDep, worker: WorkerDep) -> Response:
    """A verdict, what it rests on, and the vLLM configuration that realises it."""

    def answer() -> bytes:
        request = RecommendationRequest.model_validate(parse_object(body, settings))
        return advise(request).model_dump_json().encode()

    return Response(await worker.run(answer), media_type="application/json")


@router.post("/recommendations:validate", openapi_extra=_BODY, response_model=Checked)
async def check(body: BodyDep, settings: SettingsDep, worker: WorkerDep) -> Response:
    """Is this body a valid request? Checks shape, numbers and contradictions; resolves no names, predicts nothing."""

    def answer() -> bytes:
        request = RecommendationRequest.model_validate(parse_object(body, settings))
        return Checked(prompts=len(request.prompts)).model_dump_json().encode()

    return Response(await worker.run(answer), media_type="application/json")
