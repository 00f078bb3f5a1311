"""A group of commands whose help does not wait for a validation library."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Group(TyperGroup):
    """Typer's group, with a help option that is off rather than unset.

    Typer converts unset options with pydantic, whose import takes 0.2 to 0.4 s: `specworth advise --help` would need
    0.9 s instead of 0.15 for an option that nobody gave.
    """

    def get_help_option(self, ctx: Any) -> Any:  # noqa: ANN401  # Context and Option move between Typer versions
        """The help option, with a default that needs no conversion."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option
