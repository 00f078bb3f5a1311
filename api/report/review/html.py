"""How does a review become one HTML file? Everything is in it: style, charts as SVG, tables; no script, no address.

Text from outside (names of models, files, notes) is escaped by Jinja and, where it could steer a reader, by
`printable`. The file says itself that it loads nothing: a Content-Security-Policy forbids it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.report.content import Points
from api.report.review.document import Code, Facts, Figure, Grid, Prose, Review
from api.report.terminal import printable

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).parent / "templates"
_KINDS: dict[type[Any], str] = {
    Prose: "prose", Points: "points", Facts: "facts", Code: "code", Grid: "grid", Figure: "figure",
}  # fmt: skip
# Also sent as a header where the service answers with a report. Style attributes are matplotlib's way in SVG.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html(review: Review) -> str:
    """The review as one HTML document."""
    return _template().render(review=review, policy=CONTENT_SECURITY_POLICY, style=_style())


def _kind(block: object) -> str:
    return _KINDS[type(block)]


def _shown(value: object) -> object:
    """What is put out, with control characters written out; markup of our own stays."""
    return printable(value) if type(value) is str else value


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from api.report.review.charts import draw

    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    environment.tests["number"] = lambda text: bool(text) and text.lstrip("+-−<>~").lstrip()[:1].isdigit()
    environment.filters["kind"] = _kind
    environment.filters["svg"] = lambda figure: Markup(draw(figure))  # SVG of ours, escaped by its writer
    return environment.get_template("review.html")


def _style() -> object:
    from markupsafe import Markup

    return Markup((_FOLDER / "review.css").read_text(encoding="utf-8"))  # a file of ours
