"""Which specworth this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def specworth_version() -> str:
    """The installed distribution's version; "unknown" where the sources run without being installed."""
    try:
        return version("specworth")
    except PackageNotFoundError:
        return "unknown"
