"""What every page has: its policy, its assets, its theme, the key's place; and no request to anywhere else."""

from __future__ import annotations

import httpx
import pytest
import yaml
from playwright.sync_api import Error, expect
from pydantic import SecretStr

from api.access.keys import new_key
from api.pages.site import assets, assets_version
from api.settings import Settings
from tests.pages.conftest import opened, violations


@pytest.fixture(scope="module")
def http(url):
    with httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def test_a_page_goes_out_under_a_strict_policy(http):
    """No inline script or style, no eval, no other host, no frame; and browsers ask again for the page itself."""
    answer = http.get("/")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert not any("unsafe" in sources or "http" in sources or "*" in sources for sources in policy.values())
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_assets_are_kept_for_good_under_the_digest_of_all_of_them(http):
    """Each is served with its type; a path of another version is gone, and so is what leads out of the folder."""
    for name, content in assets().items():
        answer = http.get(f"/assets/{assets_version()}/{name}")
        assert answer.status_code == 200
        assert answer.content == content
        assert "immutable" in answer.headers["cache-control"]
        kind = {
            "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "jsonl": "application/jsonl",
        }[name.rsplit(".", 1)[1]]  # fmt: skip
        assert answer.headers["content-type"].split(";")[0] == kind
    for path in ("0" * 16 + "/base.css", f"{assets_version()}/%2e%2e/site.py", f"{assets_version()}/none.js"):
        answer = http.get(f"/assets/{path}")
        assert answer.status_code == 404
        assert "load the page again" in answer.json()["detail"]


def test_all_pages_of_assets_weigh_less_than_300_kb():
    """Everything that any page loads, together."""
    assert sum(map(len, assets().values())) < 300_000


def test_nothing_inline_runs(browser, url):
    """The policy holds in the browser: code written into the page is refused, and an inline style has no effect."""

    def provoked(line: str) -> bool:
        return "Content Security Policy" in line or "Trusted" in line

    with opened(browser, url, tolerate=provoked) as page:
        refused = page.evaluate(
            """() => [
              () => { document.createElement("script").textContent = "window.ran = true"; },
              () => { document.body.setAttribute("onclick", "window.ran = true"); },
              () => { document.body.innerHTML = "<img src=x onerror='window.ran = true'>"; },
              () => { setTimeout("window.ran = true"); },
            ].map((attempt) => { try { attempt(); return "done"; } catch (error) { return error.name; } })"""
        )
        assert set(refused) == {"TypeError"}
        hidden = """() => { document.body.setAttribute("style", "display: none");
                           return getComputedStyle(document.body).display; }"""
        assert page.evaluate(hidden) != "none"
        assert page.evaluate("window.ran") is None


def test_the_theme_is_the_systems_until_one_is_chosen_and_then_stays(browser, url):
    """Light, dark and back to the system, by its button; the choice survives a reload."""
    with opened(browser, url, scheme="dark") as page:
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(ground)
        page.get_by_role("button", name="Theme: system").click()
        light = page.evaluate(ground)
        assert light != dark
        page.reload()
        assert page.evaluate(ground) == light
        page.get_by_role("button", name="Theme: light").click()
        assert page.evaluate(ground) == dark
        page.get_by_role("button", name="Theme: dark").click()
        assert page.get_by_role("button", name="Theme: system").is_visible()


def test_the_key_is_asked_for_where_the_service_needs_one(browser, serve, tmp_path):
    """The dialog opens on the first refusal; the key is sent with what follows, and stays in the tab's session."""
    gpus = """async (path) => (await (await import(path)).ask("GET", "/v1/catalog/gpus")).gpus.length"""
    fetching = f"/assets/{assets_version()}/fetching.js"
    key, kept = new_key("page")
    keys = SecretStr(yaml.safe_dump([{"name": "page", "scopes": ["advise", "read"], "hash": kept}]))
    settings = Settings(api_keys=keys, database_url=f"sqlite:///{tmp_path / 'h.sqlite3'}")
    with serve(settings) as url, opened(browser, url, tolerate=lambda line: "401" in line) as page:
        with pytest.raises(Error, match="no API key came"):
            page.evaluate(gpus, fetching)
        page.get_by_role("dialog").wait_for()
        page.get_by_label("Key of this service").fill(key)
        page.get_by_role("button", name="Use it").click()
        assert page.evaluate(gpus, fetching) > 0
        assert page.evaluate("[Object.values(sessionStorage), JSON.stringify(localStorage), document.cookie]") == [
            [key], "{}", ""
        ]  # fmt: skip


def test_without_keys_nothing_asks_for_one(browser, url):
    """No button and no dialog; and nothing that axe-core has to say about the frame of the page."""
    with opened(browser, url) as page:
        expect(page.get_by_role("button", name="API key")).to_have_count(0)
        assert violations(page) == []
