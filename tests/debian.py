"""Debian packages that tests need, installed where they are missing: as root, or by sudo that asks nothing.

Standard library only, since `make test` runs this before there is an environment.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def installed(package: str, what: str, find: Callable[[], T | None]) -> T:
    """What `find` finds, after installing the package if need be; SystemExit with what to do where that fails."""
    if (there := find()) is not None:
        return there
    before = [] if os.geteuid() == 0 else ["sudo", "-n"]
    command = f"apt-get install -y --no-install-recommends {package}"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        for words in ("apt-get update", command):
            subprocess.run([*before, *words.split(), "-q"], check=True, stdout=subprocess.DEVNULL, env=environment)
    if (there := find()) is None:
        raise SystemExit(f"the tests need {what}, and it could not be installed: run {command}")
    return there
