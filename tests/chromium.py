"""A real browser for the tests: Debian's Chromium, installed where it is missing, driven by Playwright.

    python -m tests.chromium        # installs it where it is missing (as root, or by sudo), says where it is

Playwright would download a browser of its own; the system's is the one that gets security updates. Whoever drives it
runs an event loop in the calling thread until the block ends, so the browser is never kept open beyond a module's
tests: others call asyncio.run in that thread. The standard library alone is imported early, since `make test` runs this
early.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.debian import installed

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser")
# Nothing but the loopback can be reached: a page that needs another host fails its test.
_OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


def find() -> str | None:
    """The browser's path."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def install() -> str:
    """The same, installed if it is missing."""
    return installed("chromium", "Chromium", find)


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """A browser that ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=install(), args=[_OFFLINE])
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    print(install(), file=sys.stderr)
