"""A report in a real browser without a network: it opens, fits a phone, and prints whole; in grey as in colour."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page
from pypdf import PdfReader

from api.report.review.html import html
from tests.api.reports.conftest import Reviewed, advice, hostile, measurement, profile
from tests.pages.conftest import DESKTOP, PHONE, PICTURES, violations

__all__ = ["advice", "hostile", "measurement", "profile"]


@pytest.fixture(scope="module")
def reports(advice, hostile, measurement, tmp_path_factory) -> dict[str, Path]:
    """The files: of an answer, of one with names that would like to run, of a measurement."""
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, review in (("advice", advice.review), ("hostile", hostile.review), ("measurement", measurement)):
        found[name] = folder / f"{name}.html"
        found[name].write_text(html(review), encoding="utf-8")
    return found


class Opened:
    """A page from a file, with everything that it asked for or complained of."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.heard, self.requests = page, [], []
        page.on("console", lambda message: self.heard.append(message.text))
        page.on("pageerror", lambda error: self.heard.append(str(error)))
        page.on("dialog", lambda dialog: (self.heard.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())


@pytest.fixture(scope="module")
def open_report(browser: Browser, reports: dict[str, Path]) -> Iterator[Callable[..., Opened]]:
    """Opens a report offline, in a context of its own; once for each size."""
    contexts: list[BrowserContext] = []

    @cache
    def opened(name: str, size: tuple[int, int] = DESKTOP) -> Opened:
        contexts.append(browser.new_context(offline=True, viewport={"width": size[0], "height": size[1]}))
        return Opened(contexts[-1].new_page(), reports[name])

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def printed(open_report) -> Callable[[str], PdfReader]:
    """A report as the browser's print dialogue does it by default: without backgrounds, on the paper it asks for."""

    @cache
    def pdf(name: str) -> PdfReader:
        content = open_report(name).page.pdf(prefer_css_page_size=True, print_background=False)
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"report-{name}.pdf").write_bytes(content)
        return PdfReader(io.BytesIO(content))

    return pdf


names = pytest.mark.parametrize("name", ["advice", "hostile", "measurement"])


@names
def test_it_opens_without_a_network_and_without_a_word(reports, open_report, name):
    """Nothing is asked for but the file, nothing is refused by its policy, nothing runs."""
    opened = open_report(name)
    assert opened.page.locator("h1").is_visible()
    assert opened.heard == []
    assert opened.requests == [reports[name].as_uri()]
    assert opened.page.locator("svg.chart").count() >= 3


@names
def test_axe_finds_nothing(reports, browser, name):
    """WCAG 2.2 A and AA, and good practice. The policy of a report lets no script in, so axe comes around it."""
    context = browser.new_context(offline=True, bypass_csp=True)
    try:
        page = context.new_page()
        page.goto(reports[name].as_uri())
        assert violations(page) == []
    finally:
        context.close()


@names
def test_a_phone_scrolls_tables_and_charts_but_not_the_page(open_report, name):
    """What is wider than the screen scrolls in its own frame, by keyboard too."""
    page = open_report(name, PHONE).page
    width = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] <= width[1]
    assert page.locator("svg.chart").first.bounding_box()["width"] > 400
    assert all(frame.get_attribute("tabindex") == "0" for frame in page.locator(".wide").all())


@names
def test_every_word_of_a_chart_lies_inside_it(open_report, name):
    """Fonts differ from host to host: no label may be cut, whichever the browser takes."""
    outside = open_report(name).page.evaluate(
        """() => [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text")].filter((text) => {
                const box = text.getBoundingClientRect();
                return box.left < frame.left - 2 || box.right > frame.right + 2
                    || box.top < frame.top - 2 || box.bottom > frame.bottom + 2;
            }).map((text) => text.textContent);
        })"""
    )
    assert outside == []


@names
def test_it_prints_without_loss(open_report, printed, name):
    """All text of the page is in the PDF, charts' words too, as text; on A4, numbered, in a few pages."""
    pdf = printed(name)
    sheets = [_words(sheet.extract_text()) for sheet in pdf.pages]
    text = "".join(sheet.replace(f"{number}/{len(sheets)}", "", 1) for number, sheet in enumerate(sheets, start=1))
    told = open_report(name).page.locator(
        "h1, h2, p, li:not(nav li), dt, dd, caption, th, td, figcaption, code, svg text"
    )
    assert [said for said in told.all_text_contents() if _words(said) not in text] == []
    assert 5 <= len(pdf.pages) <= 12
    width, height = (float(side) / 72 * 25.4 for side in pdf.pages[0].mediabox[2:])
    assert (round(width), round(height)) == (210, 297)
    assert all(
        f"{number}/{len(pdf.pages)}" in _words(sheet.extract_text()) for number, sheet in enumerate(pdf.pages, 1)
    )


def test_charts_are_printed_as_lines_not_as_pixels(printed):
    """So that they stay sharp at any size."""
    assert all(not sheet.images for sheet in printed("advice").pages)


def test_no_table_that_fits_a_page_is_cut(printed, advice: Reviewed):
    """The speedups by concurrency, the longest table, stand on one page from the first row to the last."""
    pages = [_words(sheet.extract_text()) for sheet in printed("advice").pages]
    curve = advice.answer.curve
    rows = [
        _words(f"{p.concurrency:,} {p.end_to_end.value:.2f}x {p.end_to_end.low:.2f} to {p.end_to_end.high:.2f}")
        for p in curve
    ]
    assert any(all(row in page for row in rows) for page in pages)


@names
def test_pictures_for_a_person_to_look_at(open_report, name):
    """In colour, in grey, and on a phone. In grey the ink is dark on paper, whatever it was."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page = open_report(name).page
    picture = PICTURES / f"report-{name}.png"
    page.screenshot(path=picture, full_page=True)
    open_report(name, PHONE).page.screenshot(path=PICTURES / f"report-{name}-phone.png", full_page=True)
    grey = Image.open(picture).convert("L")
    grey.save(PICTURES / f"report-{name}-grey.png")
    tones = grey.histogram()
    assert sum(tones[200:]) > 0.8 * sum(tones)
    assert sum(tones[:90]) > 0.01 * sum(tones)


def _words(text: str) -> str:
    """Text without what a PDF cannot be trusted with: spaces, line breaks, hyphens at their ends."""
    return re.sub(r"\s+", "", text)
