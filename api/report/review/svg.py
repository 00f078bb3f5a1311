"""How does a matplotlib figure become SVG inside an HTML page? With a title, a description and ids of its own.

Text stays text: it can be searched, selected, and read aloud, in the page and in its PDF. What matplotlib writes about
itself (metadata with addresses, a document type, a fixed size) is left out.
"""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_HREF = f"{{{_XLINK}}}href"
# For drawing and for writing: text stays text, no name is read as mathematics, the same figure gives the same bytes.
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "specworth", "text.parse_math": False}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_URL = re.compile(r"url\(#([^)]+)\)")


def embeddable(figure: Any, *, name: str, title: str, description: str) -> str:  # noqa: ANN401  # matplotlib is late
    """The figure as an `svg` element; ids in it begin with `name`."""
    written = io.BytesIO()
    figure.savefig(written, format="svg", transparent=True, metadata=_NO_METADATA)
    root = ElementTree.fromstring(written.getvalue())  # our own text
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}metadata":
                parent.remove(child)
    for element in root.iter():
        _own_ids(element, name)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.attrib.update(
        {"role": "img", "aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-description", "class": "chart"}
    )
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        said = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{name}-{'title' if tag == 'title' else 'description'}"})
        said.text = text
        root.insert(place, said)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _own_ids(element: ElementTree.Element, name: str) -> None:
    """Figures of one page must not share ids."""
    for attribute, value in list(element.attrib.items()):
        if attribute == "id":
            element.set(attribute, f"{name}-{value}")
        elif attribute == _HREF and value.startswith("#"):
            element.set("href", f"#{name}-{value[1:]}")
            del element.attrib[attribute]
        elif "url(#" in value:
            element.set(attribute, _URL.sub(rf"url(#{name}-\1)", value))
