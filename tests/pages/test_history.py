"""The history page: what was kept is found, opened, compared, labelled and deleted; what can be wrong is told."""

from __future__ import annotations

import contextlib
import re
import subprocess
import uuid
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect
from pydantic import SecretStr

from api.access.keys import new_key
from api.settings import Settings
from tests.advisor.deployments import LLAMA_8B
from tests.pages.conftest import DESKTOP, PHONE, opened, picture, violations
from tests.pages.kept import LLAMA, MARKUP, PATH, QWEN, focused, keep, row, service, shown


@pytest.fixture(scope="module")
def kept(serve, tmp_path_factory):
    """A service that several tests fill, each under a label of its own."""
    with service(serve, f"sqlite:///{tmp_path_factory.mktemp('history') / 'history.sqlite3'}") as client:
        yield client


@pytest.fixture
def label():
    return f"team-{uuid.uuid4().hex[:8]}"


def test_pages_follow_one_another_by_a_button_and_reading_goes_on_at_the_first_new_one(browser, kept, label):
    """20 at first, newest first, then the rest; the button is there as long as there is more."""
    made = [keep(kept, label, concurrency=n)["id"] for n in range(1, 24)][::-1]
    with opened(browser, str(kept.base_url), f"/history?label={label}") as page:
        expect(page.locator("#recommendations-status")).to_have_text("20 recommendations, and there are more")
        page.get_by_role("button", name="More").click()
        expect(shown(page)).to_have_count(23)
        expect(page.locator("#recommendations-status")).to_have_text("23 recommendations")
        assert [each.get_attribute("data-id") for each in shown(page).all()] == made
        assert focused(page) == [made[20], "open"]
        expect(page.get_by_role("button", name="More")).to_be_hidden()


def test_a_list_is_filtered_by_target_verdict_label_and_time_and_its_address_says_so(browser, kept, label):
    """Each alone and together; the address brings the same back; what fits nothing says so."""
    one = keep(kept, label)["id"]
    two = keep(kept, label, target=QWEN, gpu="H100")["id"]
    three = keep(kept, label, concurrency=256, traffic={"concurrency": 256, "input_tokens": 8000, "output_tokens": 64,
                 "temperature": 1.0}, policy={"min_speedup": 3.0})  # fmt: skip
    assert three["verdict"] == "disable"
    with opened(browser, str(kept.base_url), "/history") as page:
        filters = page.get_by_role("search", name="Recommendations")
        filters.get_by_label("Labels").fill(f"{label}, ")
        filters.get_by_role("button", name="Filter").click()
        expect(shown(page)).to_have_count(3)
        filters.get_by_label("Target").fill(QWEN)
        filters.get_by_label("Target").press("Enter")
        expect(shown(page)).to_have_count(1)
        expect(row(page, two)).to_contain_text("H100")
        filters.get_by_label("Target").fill("")
        filters.get_by_label("Verdict").select_option("disable")
        expect(shown(page)).to_have_count(1)
        expect(row(page, three["id"])).to_be_visible()
        assert f"label={label}" in page.url
        assert "verdict=disable" in page.url
        page.reload()
        expect(shown(page)).to_have_count(1)
        expect(filters.get_by_label("Verdict")).to_have_value("disable")
        filters.get_by_label("Verdict").select_option("")
        expect(shown(page)).to_have_count(3)
        today = page.evaluate("new Date().toLocaleDateString('sv')")  # as ISO has it, in the browser's zone
        filters.get_by_label("From").fill(today)
        filters.get_by_label("Until").fill(today)
        expect(shown(page)).to_have_count(3)
        filters.get_by_label("Until").fill("2020-01-01")
        filters.get_by_label("Until").blur()
        assert filters.get_by_label("Until").evaluate("e => e.validationMessage") == "The time ends before it begins"
        filters.get_by_label("From").fill("")
        expect(page.get_by_text("No recommendation fits these filters.")).to_be_visible()
        assert violations(page) == []
        filters.get_by_role("button", name="Clear").click()
        expect(row(page, one)).to_be_visible()
        assert "?" not in page.url


def test_a_label_in_a_row_shows_what_else_has_it(browser, kept, label):
    """One click, and the filter has it."""
    keep(kept, label)
    keep(kept, uuid.uuid4().hex)
    with opened(browser, str(kept.base_url), "/history") as page:
        page.get_by_role("button", name=f"Only with the label {label}").click()
        expect(shown(page)).to_have_count(1)
        expect(page.get_by_role("search", name="Recommendations").get_by_label("Labels")).to_have_value(label)


def test_names_with_markup_are_text_wherever_they_are_shown(browser, kept, label):
    """Target, label and note in the list, the view, the comparison and the questions; nothing of them runs."""
    config = {"name": MARKUP, "config": dict(LLAMA_8B)}
    made = [keep(kept, label, target=config, labels=[label, MARKUP], note=f"{MARKUP}\n<b>{n}</b>", concurrency=n)["id"]
            for n in (4, 5)]  # fmt: skip
    with opened(browser, str(kept.base_url), f"/history?label={label}") as page:
        expect(row(page, made[0])).to_contain_text(MARKUP)
        expect(row(page, made[0]).locator(".note")).to_have_text(f"{MARKUP}\n<b>4</b>")
        expect(row(page, made[0]).get_by_role("button", name=MARKUP, exact=True)).to_be_visible()
        for key in made:
            row(page, key).get_by_role("checkbox").check()
        expect(page.locator("#chosen-list")).to_contain_text(MARKUP)
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text(f"Target{MARKUP}{MARKUP}")
        page.get_by_role("button", name="Close").click()
        row(page, made[0]).locator("[data-control=open]").click()
        sheet = page.get_by_role("dialog")
        expect(sheet.get_by_role("heading", name=MARKUP)).to_be_visible()
        expect(sheet.get_by_label("The vLLM command")).to_contain_text("onerror")
        sheet.get_by_text("The request, as it was asked").click()
        expect(sheet.get_by_label("The request, as it was asked")).to_contain_text("onerror")
        sheet.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("alertdialog")).to_contain_text(MARKUP)
        expect(page.locator("main img")).to_have_count(0)
        assert page.evaluate("window.ran") is None


def test_two_are_compared_by_what_was_asked_and_what_was_answered(browser, kept, label):
    """The earlier one is before, whichever was chosen first; the address brings the comparison back."""
    before = keep(kept, label, concurrency=4)
    after = keep(kept, label, concurrency=64)
    with opened(browser, str(kept.base_url), f"/history?label={label}") as page:
        row(page, after["id"]).get_by_role("checkbox").check()
        compare = page.get_by_role("button", name="Compare", exact=True)
        expect(compare).to_be_disabled()
        expect(page.locator("#chosen-told")).to_have_text("Choose one more to compare")
        row(page, before["id"]).get_by_role("checkbox").check()
        compare.click()
        sheet = page.get_by_role("dialog")
        expect(sheet).to_contain_text("Both are about the same prompts, and were predicted by the same models.")
        asked = sheet.get_by_role("table", name="Asked otherwise").get_by_role("row")
        expect(asked).to_have_count(2)
        expect(asked.nth(1)).to_have_text("traffic.concurrency464 (+1500%)")
        speedup = sheet.get_by_role("row", name=re.compile("Speedup end to end"))
        values = [f"{each['speedup']['end_to_end']['value']:.2f}x" for each in (before, after)]
        expect(speedup.get_by_role("cell")).to_have_text(values)
        expect(speedup).to_contain_text("(differs)")
        expect(sheet.get_by_role("table", name="Answered otherwise")).to_contain_text("workload.concurrency")
        assert violations(page) == []
        address = page.url
        page.keyboard.press("Escape")
        expect(sheet).to_be_hidden()
        assert page.evaluate("document.activeElement.id") == "compare"
        page.goto(address)
        expect(page.get_by_role("dialog").get_by_role("row", name=re.compile("traffic.concurrency"))).to_be_visible()
    with opened(browser, str(kept.base_url), f"/history?compare={before['id']},{'0' * 32}",
                tolerate=lambda line: "404" in line) as page:  # fmt: skip
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("No recommendation has the id 0000")


def test_labels_and_the_note_are_changed_and_what_is_refused_says_why(browser, kept, label):
    """The row shows what the service has; a label that cannot be kept is told in the dialog, and nothing changes."""
    key = keep(kept, label)["id"]
    with opened(browser, str(kept.base_url), f"/history?label={label}", tolerate=lambda line: "422" in line) as page:
        row(page, key).get_by_role("button", name=re.compile("^Label:")).click()
        dialog = page.get_by_role("dialog", name="Labels and note")
        dialog.get_by_label("Labels").fill(f"{label}, {'x' * 65}")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("alert")).to_contain_text("abels[1]: expected")
        assert kept.get(f"{PATH}/{key}").json()["labels"] == [label]
        assert violations(page) == []
        dialog.get_by_label("Labels").fill(f"{label}, production ,")
        dialog.get_by_label("Note").fill("rolled out on Monday")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_be_hidden()
        expect(row(page, key)).to_contain_text("production")
        expect(row(page, key)).to_contain_text("rolled out on Monday")
        assert focused(page) == [key, "name"]
        stored = kept.get(f"{PATH}/{key}").json()
        assert (stored["labels"], stored["note"]) == (sorted([label, "production"]), "rolled out on Monday")


def test_deleting_asks_first_and_the_focus_goes_to_the_neighbour(browser, kept, label):
    """By keys alone: along the rows, Delete, Escape keeps it, a yes deletes it; of the last the list is told empty."""
    made = [keep(kept, label, concurrency=n)["id"] for n in range(1, 4)][::-1]
    with opened(browser, str(kept.base_url), f"/history?label={label}") as page:
        row(page, made[0]).locator("[data-control=open]").focus()
        page.keyboard.press("ArrowDown")
        assert focused(page) == [made[1], "open"]
        page.keyboard.press("End")
        assert focused(page) == [made[2], "open"]
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Delete")
        expect(page.get_by_role("alertdialog")).to_contain_text("deleted for good")
        assert page.evaluate("document.activeElement.textContent") == "Keep it"
        page.keyboard.press("Escape")
        expect(shown(page)).to_have_count(3)
        assert focused(page) == [made[1], "open"]
        page.keyboard.press("Delete")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        expect(shown(page)).to_have_count(2)
        assert focused(page) == [made[2], "delete"]
        assert kept.get(f"{PATH}/{made[1]}").status_code == 404
        for _ in range(2):
            page.keyboard.press("Enter")
            page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
            expect(page.get_by_role("alertdialog")).to_be_hidden()
        expect(page.get_by_text("No recommendation fits these filters.")).to_be_focused()
        assert kept.get(PATH, params={"label": label}).json()["recommendations"] == []


def test_one_is_opened_whole_by_its_row_and_by_its_address(browser, kept, label):
    """The verdict as a sentence, the command, what was asked; closing gives the focus back."""
    made = keep(kept, label, note="for the review")
    with opened(browser, str(kept.base_url), f"/history?label={label}") as page:
        row(page, made["id"]).locator("[data-control=open]").click()
        sheet = page.get_by_role("dialog")
        expect(sheet.get_by_role("heading", name=f"{LLAMA} on H200")).to_be_focused()
        value = made["speedup"]["end_to_end"]["value"]
        expect(sheet).to_contain_text(f"is expected to give {value:.2f}x end to end with 4 requests at once")
        sheet.get_by_role("button", name="Copy the command").click()
        expect(sheet.get_by_text("Copied.")).to_be_visible()
        command = page.evaluate("navigator.clipboard.readText()")
        assert command.startswith(f"vllm serve {LLAMA} \\\n  --")
        assert subprocess.run(["bash", "-nc", command]).returncode == 0
        expect(sheet).to_contain_text("1, not kept")
        expect(sheet).to_contain_text("The explorer asks anew")
        expect(sheet.get_by_text("It does not take")).to_have_count(0)  # defaults are nothing to be left out
        expect(sheet).to_contain_text("for the review")
        assert violations(page) == []
        with page.expect_download() as saved:
            sheet.get_by_role("button", name="JSON").click()
        assert Path(saved.value.path()).read_text() == kept.get(f"{PATH}/{made['id']}").text
        address = page.url
        page.keyboard.press("Escape")
        assert focused(page) == [made["id"], "open"]
        expect(page).not_to_have_url(re.compile("recommendation="))
        page.goto(address)
        expect(page.get_by_role("dialog").get_by_role("heading", name=f"{LLAMA} on H200")).to_be_visible()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("dialog")).to_be_hidden()
        expect(shown(page)).to_have_count(0)


def test_one_is_opened_in_the_explorer_with_what_the_history_has_of_its_prompts(browser, kept, label):
    """Kept prompts or features give the same view; without, all but the prompts is there; what is left out is told."""
    traffic = {"concurrency": 12, "temperature": 0.5, "output_tokens": 300, "cached_prefix_share": 0.5}
    with_prompts = keep(kept, label, store_prompts=True, traffic=traffic)
    without = keep(kept, label, traffic=traffic)
    file = {"content-type": "application/octet-stream"}
    features = kept.post("/v1/workloads?name=p.txt", content=b"Name three rivers.", headers=file).json()
    of_features = keep(kept, label, traffic=traffic, prompts=[], workload=features)
    for made, verdict in ((with_prompts, True), (of_features, True), (without, False)):
        with opened(browser, str(kept.base_url), f"/history?recommendation={made['id']}") as page:
            sheet = page.get_by_role("dialog")
            expect(sheet).to_contain_text("It does not take traffic.cached_prefix_share.")
            expect(sheet.get_by_text("Choose the prompts there")).to_have_count(0 if verdict else 1)
            sheet.get_by_role("link", name="Open in the explorer").click()
            page.wait_for_url(re.compile("/#"))
            expect(page.locator("#target")).to_have_value(LLAMA)
            assert "concurrency=12" in page.url
            if verdict:
                expect(page.get_by_role("main")).to_contain_text("EAGLE-3")


def test_the_report_opens_in_a_page_of_its_own_or_is_saved(browser, kept, label):
    """Without keys by a link, which a browser can print; as Markdown by a file."""
    made = keep(kept, label)
    with opened(browser, str(kept.base_url), f"/history?recommendation={made['id']}") as page:
        sheet = page.get_by_role("dialog")
        with page.context.expect_page() as other:
            sheet.get_by_role("link", name="Report").click()
        expect(other.value.get_by_role("heading").first).to_be_visible()
        assert other.value.url.endswith(f"{made['id']}/report.html")
        with page.expect_download() as saved:
            sheet.get_by_role("button", name="Report (Markdown)").click()
        assert Path(saved.value.path()).read_text().startswith("# ")


# What can be wrong


def test_a_service_that_keeps_nothing_says_so_and_shows_no_lists(browser, serve):
    """SPECWORTH_STORE=false."""
    with (
        serve(Settings(store=False)) as url,
        opened(browser, url, "/history", tolerate=lambda line: "404" in line) as page,
    ):
        expect(page.get_by_role("heading", name="This service keeps nothing")).to_be_visible()
        expect(page.get_by_role("tablist")).to_be_hidden()
        assert violations(page) == []


def test_an_empty_history_says_how_to_fill_it(browser, serve, tmp_path):
    """And the page has no error."""
    with service(serve, f"sqlite:///{tmp_path / 'e.sqlite3'}") as client, \
            opened(browser, str(client.base_url), "/history") as page:  # fmt: skip
        expect(page.get_by_text("Nothing was asked yet.")).to_be_visible()
        expect(page.get_by_role("link", name="Ask for your own prompts")).to_be_visible()
        assert violations(page) == []


def test_keys_are_asked_for_and_what_one_may_not_do_is_told_where_it_was_asked(browser, serve, tmp_path, label):
    """No key: the dialog, then the list. A key that may read but not delete: why, in the question; nothing is lost."""
    reader, reader_hash = new_key("reader")
    asker, asker_hash = new_key("asker")
    keys = [{"name": "reader", "scopes": ["read"], "hash": reader_hash},
            {"name": "asker", "scopes": ["advise"], "hash": asker_hash}]  # fmt: skip
    with service(serve, f"sqlite:///{tmp_path / 'k.sqlite3'}", api_keys=SecretStr(yaml.safe_dump(keys))) as client:
        made = keep(client, label, headers={"Authorization": f"Bearer {asker}"})["id"]
        url, refused = str(client.base_url), re.compile("40[13]")
        with opened(browser, url, "/history", tolerate=lambda line: bool(refused.search(line))) as page:
            page.get_by_label("Key of this service").fill(asker)
            page.get_by_role("button", name="Use it").click()
            problem = page.locator("#recommendations-problem")
            expect(problem).to_contain_text("The key asker may not do this; expected the scope read; got advise")
            page.get_by_role("button", name="API key").click()
            page.get_by_label("Key of this service").fill(reader)
            page.get_by_role("button", name="Use it").click()
            expect(row(page, made)).to_contain_text("by asker")
            expect(problem).to_be_hidden()
            row(page, made).get_by_role("button", name=re.compile("^Delete")).click()
            question = page.get_by_role("alertdialog")
            question.get_by_role("button", name="Delete").click()
            expect(question.get_by_role("alert")).to_contain_text("expected the scope admin; got read")
            assert violations(page) == []
            question.get_by_role("button", name="Keep it").click()
            expect(row(page, made)).to_be_visible()


def test_a_service_that_is_gone_is_told_and_can_be_tried_again(browser, serve, tmp_path):
    """What was there is not shown as if it still were."""
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(service(serve, f"sqlite:///{tmp_path / 'g.sqlite3'}"))
        keep(client, "x")
        with opened(browser, str(client.base_url), "/history", tolerate=lambda line: "ERR_" in line) as page:
            expect(shown(page)).to_have_count(1)
            stack.close()
            page.get_by_role("tabpanel").get_by_role("button", name="Refresh").click()
            problem = page.locator("#recommendations-problem")
            expect(problem).to_contain_text("The service could not be reached; is it still running?")
            expect(shown(page)).to_have_count(0)
            assert violations(page) == []
            problem.get_by_role("button", name="Try again").click()
            expect(problem).to_contain_text("could not be reached")


def test_it_can_be_read_in_light_and_dark_on_a_desk_and_on_a_phone(browser, kept, label):
    """axe-core finds nothing (contrast AA among it), nothing is wider than the screen; pictures for a person."""
    keep(kept, label, labels=[label, "production"], note="rolled out on Monday")
    keep(kept, label, target=QWEN, gpu="L40S", concurrency=128)
    with opened(browser, str(kept.base_url), f"/history?label={label}") as page:

        def check(name):
            for size, where in ((DESKTOP, ""), (PHONE, "-phone")):
                page.set_viewport_size({"width": size[0], "height": size[1]})
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)
                    picture(page, f"history{name}-{scheme}{where}")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert violations(page) == []  # dark, on a phone; light on a desk is what the other tests look at

        expect(shown(page)).to_have_count(2)
        for box in page.get_by_role("checkbox").all():
            box.check()
        check("")
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.get_by_role("dialog").get_by_role("table", name="Asked otherwise")).to_be_visible()
        check("-comparison")
        page.keyboard.press("Escape")
        shown(page).first.locator("[data-control=open]").click()
        expect(page.get_by_role("dialog").get_by_label("The vLLM command")).to_be_visible()
        check("-view")


def test_tabs_are_reached_by_arrows(browser, kept):
    """One stop of the Tab key for all of them; the address says which is shown."""
    with opened(browser, str(kept.base_url), "/history") as page:
        page.get_by_role("tab", name="Recommendations").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tabpanel", name="Profiles")).to_be_visible()
        page.keyboard.press("End")
        expect(page.get_by_role("tabpanel", name="Jobs")).to_be_visible()
        assert "view=jobs" in page.url
        assert [tab.get_attribute("tabindex") for tab in page.get_by_role("tab").all()] == ["-1", "-1", "0"]
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Recommendations")).to_be_focused()
