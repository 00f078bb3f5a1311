"""What was wrong with a request, finding by finding: where, what was expected, what came.

Both edges tell the same findings, the service as members of problem details and the command line as a line. Values from
the request are shortened and made printable; they stand as Python writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_MOST_CHARACTERS = 120  # of a value that is shown back


class FieldError(BaseModel):
    """One thing wrong with the request."""

    model_config = ConfigDict(frozen=True)

    field: str = Field(description="Dotted path into the request body; empty for the body as a whole")
    expected: str
    got: str
    remedy: str | None = Field(default=None, description="What to do next, where something can be said")


def shown(value: object) -> str:
    """A value from a request, on one line, printable and short."""
    if isinstance(value, str):
        value = value[: 2 * _MOST_CHARACTERS]
    elif isinstance(value, (dict, list, tuple)) and len(value) > 8:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} entries"
    try:
        text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def path_of(location: Sequence[int | str]) -> str:
    """`("deployment", "gpu")` as deployment.gpu, list positions in brackets.

    Branches of a union stand in pydantic's locations under names that no request has (`dict[str,any]`): left out.
    """
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif re.fullmatch(r"[^\[\]()]{1,80}", step):
            path += f".{step}" if path else step
    return path


# Our own validators write "what: expected ..., got ..."; the parts are members of their own here.
_EXPECTED_GOT = re.compile(
    r"(?:(?P<what>.*): )?expected (?P<expected>.+?)[,;] got (?P<got>[^;]+)(?:; (?P<remedy>.+))?", re.DOTALL
)

# pydantic's words for these name Python's types
_SIZES = {
    "too_short": ("min", "entry", "entries"), "too_long": ("max", "entry", "entries"),
    "string_too_short": ("min", "character", "characters"), "string_too_long": ("max", "character", "characters"),
}  # fmt: skip


def _field_error(error: Mapping[str, Any]) -> FieldError:
    """One of pydantic's findings in our form."""
    place = path_of(error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        message = "an object"
    if error["type"] == "missing":
        return FieldError(field=place, expected="a value: this field is required", got="nothing")
    if error["type"] == "unknown_field":
        expected, _, hint = message.partition("; ")
        return FieldError(field=place, expected="a known field", got=expected, remedy=hint)
    if error["type"] in _SIZES:
        which, one, several = _SIZES[error["type"]]
        limit = error["ctx"][f"{which}_length"]
        many = "at least" if which == "min" else "at most"
        return FieldError(
            field=place, expected=f"{many} {limit:,} {one if limit == 1 else several}", got=shown(error.get("input"))
        )
    parts = _EXPECTED_GOT.fullmatch(message)
    if parts:
        return FieldError(field=place, expected=parts["expected"], got=parts["got"], remedy=parts["remedy"])
    if error["type"] in ("contradiction", "evidence_without_method"):
        return FieldError(field=place, expected="no contradiction", got=message)
    return FieldError(field=place, expected=message, got=shown(error.get("input")))


def told(error: FieldError) -> str:
    """One finding as part of a line."""
    remedy = f"; {error.remedy}" if error.remedy else ""
    return f"{error.field or 'body'}: expected {error.expected}; got {error.got}{remedy}"


def field_errors(errors: Iterable[Mapping[str, Any]]) -> list[FieldError]:
    """What pydantic's `errors()` lists, in our form, in its order, each once."""
    return list(dict.fromkeys(_field_error(one) for one in errors))
