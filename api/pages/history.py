"""GET /history: what was answered and measured before, compared, labelled and deleted; and jobs while they run."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.pages.site import page

router = APIRouter(include_in_schema=False)


@router.get("/history")
async def history(request: Request) -> Response:
    """The history; everything in it comes from /v1, with its reader's key."""
    return page(request, "history.html", here="History")
