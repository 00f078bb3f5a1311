"""GET /v1/catalog/models and /v1/catalog/gpus: which names can a request use, and where do their numbers come from?"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from api.access.access import Reader
from api.listing import ListedGpu, ListedModel, listed_gpus, listed_models
from api.routes.dependencies import WorkerDep

router = APIRouter(prefix="/v1/catalog", tags=["catalog"])
Search = Annotated[
    str,
    Query(
        max_length=200,
        description="Part of a name or alias; case and separators do not matter",
        openapi_examples={"all": {"value": ""}, "one family": {"value": "llama"}},
    ),
]


class Models(BaseModel):
    """The models and drafter heads of the catalog."""

    model_config = ConfigDict(frozen=True)

    models: list[ListedModel]


class Gpus(BaseModel):
    """The accelerators of the catalog."""

    model_config = ConfigDict(frozen=True)

    gpus: list[ListedGpu]


@router.get("/models")
async def get_models(_: Reader, worker: WorkerDep, search: Search = "") -> Models:
    """Models and drafter heads that can be named, with sizes and sources."""
    return Models(models=await worker.run(lambda: listed_models(search)))


@router.get("/gpus")
async def get_gpus(_: Reader, worker: WorkerDep, search: Search = "") -> Gpus:
    """Accelerators that can be named, with their figures and sources."""
    return Gpus(gpus=await worker.run(lambda: listed_gpus(search)))
