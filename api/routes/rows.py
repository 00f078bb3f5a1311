"""What do the routes over kept rows have in common? Ids, pages of a list, JSON answers, an id that nothing has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from api.history.cursor import Cursor, Page, decode
from api.problems import ProblemError

R = TypeVar("R")

ID_PATTERN = "^[0-9a-f]{32}$"


class PageQuery(BaseModel):
    """Which page of a list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = Field(None, max_length=200, description="next_cursor of the page before")

    @property
    def after(self) -> Cursor | None:
        """Where the page begins; raises InputError for a cursor that is none of ours."""
        return None if self.cursor is None else decode(self.cursor)


def json_answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer whose content needs no validation: it comes from our own tables."""
    return Response(orjson.dumps(value), status, headers, "application/json")


def page_answer(name: str, page: Page[R], told: Callable[[R], dict[str, Any]]) -> Response:
    """One page of a list, under its name, and the cursor of the next."""
    following = None if page.following is None else page.following.encode()
    return json_answer({name: [told(row) for row in page.rows], "next_cursor": following})


def unknown_id(what: str, key: str, *, see: str) -> ProblemError:
    """Nothing has this id."""
    return ProblemError(404, "unknown-id", "Nothing has this id", f"no {what} has the id {key}; see {see}")
