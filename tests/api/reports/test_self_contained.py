"""One file that needs nothing else: no script, nothing loaded, nothing that names from outside could bring in."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from api.report.review.html import CONTENT_SECURITY_POLICY, html
from api.report.review.markdown import markdown
from api.report.review.measured import review_profile
from tests.api.reports.conftest import COUNTS, EVIL, WAVE, Parsed, profile_of, provenance, sample_of

_LOADING = {"script", "img", "iframe", "object", "embed", "link", "video", "audio", "source", "form", "base", "image"}
_ADDRESSED = ("src", "srcset", "data", "action", "formaction", "poster", "background", "ping")


@pytest.fixture(scope="module")
def pages(advice, hostile, measurement) -> dict[str, str]:
    """The HTML of an answer, of one with hostile names, of a measurement, and of a hostile measurement."""
    evil = profile_of(
        target=EVIL, structure={EVIL: COUNTS, "x" * 3000: COUNTS}, notes=[EVIL], created=EVIL,
        waves=[WAVE | {"structure": EVIL}], refused=[{"what": EVIL, "why": EVIL, "count": 1}],
        decision={"verdict": "enable", "decisive": True, "text": EVIL},
    )  # fmt: skip
    reviews = {
        "advice": advice.review, "hostile": hostile.review, "measurement": measurement,
        "hostile measurement": review_profile(evil, provenance(sample_of("x", source=EVIL))),
    }  # fmt: skip
    return {name: html(review) for name, review in reviews.items()}


names = pytest.mark.parametrize("name", ["advice", "hostile", "measurement", "hostile measurement"])


@names
def test_nothing_is_loaded_and_nothing_runs(pages, name):
    """No element that loads or runs, no address but those within the page, no handler, none in the style."""
    parsed = Parsed(pages[name])
    assert not _LOADING & {tag for tag, _ in parsed.tags}
    for _, attributes in parsed.tags:
        assert not any(attribute.startswith("on") or attribute in _ADDRESSED for attribute in attributes)
        for attribute in ("href", "xlink:href"):
            assert (attributes.get(attribute) or "#").startswith("#")
        assert all(
            url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", " ".join(filter(None, attributes.values())))
        )
    style = pages[name].split("<style>")[1].split("</style>")[0]
    assert not re.search(r"url\(|@import|@font-face|expression", style)
    assert "http" not in style
    assert [tag.get("content") for tag in parsed.of("meta") if tag.get("http-equiv") == "Content-Security-Policy"] == [
        CONTENT_SECURITY_POLICY
    ]


@names
def test_ids_are_unique_and_whatever_is_referred_to_is_there(pages, name):
    """Five charts in one page: each clip, marker and label is found where it belongs."""
    parsed = Parsed(pages[name])
    ids = Counter(attributes["id"] for _, attributes in parsed.tags if "id" in attributes)
    assert [each for each, count in ids.items() if count > 1] == []
    for _, attributes in parsed.tags:
        for attribute in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(attribute) is None or attributes[attribute] in ids
        assert (attributes.get("href") or "")[1:] in {"", *ids}
        for url in re.findall(r"url\(#([^)]*)\)", " ".join(filter(None, attributes.values()))):
            assert url in ids


@names
def test_charts_have_titles_descriptions_and_no_fixed_size(pages, name):
    """For whoever does not see them, and for every width."""
    parsed = Parsed(pages[name])
    charts = [attributes for attributes in parsed.of("svg") if attributes.get("class") == "chart"]
    assert len(charts) >= 3
    for chart in charts:
        assert chart["role"] == "img"
        assert "viewbox" in chart
        assert "width" not in chart
    assert pages[name].count("<title id=") == pages[name].count("<desc id=") == len(charts)
    assert "matplotlib.org" not in pages[name]


@names
def test_tables_say_what_their_cells_are(pages, name):
    """A caption each, headers with a scope."""
    parsed = Parsed(pages[name])
    assert len(parsed.of("caption")) == len(parsed.of("table")) >= 4
    assert all(head.get("scope") in ("col", "row") for head in parsed.of("th"))
    assert parsed.of("html") == [{"lang": "en"}]
    assert len(parsed.of("h1")) == len(parsed.of("main")) == 1


@pytest.mark.parametrize("name", ["hostile", "hostile measurement"])
def test_names_from_outside_stay_text(pages, name):
    """Markup, templates and mathematics are shown as they were written, control characters are written out."""
    text = Parsed(pages[name]).text
    assert "<script>alert(1)</script><img src=//evil.example/x onerror=alert(2)>{{7*7}}$\\frac{1}{2}$\\x1b[31m" in text
    assert "\x1b" not in pages[name]
    assert "\u202e" not in pages[name]
    assert "49" not in text.split("{{7*7}}")[0][-40:]


def test_names_from_outside_stay_text_in_markdown_too(hostile):
    """No HTML, entity or mathematics passes through a renderer of Markdown, but for code, which is shown as it is."""
    text = markdown(hostile.review)
    outside = re.sub(r"^(```+)\w*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "script" in outside
    assert re.findall(r"(?<!\\)[<&$]", outside) == []
    assert "\x1b" not in text


def test_the_same_review_gives_the_same_bytes(advice, pages):
    """Two reports can be compared by a diff."""
    assert html(advice.review) == pages["advice"]


def test_a_report_is_light(pages):
    """It goes by mail: half a megabyte at most."""
    assert all(len(page.encode()) < 500_000 for page in pages.values())
