"""The side-by-side page in Chromium: two stand-in servers, whatever they do, and whoever looks at it."""

from __future__ import annotations

import contextlib
import json
import re
import time

import pytest
from playwright.sync_api import expect

from api.settings import Settings
from tests.fake_vllm import Knobs, fake_vllm
from tests.pages.conftest import DESKTOP, PHONE, opened, picture, violations

SPECULATES = {"tokens_per_step": 3, "num_speculative_tokens": 3, "per_request": True, "detailed": True}
SLOW = {"step_s": 0.05}


@pytest.fixture(scope="module")
def service(serve):
    with serve(Settings(store=False)) as url:
        yield url


@contextlib.contextmanager
def compared(browser, service, *, baseline=None, speculative=None, link=None, **how):
    """The page with both addresses filled in; gives it and both servers."""
    with (
        fake_vllm(Knobs(**(baseline or {}))) as one,
        fake_vllm(Knobs(**(SPECULATES | (speculative or {})))) as two,
        opened(browser, service, link or f"/compare?baseline={one.url}&speculative={two.url}", **how) as page,
    ):
        page.get_by_label("Most tokens").fill("12")
        yield page, one, two


def send(page):
    page.get_by_role("button", name="Send to both").click()


def arm(page, name):
    return page.get_by_role("article", name=name)


def state(page, name, expected):
    """Wait until an arm is in this state."""
    arm(page, name).locator("[data-part=state]").get_by_text(expected, exact=True).wait_for()


def part(page, name, which):
    return arm(page, name).locator(f"[data-part={which}]").text_content()


def test_both_answers_come_with_their_figures(browser, service):
    """Text, speeds, acceptance, the drafts in the text, the speedup; and what both share, said plainly."""
    with compared(browser, service, baseline={"step_s": 0.02}, speculative={"step_s": 0.02}) as (page, _, two):
        expect(page.get_by_text("The answer comes here")).to_have_count(0)  # it is only painted
        send(page)
        page.get_by_text("Both answers are the same text.").wait_for()
        for name in ("Baseline", "Speculative"):
            state(page, name, "finished")
            assert part(page, name, "stream") == "word " * 12
            assert part(page, name, "tokens") == "12"
            assert float(part(page, name, "rate")) > 0
            assert re.fullmatch(r"\d+ ms|\d\.\d\d s", part(page, name, "ttft"))
        assert part(page, "Baseline", "acceptance") == "does not speculate"
        assert part(page, "Speculative", "acceptance") == "2.75 tokens a step, 58% of the drafts accepted"
        assert page.locator(".stream .drafted").all_text_contents() == ["word word "] * 3 + ["word "]
        assert "token by token as the server counted them" in part(page, "Speculative", "legend")
        expect(page.locator("#speedup")).to_have_text(re.compile(r"^[1-9]\.\d\dx$"))
        expect(page.locator("#speedup-told")).to_contain_text("for the same 12 tokens of one request")
        expect(page.locator("#sharing")).to_contain_text("Both servers run on this machine. Whether they share a GPU")
        expect(page.locator("#notes li")).to_have_count(2)  # both answered for the first time
        expect(page.get_by_role("status").filter(has_text="Both finished. Speedup")).to_have_count(1)
        assert f"speculative={two.url.replace('://', '%3A%2F%2F').replace('1:', '1%3A')}" in page.url
        assert {path for method, path in page.watched.requests if method == "POST"} == {"/v1/comparisons"}


@pytest.mark.parametrize(
    ("scheme", "size"),
    [("light", DESKTOP), ("dark", DESKTOP), ("light", PHONE)],
    ids=["light", "dark", "phone"],
)
def test_it_is_accessible_and_fits_in_every_state(browser, service, scheme, size):
    """Nothing for axe-core to find before, during and after, nor in failure; nothing wider than a phone."""
    named = f"compare-{scheme}" + "-phone" * (size == PHONE)
    with compared(
        browser, service, baseline=SLOW, speculative=SLOW | {"fault": "cut stream", "fault_after": 1}, scheme=scheme,
        size=size,
    ) as (page, _, __):  # fmt: skip
        assert violations(page) == []
        picture(page, f"{named}-empty")
        page.get_by_label("Most tokens").fill("60")
        send(page)
        page.wait_for_function("() => document.querySelectorAll('.drafted').length > 5")
        picture(page, f"{named}-running")
        assert violations(page) == []
        page.get_by_text("Both answers are the same text.").wait_for()
        picture(page, named)
        assert violations(page) == []
        send(page)
        state(page, "Speculative", "failed")
        state(page, "Baseline", "finished")
        page.get_by_role("tab", name="Your sample").click()
        page.get_by_text("Paste prompts instead").click()
        page.get_by_text("Keys and model").click()
        picture(page, f"{named}-failed")
        assert violations(page) == []
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0


@pytest.mark.parametrize(
    ("knobs", "line"),
    [
        ({"fault": "cut stream"}, "The server broke off after its first token"),
        ({"max_model_len": 20}, "maximum context length is 20 tokens; choose a shorter prompt, or fewer tokens"),
        ({"model": "other", "root": "/other"}, "serves another model than the baseline; expected 'fake'; got 'other'"),
    ],
)
def test_a_server_that_fails_says_so_in_its_column_while_the_other_goes_on(browser, service, knobs, line):
    """One line, announced; the baseline's answer is whole."""
    with compared(browser, service, speculative=knobs) as (page, _, __):
        send(page)
        state(page, "Speculative", "failed")
        state(page, "Baseline", "finished")
        alert = arm(page, "Speculative").get_by_role("alert")
        expect(alert).to_contain_text(line)
        expect(arm(page, "Baseline").get_by_role("alert")).to_have_count(0)
        assert part(page, "Baseline", "stream") == "word " * 12
        expect(page.locator("#same-told")).to_have_text("")
        assert page.get_by_text("There is no speedup without both answers.").is_visible() or page.locator(
            "#speedup-told"
        ).text_content().startswith("Speedup so far")


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("http://127.0.0.1:9", "http://127.0.0.1:9 does not answer; got cannot connect"),
        ("http://10.1.2.3:8000", "this service does not connect to 10.1.2.3: it is not listed"),
    ],
)
def test_a_server_that_cannot_be_reached(browser, service, address, line):
    """Not there, not allowed, no address: each in its column."""
    with compared(browser, service) as (page, _, __):
        page.get_by_label("Speculative server", exact=True).fill(address)
        send(page)
        state(page, "Speculative", "failed")
        state(page, "Baseline", "finished")
        expect(arm(page, "Speculative").get_by_role("alert")).to_contain_text(line)


def test_a_key_can_be_given_where_it_is_wanted(browser, service):
    """The line says where; with the key the server answers; the key is kept nowhere."""
    with compared(browser, service, baseline={"api_key": "hush"}) as (page, _, __):
        send(page)
        state(page, "Baseline", "failed")
        expect(arm(page, "Baseline").get_by_role("alert")).to_contain_text("refuses the key")
        page.get_by_text("Keys and model").click()
        page.get_by_label("Key of the baseline server").fill("hush")
        send(page)
        page.get_by_text("Both answers are the same text.").wait_for()
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert "hush" not in kept


def test_without_per_request_metrics_the_page_says_what_it_judges_by(browser, service):
    """Steps that came at once are tinted, and the legend says that this is all that is known."""
    with compared(browser, service, speculative={"per_request": False}) as (page, _, __):
        send(page)
        page.get_by_text("Both answers are the same text.").wait_for()
        arm(page, "Speculative").get_by_text("judged by what came at once").wait_for()
        assert page.locator(".stream .drafted").all_text_contents() == ["word word word "] * 3 + ["word word "]
        assert part(page, "Speculative", "acceptance") == "2.75 tokens a step, 58% of the drafts accepted"


def ended(*servers):
    until = time.monotonic() + 30
    while any(server.in_flight for server in servers):
        assert time.monotonic() < until
        time.sleep(0.05)
    return True


def test_stop_ends_both_and_so_does_leaving(browser, service):
    """What has come stays; upstream nothing goes on."""
    with compared(browser, service, baseline=SLOW, speculative=SLOW) as (page, one, two):
        page.get_by_label("Most tokens").fill("1500")
        send(page)
        page.wait_for_function("() => [...document.querySelectorAll('.stream')].every((s) => s.textContent)")
        page.get_by_role("button", name="Stop").click()
        state(page, "Baseline", "stopped")
        state(page, "Speculative", "stopped")
        assert ended(one, two)
        assert part(page, "Baseline", "stream").startswith("word ")
        assert page.get_by_role("button", name="Send to both").is_enabled()
        send(page)
        page.wait_for_function("() => [...document.querySelectorAll('.stream')].every((s) => s.textContent)")
        expect(page.get_by_text("This prompt was sent before")).to_be_visible()
        page.goto("/history", wait_until="commit")
        assert ended(one, two)


def test_one_after_the_other(browser, service):
    """The second waits its turn, and the page says why this is fairer."""
    with compared(browser, service, baseline=SLOW) as (page, _, __):
        page.get_by_label("One after the other").check()
        send(page)
        state(page, "Speculative", "waits its turn")
        page.get_by_text("Both answers are the same text.").wait_for()
        assert "they answer one after the other, so that it does not matter" in page.content()


def test_ones_own_sample_is_gone_through_one_by_one(browser, service, tmp_path):
    """Chosen, dropped or pasted; with its earlier turns and settings; a bad file is one line and changes nothing."""
    chat = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}]}
    good, bad = tmp_path / "mine.jsonl", tmp_path / "bad.parquet"
    good.write_text("\n".join(json.dumps(chat | {"max_tokens": 5, "temperature": 0}) for _ in range(3)))
    bad.write_bytes(b"PAR1 and then nothing")

    def provoked(line):
        return "422" in line

    with compared(browser, service, tolerate=provoked) as (page, one, _):
        page.get_by_role("tab", name="Your sample").click()
        expect(page.get_by_text("No sample yet.")).to_be_visible()
        send(page)
        expect(page.locator("#problem")).to_have_text("There is no prompt; expected some text")
        page.locator("#file").set_input_files(good)
        page.get_by_text("3 prompts from mine.jsonl").wait_for()
        expect(page.get_by_label("Prompt", exact=True)).to_have_value("Name a colour.")
        expect(page.get_by_label("Most tokens")).to_have_value("5")
        page.get_by_text("1 earlier turn sent with it").click()
        expect(page.get_by_role("region", name="Earlier turns")).to_have_text("SystemBe brief.")
        page.get_by_role("button", name="Send the next one").click()
        page.get_by_text("Both answers are the same text.").wait_for()
        expect(page.locator("#position")).to_have_text("2 of 3")
        assert one.bodies[0]["messages"] == chat["messages"]
        assert one.bodies[0]["max_tokens"] == 5
        page.get_by_label("Prompt", exact=True).fill("Name a fruit.")
        page.get_by_role("button", name="Next prompt").click()
        page.get_by_role("button", name="Previous prompt").click()
        expect(page.get_by_label("Prompt", exact=True)).to_have_value("Name a fruit.")
        page.locator("#file").set_input_files(bad)
        page.locator("#own-problem").get_by_text("bad.parquet").wait_for()
        expect(page.locator("#position")).to_have_text("2 of 3")
        page.get_by_text("Paste prompts instead").click()
        page.get_by_label("Prompts, one a line").fill("What is a lamp?\nWhat is a door?\n")
        page.get_by_role("button", name="Use these").click()
        page.get_by_text("2 prompts from what was pasted").wait_for()
        page.evaluate(
            """() => { const carried = new DataTransfer();
                       carried.items.add(new File(["Dropped."], "dropped.txt"));
                       const how = { dataTransfer: carried, bubbles: true, cancelable: true };
                       document.getElementById("drop").dispatchEvent(new DragEvent("drop", how)); }"""
        )
        page.get_by_text("1 prompt from dropped.txt").wait_for()
        expect(page.get_by_label("Prompt", exact=True)).to_have_value("Dropped.")


def test_the_keyboard_is_enough(browser, service):
    """Tabs by arrows, sending by Ctrl+Enter, stopping where the focus then is."""
    with compared(browser, service, baseline=SLOW, speculative=SLOW) as (page, one, two):
        page.get_by_label("Most tokens").fill("1500")
        page.get_by_role("tab", name="Structured").focus()
        shown = page.get_by_label("Prompt", exact=True)
        texts = [shown.input_value()]
        for name in ("Creative", "Long context"):
            page.keyboard.press("ArrowRight")
            expect(page.get_by_role("tab", name=name)).to_be_focused()
            expect(page.get_by_role("tab", selected=True)).to_have_text(name)
            texts.append(shown.input_value())
        assert len(set(texts)) == 3
        assert 2900 < len(texts[2].split()) < 3300
        page.get_by_label("Length of the text").select_option("700")
        assert 650 < len(shown.input_value().split()) < 800
        page.keyboard.press("Home")
        page.get_by_role("tab", name="Long context").press("ArrowLeft")
        shown.focus()
        page.keyboard.press("Control+Enter")
        page.wait_for_function("() => [...document.querySelectorAll('.stream')].every((s) => s.textContent)")
        expect(page.get_by_role("button", name="Stop")).to_be_focused()
        page.keyboard.press("Enter")
        state(page, "Baseline", "stopped")
        assert ended(one, two)
        expect(page.get_by_role("button", name="Send to both")).to_be_focused()


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("Baseline server", "", "The address of the baseline server is missing"),
        ("Temperature", "3", "Temperature: expected a number from 0 to 2"),
        ("Most tokens", "5000", "Most tokens: expected a whole number from 1 to 4,096"),
        ("Most tokens", "", "Most tokens: expected a whole number from 1 to 4,096"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_sent(browser, service, field, value, line):
    """One line, and the field has the focus."""
    with compared(browser, service) as (page, _, __):
        page.get_by_label(field, exact=True).fill(value)
        send(page)
        expect(page.locator("#problem")).to_contain_text(line, ignore_case=True)
        wrong = page.get_by_label(field, exact=True)
        expect(wrong).to_have_attribute("aria-invalid", "true")
        expect(wrong).to_be_focused()
        assert not any(method == "POST" for method, _ in page.watched.requests)


def test_a_service_that_goes_away_in_the_middle_is_said(browser, service):
    """In one line; what has come stays."""
    begun = "".join(
        f"event: {kind}\ndata: {json.dumps({'arm': 'baseline'} | values)}\n\n"
        for kind, values in (("started", {}), ("text", {"text": "so far", "new_tokens": 2, "at_ms": 9.0}))
    )
    with compared(browser, service) as (page, _, __):
        page.route("**/v1/comparisons", lambda route: route.fulfill(content_type="text/event-stream", body=begun))
        send(page)
        page.locator("#problem").get_by_text("The service broke off; is it still running?").wait_for()
        state(page, "Baseline", "stopped")
        assert part(page, "Baseline", "stream") == "so far"
