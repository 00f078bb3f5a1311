"""GET /healthz: is the service up, and which is it?"""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

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
