"""GET /assets/{version}/{path}: the pages' scripts, styles and pictures.

Kept by browsers for good, since another content has another path. A path of an earlier version is gone: a page that was
open while the service was renewed says so when it is loaded again.
"""

from __future__ import annotations

import mimetypes

from fastapi import APIRouter, Response

from api.findings import shown
from api.pages.site import assets, assets_version
from api.problems import ProblemError

router = APIRouter(include_in_schema=False)
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
_TYPES = {
    ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".jsonl": "application/jsonl",
}  # fmt: skip  # the same on every system


@router.get("/assets/{version}/{path:path}")
async def asset(version: str, path: str) -> Response:
    """One file, as it is."""
    content = assets().get(path) if version == assets_version() else None
    if content is None:
        detail = f"no page of this version has the asset {shown(path)}; load the page again"
        raise ProblemError(404, "no-asset", "No such asset", detail)
    suffix = path[path.rfind(".") :]
    media_type = _TYPES.get(suffix) or mimetypes.types_map.get(suffix, "application/octet-stream")
    return Response(content, headers=_HEADERS, media_type=media_type)
