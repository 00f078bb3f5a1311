"""A history for the page's tests: a service, what is stored in it, and its rows on the page."""

from __future__ import annotations

import contextlib

import httpx
from playwright.sync_api import Page

from api.settings import Settings

PATH = "/v1/recommendations"
LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B"
MARKUP = "<img src=x onerror=\"window.ran='yes'\">"


@contextlib.contextmanager
def service(serve, database_url, **settings):
    """A client of a service, whose base_url is the page's, too."""
    with (
        serve(Settings(database_url=database_url, **settings)) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


def keep(client, label, *, target=LLAMA, gpu="H200", concurrency=4, headers=None, **more):
    """A stored recommendation's list entry."""
    body = {
        "prompts": ["Write a Python function that merges overlapping intervals."],
        "deployment": {"target": target, "gpu": gpu},
        "traffic": {"concurrency": concurrency, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
        "labels": [label],
    } | more
    answer = client.post(PATH, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def shown(page: Page, name: str = "recommendations"):
    """The rows of a list."""
    return page.locator(f"#{name}-rows > tr")


def row(page: Page, key: str):
    """One row by its id."""
    return page.locator(f"tr[data-id='{key}']")


def focused(page: Page) -> list[str]:
    """Of the row that has the focus its id, and which of its controls it is."""
    return page.evaluate("[document.activeElement.closest('tr')?.dataset.id, document.activeElement.dataset.control]")
