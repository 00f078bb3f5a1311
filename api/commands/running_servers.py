"""What do options say of servers that run already? Their API key, and how they speculate."""

from __future__ import annotations

import os

from profiler.deployment import METHODS
from profiler.errors import InputError, UnknownNameError


def api_key(variable: str | None) -> str | None:
    """The key in the variable that --api-key-env names; None without one. Raises InputError where it is not set."""
    key = None if variable is None else os.environ.get(variable)
    if variable is not None and not key:
        raise InputError(f"--api-key-env: the environment has no {variable}", remedy=f"export {variable}=...")
    return key


def check_method(method: str | None) -> None:
    """Raise UnknownNameError where --method names none."""
    if method is not None and method not in METHODS:
        raise UnknownNameError("--method: unknown method", expected=f"one of {', '.join(METHODS)}", got=repr(method))
