"""The side-by-side page in a real browser, with two real CPU servers streaming one prompt."""

from __future__ import annotations

import re
import time

import httpx
import pytest
from playwright.sync_api import expect

from api.settings import Settings
from profiler.metrics import read_scrape
from tests.api.conftest import serving
from tests.pages.conftest import browser, opened, picture
from tests.real_vllm.conftest import MODEL

__all__ = ["browser"]

TOKENS = 96  # some seconds
PROMPT = 'Copy this JSON four times: {"name": "lamp", "price": 12, "colour": "red"}'


@pytest.fixture(scope="module")
def service():
    """Ours, which keeps nothing."""
    with serving(Settings(store=False)) as url:
        yield url


def test_two_real_servers_stream_side_by_side(baseline_server, draft_model_server, service, browser):
    """Each answer is shown while it grows, and both are the same text at temperature 0; the drafts are those that vLLM
    counted. Either server may be the slower one to begin, by more than an answer takes."""
    link = f"/compare?baseline={baseline_server.url}&speculative={draft_model_server.url}"
    with opened(browser, service, link) as page:
        page.set_default_timeout(300_000)
        page.get_by_label("Prompt", exact=True).fill(PROMPT)
        page.get_by_label("Most tokens").fill(str(TOKENS))
        page.get_by_role("button", name="Send to both").click()
        arms = {name: page.get_by_role("article", name=name) for name in ("Baseline", "Speculative")}
        streams = {name: page.get_by_role("region", name=f"{name}: the answer") for name in arms}
        page.wait_for_function(  # asked at every frame, so that no arm ends between two looks
            """() => {
                 const arms = [...document.querySelectorAll(".arm")];
                 for (const arm of arms)
                   if (arm.querySelector(".stream").textContent.length > 0
                       && arm.querySelector("[data-part=state]").textContent === "answering") arm.dataset.seen = "yes";
                 return arms.every((arm) => arm.dataset.seen === "yes");
               }"""
        )
        picture(page, "compare-real-running")
        page.get_by_text("Both answers are the same text.").wait_for()
        page.get_by_text("token by token as the server counted them").wait_for()
        picture(page, "compare-real")
        assert streams["Baseline"].text_content() == streams["Speculative"].text_content()
        expect(page.get_by_text("Both servers run on the CPU of this machine and share its cores")).to_be_visible()
        for name in arms:
            assert f"{MODEL} · vLLM 0.32.0" in arms[name].text_content()
            assert float(arms[name].locator("[data-part=rate]").text_content()) > 0
        expect(page.locator("#speedup")).to_have_text(re.compile(r"^\d\.\d\dx$"))
        told = re.compile(r"^[1-4]\.\d\d tokens a step, \d+% of the drafts accepted$")
        expect(arms["Speculative"].locator("[data-part=acceptance]")).to_have_text(told)
        expect(streams["Speculative"].locator(".drafted").first).to_be_visible()
        expect(streams["Baseline"].locator(".drafted")).to_have_count(0)


def test_who_leaves_takes_the_requests_along(baseline_server, draft_model_server, service):
    """A client that hangs up in the middle ends both answers: what they generate stops far from what was asked for."""
    body = {
        "baseline": {"url": baseline_server.url}, "speculative": {"url": draft_model_server.url},
        "prompt": "Count from 1 to 1000.", "max_tokens": 1500,
    }  # fmt: skip
    with httpx.Client(trust_env=False, timeout=120) as client:

        def generated(server):
            return read_scrape(client.get(f"{server.url}/metrics").text).total("generation_tokens")

        servers = (baseline_server, draft_model_server)
        before = [generated(server) for server in servers]
        with client.stream("POST", f"{service}/v1/comparisons", json=body) as answer:
            for line in answer.iter_lines():
                if line == "event: text":
                    break
        for server, then in zip(servers, before, strict=True):
            now, last = generated(server), None
            while now != last:  # a slow step takes less than this; one that went on would end at 1500 tokens
                time.sleep(3.0)
                now, last = generated(server), now
            assert now - then < 1000
