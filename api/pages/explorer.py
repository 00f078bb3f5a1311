"""GET /: a verdict for one's own prompts, and what moves it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.pages.site import page

router = APIRouter(include_in_schema=False)


@router.get("/")
async def explorer(request: Request) -> Response:
    """The explorer."""
    return page(request, "explorer.html", here="Explorer", keeps=request.app.state.history is not None)
