"""Make one API key: told once, its hash as an entry that can be appended to a keys file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import yaml
from pydantic import ValidationError

from api.access.keys import SCOPES, ApiKey, new_key
from profiler.errors import InputError


def run_new(name: str, *, scopes: Sequence[str], expires: str | None, rate_limit: str | None) -> int:
    """Print the key to standard error and its entry to standard output."""
    key, kept = new_key(name)
    given = {"name": name, "scopes": sorted(set(scopes)), "hash": kept, "expires": expires, "rate_limit": rate_limit}
    entry = {field: value for field, value in given.items() if value is not None}
    try:
        ApiKey.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = str(first["loc"][0])
        option = {"name": "NAME", "scopes": "--scope"}.get(place, f"--{place.replace('_', '-')}")
        expected = f"one of {', '.join(SCOPES)}" if place == "scopes" else str(first["msg"])
        raise InputError(
            f"{option} cannot be used", expected=expected.removeprefix("Value error, "), got=repr(first["input"])
        ) from None
    # A list of one entry, so that entries of several calls stand below each other in one file.
    print(yaml.safe_dump([entry], sort_keys=False), end="")
    print(f"the key, told this once: {key}", file=sys.stderr)
    return 0
