"""Can this service answer now? Its database answers and has our tables, its artefacts are what they claim to be.

Artefacts are checked once, in full, since they are read once: a service whose files were damaged later still answers
with what it has in memory. The database is asked each time, for a second at most.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from api.examples import REQUEST_EXAMPLES
from api.history.history import History
from profiler.errors import SpecworthError


class Check(BaseModel):
    """One thing that an answer needs."""

    model_config = ConfigDict(frozen=True)

    name: Literal["database", "artefacts"]
    status: Literal["ok", "failed", "off"]
    detail: str | None = None


class Readiness(BaseModel):
    """Everything that an answer needs."""

    model_config = ConfigDict(frozen=True)

    status: Literal["ready", "not ready"]
    checks: list[Check]


@cache
def warm_up() -> str | None:
    """Read every artefact by answering an example; what is wrong with them, None where nothing is."""
    from advisor import RecommendationRequest, advise

    try:
        advise(RecommendationRequest.model_validate(REQUEST_EXAMPLES["compare_everything"]["value"]))
    except SpecworthError as error:
        return error.line()
    return None


async def check_database(history: History | None) -> Check:
    """Does the database answer, with our tables?"""
    if history is None:
        return Check(name="database", status="off", detail="SPECWORTH_STORE is false")
    try:
        await history.check()
    except SpecworthError as error:
        return Check(name="database", status="failed", detail=error.line())
    return Check(name="database", status="ok")


def check_artefacts() -> Check:
    """Are the models there? Slow the first time."""
    wrong = warm_up()
    return Check(name="artefacts", status="ok" if wrong is None else "failed", detail=wrong)
