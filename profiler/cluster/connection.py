"""Is there a Ray cluster at this address that we can use? The only module that imports Ray, and only when called.

Refused: Ray missing or too old here, an address that is none, one where nobody or no cluster answers, Ray Client
(`ray://`, through which results do not come before a task's end), and a cluster of another Ray or Python than ours.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

import profiler
from profiler.errors import InputError, SpecworthError

OLDEST = (2, 55)  # the oldest that the tests of lost nodes and of versions were run with; 2.44 failed some
PATIENCE_S = 60.0  # a cluster's head answers within seconds
_DIAL_S = 10.0
_INSTALL = "pip install 'specworth[ray]'"


class ClusterError(InputError):
    """A Ray cluster, or a Ray, that cannot be used."""


class ClusterLostError(SpecworthError):
    """A Ray cluster that went away while it was used."""


def load_ray() -> ModuleType:
    """The module `ray`. Raises ClusterError where it is missing or too old."""
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise ClusterError("Ray is not installed here", got=str(error), remedy=_INSTALL) from error
    if _version(ray.__version__) < OLDEST:
        raise ClusterError("this Ray is too old", expected=_oldest(), got=ray.__version__, remedy=_INSTALL)
    return ray


def read_address(given: str | None) -> str:
    """`auto`, or HOST:PORT. Raises ClusterError."""
    address = (given or os.environ.get("RAY_ADDRESS") or "auto").strip()
    what = f"--ray-address: {address!r} is no address of a cluster's head"
    expected = "HOST:PORT, such as 10.0.0.5:6379, or auto on a machine of the cluster"
    if address.startswith("ray://"):
        raise ClusterError(
            "--ray-address: Ray Client (ray://) tells results at the end of a task alone", expected=expected,
            got=address, remedy="make this machine part of the cluster: ray start --address=HOST:6379 --num-cpus=0",
        )  # fmt: skip
    if address == "auto":
        return address
    found = re.fullmatch(r"\[?([^\s\[\]/]+?)\]?:(\d{1,5})", address)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ClusterError(what, expected=expected)
    return address


@contextmanager
def connected(
    address: str, *, give_up: Callable[[str], None], bring_source: bool = True, patience_s: float = PATIENCE_S
) -> Iterator[ModuleType]:
    """Ray, joined to the cluster at `address` for the length of a `with` block; this source on its nodes, or theirs.

    Ray waits for ever where something else than a cluster listens; after `patience_s` `give_up` is called from another
    thread with what to say, and is expected to end the process.

    Raises:
        ClusterError: see above.
    """
    ray = load_ray()
    _dial(address)
    silence = ClusterError(
        f"no Ray cluster answers at {address}", expected="the head's own port, 6379 unless it was given another",
        got=f"nothing for {patience_s:g} s", remedy="look at the address that `ray start --head` printed",
    )  # fmt: skip
    timer = threading.Timer(patience_s, give_up, [silence.line()])
    timer.daemon = True
    timer.start()
    try:
        ray.init(
            address=address, log_to_driver=False, logging_level="ERROR",
            runtime_env={"py_modules": [str(Path(profiler.__file__).parent)]} if bring_source else None,
        )  # fmt: skip
    except Exception as error:  # of many kinds, all of them about the cluster
        raise _translated(error, address) from error
    finally:
        timer.cancel()
    try:
        yield ray
    finally:
        ray.shutdown()


def _dial(address: str) -> None:
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_DIAL_S).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster at {address}", got=(error.strerror or str(error)).lower(),
            remedy="start one there (ray start --head), or look at the address and the firewall",
        ) from error  # fmt: skip


def _translated(error: Exception, address: str) -> ClusterError:
    text = " ".join(str(error).split())
    told = re.search(r"started with: Ray: (\S+) Python: (\S+).*started with: Ray: (\S+) Python: (\S+)", text)
    if told is not None:
        old = _version(told[1]) < OLDEST
        return ClusterError(
            f"the Ray cluster at {address} is {'too old' if old else 'of another version'}",
            expected=f"Ray {_oldest()}" if old else f"Ray {told[3]} under Python {told[4]}, as here",
            got=f"Ray {told[1]} under Python {told[2]}",
            remedy="renew the cluster's Ray" if old else f"have the same on both sides, say pip install ray=={told[1]}",
        )
    if isinstance(error, ConnectionError) and address == "auto":
        return ClusterError(
            "no Ray cluster runs on this machine", got=text[:200],
            remedy="name its head with --ray-address HOST:PORT, or start one: ray start --head",
        )  # fmt: skip
    return ClusterError(
        f"the Ray cluster at {address} cannot be joined", got=f"{type(error).__name__}: {text[:300]}",
        remedy="this machine must be part of it: ray start --address=HOST:PORT --num-cpus=0",
    )  # fmt: skip


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _oldest() -> str:
    return "{}.{} or newer".format(*OLDEST)
