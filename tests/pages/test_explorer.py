"""The explorer as a person uses it: a verdict in three actions, live sliders, links, errors, and nothing that leaks."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from api.settings import Settings
from tests.advisor.deployments import LLAMA_8B
from tests.pages.conftest import DESKTOP, PHONE, opened, picture, violations

EXAMPLE = Path(__file__).parents[2] / "data" / "example_prompts.jsonl"
TARGET, GPU = "meta-llama/Llama-3.1-8B-Instruct", "H200"


@pytest.fixture(scope="module")
def own(serve, tmp_path_factory):
    """A service whose history nobody else fills."""
    url = f"sqlite:///{tmp_path_factory.mktemp('explorer') / 'h.sqlite3'}"
    with serve(Settings(database_url=url)) as address:
        yield address


def give(page: Page, content: bytes | None = None, name: str = "prompts.jsonl") -> None:
    """Choose a file of prompts."""
    file = {"name": name, "mimeType": "", "buffer": EXAMPLE.read_bytes() if content is None else content}
    page.locator("#file").set_input_files(file)


def name(page: Page, label: str, value: str) -> None:
    """Type into a field and leave it."""
    field = page.get_by_label(label, exact=True)
    field.fill(value)
    field.blur()


def asked(page: Page) -> None:
    """Prompts, target, GPU: three actions, and the answer is there."""
    give(page)
    name(page, "Target model", TARGET)
    name(page, "GPU", GPU)
    settled(page)


def settled(page: Page) -> None:
    """Until an answer is shown, all of it is drawn, and no other is under way."""
    expect(page.locator("#results")).to_be_visible()
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    expect(page.locator("figure[aria-busy=true]")).to_have_count(0)


def paths(page: Page, method: str = "POST") -> list[str]:
    return [path for sent, path in page.watched.requests if sent == method]


def test_three_actions_give_a_verdict_that_anybody_can_read(browser, own):
    """Choose a file, name the model, name the GPU. In light and dark, on a desk and on a phone nothing is wider than
    the window and axe-core finds nothing; each is kept as a picture."""
    with opened(browser, own) as page:
        assert violations(page) == []
        picture(page, "explorer-empty")
        asked(page)
        expect(page.locator("#verdict")).to_contain_text(re.compile(r"speculative decoding: .* \d\.\d\dx end to end"))
        expect(page.locator("#prompts-read")).to_contain_text("40 prompts of prompts.jsonl")
        for figure in ("curve", "map", "positions", "classes", "memory-plan", "reasons"):
            expect(page.locator(f"#{figure}")).to_be_visible()
        expect(page.locator("#alternatives tbody tr").nth(3)).to_be_visible()
        expect(page.locator("#command")).to_contain_text(f"vllm serve {TARGET}")
        for size, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            picture(page, f"explorer-{'desktop' if size == DESKTOP else 'phone'}-{scheme}")
            if (size, scheme) in ((DESKTOP, "light"), (PHONE, "dark")):
                page.get_by_text("As a table").evaluate_all("all => all.forEach(one => one.click())")
                assert violations(page) == []


def test_what_is_shown_is_what_the_service_answered(browser, own):
    """Figures, curve and map have the numbers of the last answer."""
    with opened(browser, own) as page:
        with page.expect_response("**/v1/explorations") as answered:
            asked(page)
        told = answered.value.json()
        answer = told["recommendation"]
        expect(page.locator("#verdict")).to_have_text(told["headline"])
        expect(page.locator("#figures dd").first).to_contain_text(f"{answer['speedup']['end_to_end']['value']:.2f}x")
        page.locator("#curve").get_by_text("As a table").click()
        expect(page.locator("#curve tbody tr")).to_have_count(len(answer["curve"]))
        cells = sum(value is not None for row in told["map"]["speedup"] for value in row)
        expect(page.locator("#map rect.cell")).to_have_count(cells)
        expect(page.locator("#positions .entry")).to_have_count(answer["candidate"]["num_speculative_tokens"])
        expect(page.locator("#reasons .entry")).to_have_count(len(answer["reasons"]))


def test_a_gpu_of_ones_own_is_given_by_its_figures(browser, own):
    """As on the command line; figures that are none are refused beside the field."""
    figures = {"name": "lab card", "memory_gib": 80, "bandwidth_gb_per_s": 1500, "bf16_tflops": 300}
    with opened(browser, own, tolerate=lambda line: "422" in line) as page:
        give(page)
        name(page, "Target model", TARGET)
        name(page, "GPU", json.dumps(figures))
        settled(page)
        expect(page.locator("#rests")).to_contain_text(f"{TARGET} on lab card, 16 requests at once")
        expect(page.locator("#verdict")).to_contain_text("end to end")
        for wrong, line in (('{"name": "x"', "Unknown GPU"), ('{"name": "x", "memory_gib": -3}', "memory_gib")):
            name(page, "GPU", wrong)
            expect(page.get_by_label("GPU", exact=True)).to_have_attribute("aria-invalid", "true")
            expect(page.locator("#target-problem")).to_contain_text(line)


def test_a_load_that_nobody_said_is_asked_for_beside_the_verdict(browser, own):
    """What keeps an answer from being decisive is one action away; once said, nothing asks any more."""
    with opened(browser, own) as page:
        asked(page)
        expect(page.locator("#load-assumed")).to_contain_text("without it nothing is decisive")
        page.get_by_role("button", name="Say how many").click()
        slider = page.get_by_role("slider", name="Requests at once")
        expect(slider).to_be_focused()
        slider.press("ArrowLeft")
        settled(page)
        expect(page.locator("#load-assumed")).to_be_hidden()
        page.get_by_role("button", name="Reset Requests at once").click()
        expect(page.locator("#load-assumed")).to_be_visible()


def test_prompts_are_sent_once_and_sliders_ask_with_features_and_keep_nothing(browser, own):
    """One reading of the file; each move is answered, the history stays as it was, and no move carries a text."""
    bodies: list[str] = []
    with opened(browser, own) as page:
        page.on("request", lambda request: bodies.append(request.post_data or "")
                if request.url.endswith("explorations") else None)  # fmt: skip
        asked(page)
        before = page.locator("#figures").inner_text()
        slider = page.get_by_role("slider", name="Requests at once")
        slider.focus()
        for _ in range(8):
            slider.press("ArrowRight")
        expect(page.locator("#figures")).not_to_have_text(before, use_inner_text=True)
        settled(page)
        assert json.loads(bodies[-1])["traffic"] == {"concurrency": 96}
        expect(page.locator("#verdict")).to_contain_text("at 96 concurrent requests")
        expect(slider).to_have_attribute("aria-valuetext", "96 requests")
        assert paths(page).count("/v1/workloads") == 1
        assert set(paths(page)) == {"/v1/workloads", "/v1/explorations"}
        assert len(bodies) <= 1 + 8
        assert not [body for body in bodies if "Invoice" in body or '"prompts":[' in body]
        listed = page.evaluate("async () => (await (await fetch('/v1/recommendations')).json()).recommendations.length")
        assert listed == 0


def test_every_slider_reaches_the_request_and_can_be_taken_back(browser, own):
    """Each sets its field; Reset leaves it out again, so that the prompts tell it."""
    fields = {
        "Requests at once": ("traffic", "concurrency"), "Prompt tokens": ("traffic", "input_tokens"),
        "Output tokens": ("traffic", "output_tokens"), "Temperature": ("traffic", "temperature"),
    }  # fmt: skip
    with opened(browser, own) as page:
        asked(page)
        for label, (part, field) in fields.items():
            with page.expect_request("**/v1/explorations") as moved:
                page.get_by_role("slider", name=label).press("ArrowRight")
            settled(page)
            assert list(moved.value.post_data_json[part]) == [field]
            with page.expect_request("**/v1/explorations") as back:
                page.get_by_role("button", name=f"Reset {label}").click()
            settled(page)
            assert back.value.post_data_json[part] == {}
        with page.expect_request("**/v1/explorations") as moved:
            page.get_by_role("slider", name="Draft tokens (k)").press("End")
        settled(page)
        assert moved.value.post_data_json["deployment"]["speculation"] == {"num_speculative_tokens": 8}
        assert page.locator("#alternatives td:nth-child(2)").all_inner_texts()[:3] == ["8", "8", "8"]


def test_a_fast_hand_does_not_pile_up_requests(browser, own):
    """While a slow answer is under way the moves in between are never asked; the last one is, and it is shown."""
    with opened(browser, own) as page:
        asked(page)
        asked_for: list[int] = []

        def slowly(route):
            asked_for.append(route.request.post_data_json["traffic"]["concurrency"])
            page.wait_for_timeout(150)
            route.continue_()

        page.route("**/v1/explorations", slowly)
        slider = page.get_by_role("slider", name="Requests at once")
        slider.evaluate(
            """async (range) => {
              for (let i = 0; i < 20; i += 1) {
                range.value = i;
                range.dispatchEvent(new Event("input"));
                await new Promise((done) => setTimeout(done, 10));
              }
            }"""
        )
        expect(page.locator("#verdict")).to_contain_text("at 160 concurrent requests")
        assert len(asked_for) <= 8
        assert asked_for == sorted(asked_for)


def test_a_link_reproduces_the_view_without_reading_a_file(browser, own):
    """All that was set comes back in another browser from the address alone; no file is sent, and no text is in it."""
    with opened(browser, own) as page:
        asked(page)
        page.get_by_role("slider", name="Requests at once").press("End")
        page.get_by_role("slider", name="Temperature").press("End")
        page.get_by_text("More settings").click()
        page.get_by_label("Faster by").select_option("tpot")
        page.get_by_label("Worth it from").fill("1.2")
        settled(page)
        before = page.locator("#results").inner_text()
        page.get_by_role("button", name="Copy a link to this view").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        link = page.evaluate("navigator.clipboard.readText()")
    parts = urlsplit(link)
    assert parts.query == ""
    words = parse_qs(parts.fragment)
    assert words["target"] == [TARGET]
    assert words["concurrency"] == ["512"]
    assert len(link) < 4000
    with opened(browser, own, f"/#{parts.fragment}") as page:
        settled(page)
        assert page.locator("#results").inner_text() == before
        expect(page.get_by_label("Target model")).to_have_value(TARGET)
        expect(page.get_by_label("Worth it from")).to_have_value("1.2")
        assert paths(page) == ["/v1/explorations"]


def test_the_address_follows_what_is_asked_and_a_new_one_is_followed(browser, own):
    """Reloading gives the same view; pasting another link into the same tab changes it; the way back stays one step."""
    with opened(browser, own) as page:
        steps = page.evaluate("history.length")
        asked(page)
        page.get_by_role("slider", name="Requests at once").press("Home")
        expect(page).to_have_url(re.compile("concurrency=1(&|$)"))
        assert page.evaluate("history.length") == steps
        page.reload()
        settled(page)
        expect(page.locator("#verdict")).to_contain_text("at 1 concurrent request ")
        page.evaluate("location.hash = location.hash.replace('concurrency=1', 'concurrency=4')")
        expect(page.locator("#verdict")).to_contain_text("at 4 concurrent requests")


@pytest.mark.parametrize("fragment", ["features=AAAA", "features=%F0", "concurrency=many", "config=x*y"])
def test_a_link_that_was_cut_is_told_in_one_line(browser, own, fragment):
    """Whatever stands there."""
    with opened(browser, own, f"/#target=x&{fragment}") as page:
        expect(page.locator("#answer-problem")).to_contain_text("This link cannot be read")
        assert paths(page) == []


@pytest.mark.parametrize(
    ("content", "file", "said"),
    [
        (b"", "nothing.jsonl", "nothing.jsonl is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "picture.png", "picture.png is a PNG picture"),
        (b'{"colour": "red"}\n', "colours.jsonl", "expected"),
        (b"not gzip", "log.jsonl.gz", "cannot be unpacked"),
        (b"(\xb5/\xfd" + bytes(20), "log.zst", "unpack it first"),
    ],
    ids=["empty", "picture", "no prompts", "no gzip", "zstd"],
)
def test_a_bad_file_is_one_clear_line_and_the_page_stays_usable(browser, own, content, file, said):
    """What was expected stands beside the prompts; a good file afterwards takes it away."""
    with opened(browser, own, tolerate=lambda line: "422" in line) as page:
        give(page, content, file)
        problem = page.locator("#prompts-problem")
        expect(problem).to_contain_text(said)
        assert "\n" not in problem.inner_text()
        give(page)
        expect(problem).to_be_hidden()
        expect(page.locator("#prompts-read")).to_contain_text("40 prompts")


def test_gzip_paste_and_features_are_taken_too(browser, own):
    """A packed log is unpacked by the browser; pasted lines are read; features of the command line send no prompt."""
    with opened(browser, own) as page:
        give(page, gzip.compress(EXAMPLE.read_bytes()), "log.jsonl.gz")
        expect(page.locator("#prompts-read")).to_contain_text("40 prompts of log.jsonl.gz")
        page.get_by_text("Paste them").click()
        page.get_by_label("Prompts, one a line or as JSON").fill('"Write a poem"\n"Write a story"\n')
        page.get_by_role("button", name="Use these").click()
        expect(page.locator("#prompts-read")).to_contain_text("2 prompts of what was pasted")
        page.get_by_label("Prompts, one a line or as JSON").fill("  ")
        page.get_by_role("button", name="Use these").click()
        expect(page.locator("#prompts-problem")).to_contain_text("Nothing is pasted; expected at least one prompt")
        with page.expect_response("**/v1/workloads*") as told:
            give(page)
        before = paths(page).count("/v1/workloads")
        give(page, json.dumps(told.value.json()).encode(), "features.json")
        expect(page.locator("#prompts-read")).to_contain_text("40 prompts of features.json")
        assert paths(page).count("/v1/workloads") == before
        name(page, "Target model", TARGET)
        name(page, "GPU", GPU)
        settled(page)


def test_a_file_can_be_dropped(browser, own):
    """Onto its place; beside it nothing happens, and the page is not replaced."""
    drop = """([selector, content]) => {
      const data = new DataTransfer();
      data.items.add(new File([content], "dropped.jsonl"));
      document.querySelector(selector).dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true,
        cancelable: true }));
    }"""
    with opened(browser, own) as page:
        content = EXAMPLE.read_text(encoding="utf-8")
        page.evaluate(drop, ["h1", content])
        expect(page.locator("#prompts-read")).to_be_hidden()
        page.evaluate(drop, ["#drop", content])
        expect(page.locator("#prompts-read")).to_contain_text("40 prompts of dropped.jsonl")


def test_an_unknown_model_is_told_with_the_nearest_beside_its_field(browser, own):
    """The field is marked as invalid; the right name takes it away."""
    with opened(browser, own, tolerate=lambda line: "422" in line) as page:
        give(page)
        name(page, "GPU", GPU)
        name(page, "Target model", "meta-llama/Llama-3.1-8B-Instrukt")
        expect(page.locator("#target-problem")).to_contain_text(TARGET)
        expect(page.get_by_label("Target model")).to_have_attribute("aria-invalid", "true")
        name(page, "Target model", TARGET)
        settled(page)
        expect(page.locator("#target-problem")).to_be_hidden()
        assert page.get_by_label("Target model").get_attribute("aria-invalid") is None


def test_what_was_answered_before_a_refusal_is_paled(browser, own):
    """The message stands right under the field that it is about; the last answer is of something else, and looks it."""
    with opened(browser, own, tolerate=lambda line: "422" in line) as page:
        asked(page)
        expect(page.locator("#results")).not_to_have_class("stale")
        name(page, "GPU", "H999")
        expect(page.locator("label:has(#gpu) + #target-problem")).to_contain_text("H999")
        expect(page.locator("#results")).to_have_class("stale")
        name(page, "GPU", GPU)
        expect(page.locator("#target-problem")).to_be_hidden()
        expect(page.locator("#results")).not_to_have_class("stale")


def test_a_config_json_stands_for_a_model_that_is_not_listed(browser, own):
    """Pasted as it is; what is no JSON is one line, and a config that cannot be served is told by the service."""
    with opened(browser, own, tolerate=lambda line: "422" in line) as page:
        give(page)
        name(page, "GPU", GPU)
        page.get_by_text("Not in the list? Paste its config.json").click()
        config = page.get_by_label("config.json of the target")
        for text, said in (("{", "This is no JSON; expected a config.json"), ("[1]", "This is no JSON object")):
            config.fill(text)
            page.get_by_role("button", name="Use this config").click()
            expect(page.locator("#config-problem")).to_contain_text(said)
        config.fill('{"model_type": "llama"}')
        page.get_by_role("button", name="Use this config").click()
        expect(page.locator("#target-problem")).to_contain_text("config")
        config.fill(json.dumps(LLAMA_8B | {"_name_or_path": "ours-8b"}))
        page.get_by_role("button", name="Use this config").click()
        settled(page)
        expect(page.locator("#command")).to_contain_text("vllm serve ours-8b")
        page.get_by_role("button", name="Forget it").click()
        expect(page.get_by_label("Target model")).to_have_value("")


@pytest.mark.parametrize("how", ["fails", "is gone"])
def test_a_service_that_fails_leaves_the_last_answer_and_says_so(browser, own, how):
    """One line above what was answered last; the next move tries again."""

    def provoked(line: str) -> bool:
        return "500" in line or "ERR_" in line

    def fail(route):
        if how == "fails":
            problem = {"title": "The service failed", "status": 500, "detail": "an unexpected failure; number 4711",
                       "errors": [], "type": "urn:x"}  # fmt: skip
            route.fulfill(status=500, content_type="application/problem+json", body=json.dumps(problem))
        else:
            route.abort()

    said = "An unexpected failure; number 4711" if how == "fails" else "The service could not be reached"
    with opened(browser, own, tolerate=provoked) as page:
        asked(page)
        before = page.locator("#verdict").inner_text()
        page.route("**/v1/explorations", fail)
        page.get_by_role("slider", name="Requests at once").press("End")
        expect(page.locator("#answer-problem")).to_contain_text(said)
        expect(page.locator("#verdict")).to_have_text(before)
        page.unroute("**/v1/explorations")
        page.get_by_role("slider", name="Requests at once").press("Home")
        expect(page.locator("#answer-problem")).to_be_hidden()
        expect(page.locator("#verdict")).not_to_have_text(before)


def test_a_cell_of_the_map_moves_the_traffic_there(browser, own):
    """Its concurrency and prompt length, on the sliders and in the answer."""
    with opened(browser, own) as page:
        asked(page)
        cell = page.locator("#map rect.cell[data-cell='4,6']")
        cell.hover()
        expect(page.locator("#map .tip")).to_contain_text("12 at once, 1,024 tokens")
        cell.click()
        expect(page.locator("#verdict")).to_contain_text("at 12 concurrent requests")
        settled(page)
        expect(page.get_by_role("slider", name="Prompt tokens")).to_have_attribute("aria-valuetext", "1,024 tokens")


def test_the_command_is_copied_and_an_answer_is_kept_when_asked(browser, own):
    """The command as it stands; the history then has one more, under the id that the page tells, and no prompts."""
    with opened(browser, own) as page:
        asked(page)
        page.get_by_role("button", name="Copy", exact=True).click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == page.locator("#command").inner_text()
        listed = "async () => (await (await fetch('/v1/recommendations')).json()).recommendations.map((one) => one.id)"
        before = page.evaluate(listed)
        page.get_by_role("button", name="Keep it in the history").click()
        expect(page.locator("#kept")).to_contain_text("Kept as")
        (kept,) = set(page.evaluate(listed)) - set(before)
        assert kept[:12] in page.locator("#kept").inner_text()


def test_a_service_that_keeps_nothing_offers_no_keeping(browser, serve):
    """The button is not there."""
    with serve(Settings(store=False)) as url, opened(browser, url) as page:
        asked(page)
        expect(page.get_by_role("button", name="Keep it in the history")).to_have_count(0)


def test_everything_is_reached_by_the_keyboard_alone(browser, own):
    """From the top: skip link, then each control in the order of the page; the sliders move by arrows."""
    with opened(browser, own) as page:
        asked(page)
        expect(page).to_have_url(re.compile("target="))
        page.reload()
        settled(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        seen = []
        while "copy-link" not in seen and len(seen) < 60:
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        order = ["file", "use-example", "target", "gpu", "draft", "slider-concurrency", "slider-k", "copy-link"]
        assert [one for one in seen if one in order] == order


def test_print_shows_the_answer_alone(browser, own):
    """Neither controls nor navigation; the sentence, the charts and the command are there."""
    with opened(browser, own, scheme="dark") as page:
        asked(page)
        page.emulate_media(media="print", color_scheme="light")
        for hidden in (".asked", ".traffic", ".bar nav", "#copy-command"):
            expect(page.locator(hidden)).to_be_hidden()
        for shown in ("#verdict", "#curve svg", "#map svg", "#command"):
            expect(page.locator(shown)).to_be_visible()
        drawn = """svg => { svg.setAttribute("width", 5000); return svg.getBoundingClientRect().width; }"""
        for chart in ("#curve svg", "#map svg"):  # paper is narrower than the screen that they were drawn for
            assert page.locator(chart).evaluate(drawn) < 5000
        picture(page, "explorer-print")
        assert len(page.pdf()) > 20_000
