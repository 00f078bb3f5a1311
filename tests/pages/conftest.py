"""The pages in a real browser, against a real service on a loopback port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.api.conftest import _data_folder, serve, url
from tests.chromium import launched

PATIENCE_MS = 30_000  # against a hang alone: hosts are busy, and Playwright's own five seconds for `expect` are few
expect.set_options(timeout=PATIENCE_MS)

__all__ = ["_data_folder", "serve", "url"]

PICTURES = Path(__file__).parents[2] / "build" / "pages"  # for a person to look at; git ignores it
DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a module's tests; see `tests.chromium` for why not for all."""
    with launched() as started:
        yield started


class Watched:
    """What went wrong in a page: console errors, exceptions, refusals of its policy, requests to other hosts."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.requests: list[tuple[str, str]] = []  # method and path
        self.bytes = 0

    def watch(self, page: Page) -> None:
        """Listen to everything."""
        page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._asked(request.method, request.url))

    def _asked(self, method: str, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "blob" and parts.hostname != "127.0.0.1":
            self.errors.append(f"a request to another host: {url}")
        self.requests.append((method, parts.path))


@contextlib.contextmanager
def opened(
    browser: Browser,
    url: str,
    path: str = "/",
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: str = "light",
    tolerate: Callable[[str], bool] = lambda _: False,
) -> Iterator[Page]:
    """A page in a context of its own; when the block ends, nothing may have gone wrong but what is tolerated.

    `page.watched` tells the requests; `tolerate` says of a console line whether the test provoked it.
    """
    context = browser.new_context(
        base_url=url, viewport={"width": size[0], "height": size[1]}, color_scheme=scheme,  # type: ignore[arg-type]
        permissions=["clipboard-read", "clipboard-write"],
    )  # fmt: skip
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        watched = Watched()
        watched.watch(page)
        page.watched = watched  # type: ignore[attr-defined]
        page.goto(path)
        yield page
        assert [line for line in watched.errors if not tolerate(line)] == []
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong by WCAG 2.2 A and AA and by good practice: rule, what it is about, where."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{v['id']}: {v['help']} ({'; '.join(str(n['target']) for n in v['nodes'][:5])})" for v in found]


def picture(page: Page, name: str) -> None:
    """Keep the whole page as a picture."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
