"""Reading a live server's /metrics at an even pace for a while, whatever happens to it meanwhile.

One reading that fails is counted and left out; a server that never answers, or whose first answer is not vLLM's, is
refused at once. Ending the wait early (Ctrl-C) reads once more and keeps what was read.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from profiler.errors import EndpointError, InputError
from profiler.load.whole import METRICS_BYTES
from profiler.metrics import Scrape, read_scrape
from profiler.observe.served import choose_model

_TIMEOUT_S = 10.0  # of one reading; a scrape of a busy vLLM takes 5 to 20 ms
_LAST_LOOK_S = 2.0  # of the one after Ctrl-C: whoever presses it does not want to wait
_KEY_REMEDY = "put the server's key into an environment variable and name that with --api-key-env"


@dataclass(frozen=True)
class Watched:
    """The readings of one endpoint in the order in which they were made."""

    url: str
    scrapes: tuple[Scrape, ...]
    failed_readings: int
    engine_version: str | None
    last_failure: str | None = None
    cut_short: bool = False


def server_root(url: str) -> str:
    """The server's root address, whether the root, its /v1 or its /metrics was given.

    Raises:
        InputError: no address of a web server.
    """
    text = url.strip() if "://" in url else f"http://{url.strip()}"
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        well_formed = parts.scheme in ("http", "https") and bool(host.encode("idna")) and (parts.port or 1) > 0
    except ValueError:  # brackets that are not closed, a port that is none, a label that no name server knows
        well_formed = False
    if not well_formed:
        raise InputError(f"{url} is no address of a server", expected="one such as http://127.0.0.1:8000")
    if "@" in parts.netloc:
        raise InputError(
            "an address with a user or a password would stand in results and messages", expected="http://HOST:PORT",
            remedy=_KEY_REMEDY,
        )  # fmt: skip
    path = parts.path.rstrip("/")
    for ending in ("/metrics", "/models", "/v1"):
        path = path.removesuffix(ending)
    return f"{parts.scheme}://{parts.netloc}{path}"


def watch(
    url: str,
    *,
    seconds: float,
    every_s: float = 1.0,
    api_key: str | None = None,
    model: str | None = None,
    on_reading: Callable[[float], None] | None = None,
) -> Watched:
    """Read /metrics every `every_s` for `seconds`, at the beginning and at the end in any case.

    Args:
        url: the server's root, its /v1 or its /metrics.
        seconds: from the first reading to the last.
        every_s: between two readings.
        api_key: sent as a bearer token.
        model: the served model that is meant; several and none named are refused before the wait, not after it.
        on_reading: called after each reading with the seconds that have passed.

    Raises:
        EndpointError: the server does not answer, refuses the key, has no /metrics, is not vLLM, or serves several
            models.
        UnknownNameError: it does not serve `model`.
    """
    root = server_root(url)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    scrapes: list[Scrape] = []
    failed, last_failure, cut_short = 0, None, False
    # Proxies of the environment are for the outer world; a server named here is asked itself.
    with httpx.Client(base_url=root, headers=headers, timeout=_TIMEOUT_S, trust_env=False) as client:
        scrapes.append(_reading(client, root))
        choose_model(scrapes[0], model)
        version = _version(client)
        began = time.monotonic()
        due = 0.0
        try:
            while due < seconds:
                due = min(due + every_s, seconds)
                time.sleep(max(0.0, began + due - time.monotonic()))
                try:
                    scrapes.append(_reading(client, root))
                except EndpointError as error:
                    failed, last_failure = failed + 1, error.line()
                if on_reading is not None:
                    on_reading(time.monotonic() - began)
        except KeyboardInterrupt:
            cut_short = True
            with contextlib.suppress(EndpointError):
                scrapes.append(_reading(client, root, timeout_s=_LAST_LOOK_S))
    if len(scrapes) < 2:
        raise EndpointError(f"{root} answered once and then no more", got=last_failure, remedy="see the server's log")
    return Watched(root, tuple(scrapes), failed, version, last_failure, cut_short)


def _reading(client: httpx.Client, root: str, *, timeout_s: float = _TIMEOUT_S) -> Scrape:
    try:
        with client.stream("GET", "/metrics", follow_redirects=True, timeout=timeout_s) as reply:
            text = _whole(reply, within_s=timeout_s) if reply.status_code == 200 else ""
    except httpx.HTTPError as error:
        raise EndpointError(
            f"{root} does not answer",
            got=f"{type(error).__name__}: {error}".rstrip(": "),
            remedy="check the address and that the server is up",
        ) from error
    at_s = time.monotonic()
    if reply.status_code in (401, 403):
        raise EndpointError(f"{root} refuses the API key", got=f"HTTP {reply.status_code}", remedy=_KEY_REMEDY)
    if reply.status_code != 200:
        raise EndpointError(
            f"{root} has no /metrics",
            expected="a vLLM server's own address",
            got=f"HTTP {reply.status_code}",
            remedy="serve without --disable-log-stats, and ask the server itself rather than a router before it",
        )
    return read_scrape(text, at_s=at_s, url=f"{root}/metrics")


def _whole(reply: httpx.Response, *, within_s: float) -> str:
    """The answer's text; httpx waits for each part of one alone, so that a server could send for ever."""
    found, began = bytearray(), time.monotonic()
    for part in reply.iter_bytes():
        found += part
        if len(found) > METRICS_BYTES:
            raise httpx.ReadError(f"it sends more than {METRICS_BYTES:,} bytes where metrics are due")
        if time.monotonic() - began > within_s:
            raise httpx.ReadTimeout(f"no whole answer within {within_s:g} s")
    return found.decode(errors="replace")


def _version(client: httpx.Client) -> str | None:
    """What /version says; older servers and routers do not have it."""
    try:
        with client.stream("GET", "/version") as reply:
            answer = json.loads(_whole(reply, within_s=_TIMEOUT_S))
    except (httpx.HTTPError, ValueError, RecursionError):
        return None
    version = answer.get("version") if isinstance(answer, dict) else None
    return version if isinstance(version, str) else None
