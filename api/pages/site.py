"""How does a page reach a browser: from which template, with which assets, under which headers?

Templates and assets are read once, when the service starts. The path of an asset has the digest of all of them, so that
browsers may keep it for good and a new version is fetched at once; modules import each other by relative paths and stay
among their own. Nothing that a page needs comes from elsewhere, and its Content-Security-Policy says so: no inline
script, no inline style, no eval, no other host.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import jinja2
from fastapi import Request
from starlette.responses import HTMLResponse

from api.access.access import Access
from api.version import specworth_version

_HERE = Path(__file__).parent
STATIC = _HERE / "static"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
}


@cache
def assets() -> dict[str, bytes]:
    """All assets by their path below /assets/{version}/."""
    return {
        path.relative_to(STATIC).as_posix(): path.read_bytes() for path in sorted(STATIC.rglob("*")) if path.is_file()
    }


@cache
def assets_version() -> str:
    """A digest of all assets."""
    digest = hashlib.sha256()
    for name, content in assets().items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


PAGES = {"Explorer": "/", "Side by side": "/compare", "History": "/history"}  # the navigation


def page(request: Request, template: str, *, here: str, **values: object) -> HTMLResponse:
    """A page from its template.

    here: which of the navigation's entries it is. Besides `values` a template knows `assets` (their path), `version`
    and `asks_for_keys`.
    """
    access: Access = request.app.state.access
    text = _templates().get_template(template).render(
        assets=f"/assets/{assets_version()}",
        version=specworth_version(),
        asks_for_keys=access.keys is not None,
        pages=PAGES,
        here=here,
        **values,
    )  # fmt: skip
    return HTMLResponse(text, headers=_HEADERS)
