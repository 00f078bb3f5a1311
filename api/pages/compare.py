"""GET /compare: one prompt to a server without speculation and one with it, both answers side by side as they come."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.comparisons.request import MOST_TOKENS
from api.pages.site import page

router = APIRouter(include_in_schema=False)


@router.get("/compare")
async def compare(request: Request) -> Response:
    """The page; what it sends goes to /v1/comparisons, never to a server itself."""
    return page(request, "compare.html", here="Side by side", most_tokens=MOST_TOKENS)
