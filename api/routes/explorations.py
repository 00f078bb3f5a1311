"""POST /v1/workloads and /v1/explorations: what do these prompts come to, and how does the answer lie among others?

For pages and programs that move one thing after the other: a file of prompts is read once, and what is asked after that
carries its features instead. Both keep nothing, neither in the history nor in a log, so that trying things out does not
fill the history; what is to be kept is posted to /v1/recommendations.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from advisor.described import describe_sample, features_of
from advisor.exploration import SpeedupMap, explore
from advisor.features import WorkloadFeatures
from advisor.recommendation import Recommendation
from advisor.request import RecommendationRequest
from api.access.access import Asker
from api.findings import shown
from api.report.content import command_lines, crossover_sentence, headline
from api.routes.dependencies import BodyDep, FileDep, SettingsDep, WorkerDep, body_of, parse_object
from api.settings import Settings
from api.uploads import read_upload

router = APIRouter(prefix="/v1", tags=["exploration"])
_BODY = body_of("ExplorationRequest")
_FILE = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
Name = Annotated[str, Query(max_length=200, description="The file's name: its extension helps to recognise it")]


@router.post("/workloads", openapi_extra=_FILE, response_model=WorkloadFeatures)
async def describe(_: Asker, body: FileDep, worker: WorkerDep, name: Name = "the file") -> Response:
    """The features of a file of prompts, in any of the shapes that `specworth advise` reads; it is not kept."""
    told = await worker.run(partial(_described, body, shown(name)[1:-1]))
    return Response(told.model_dump_json(), media_type="application/json")


def _described(body: bytes, name: str) -> WorkloadFeatures:
    return features_of(describe_sample(read_upload(body, name)))


class Told(BaseModel):
    """An answer, told in words, and its surroundings."""

    model_config = ConfigDict(frozen=True)

    headline: str = Field(description="The verdict in a sentence")
    crossover: str = Field(description="Up to where it pays, in a sentence")
    command: str = Field(description="The command line that serves so")
    recommendation: Recommendation
    map: SpeedupMap


@router.post("/explorations", openapi_extra=_BODY, response_model=Told)
async def surroundings(_: Asker, body: BodyDep, settings: SettingsDep, worker: WorkerDep) -> Response:
    """The answer that /v1/recommendations would give, and a map of the speedup; nothing is kept."""
    return Response(await worker.run(partial(_explored, body, settings)), media_type="application/json")


def _explored(body: bytes, settings: Settings) -> str:
    request = RecommendationRequest.model_validate(parse_object(body, settings))
    found = explore(request)
    answer = found.recommendation
    told = Told(
        headline=headline(answer, request),
        crossover=crossover_sentence(answer, request.policy.min_speedup),
        command=" \\\n".join(command_lines(answer.configuration.serve_arguments)),
        recommendation=answer,
        map=found.map,
    )
    return told.model_dump_json()
