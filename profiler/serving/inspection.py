"""What stands behind an address: is it vLLM, which version, which model, does it speculate, on what does it run?

Asked of /v1/models, /version and /metrics. A server is taken for vLLM if any of the three says so; one without /metrics
is measured all the same, its acceptance stays unknown. Refused: what does not answer or is no vLLM, a model name that
is not served, two addresses of one server.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from profiler.errors import EndpointError
from profiler.load.client import fetch_metrics, served_models
from profiler.load.whole import LISTING_BYTES, TOKENS_BYTES, whole
from profiler.metrics import Scrape, read_gauges, read_scrape, speculation_counters

# Device nodes of NVIDIA, AMD, Intel Gaudi, TPU and Ascend accelerators on Linux.
_ACCELERATORS = ("nvidia[0-9]*", "kfd", "accel*", "vfio/[0-9]*", "davinci[0-9]*", "dri/renderD*")


@dataclass(frozen=True)
class ServerFacts:
    """One server as it describes itself; None where it does not tell."""

    url: str
    model: str  # the name that requests carry
    root: str | None  # the folder or name that it was loaded from
    max_model_len: int | None
    version: str | None
    speculates: bool | None  # None without /metrics
    has_metrics: bool
    kv_tokens: float | None
    start_time_s: float | None
    is_cpu: bool | None  # None where it cannot be told


async def inspect_server(
    session: aiohttp.ClientSession, *, url: str, model: str | None = None, log_text: str = ""
) -> ServerFacts:
    """The facts of one server; `log_text` is its log, where we have it.

    Raises:
        EndpointError: it does not answer, refuses the key, is no vLLM, or does not serve `model`.
    """
    entries = await served_models(session, url=url)
    version = await _version(session)
    text = await fetch_metrics(session)
    scrape: Scrape | None = None
    if text is not None:
        with contextlib.suppress(EndpointError):
            scrape = read_scrape(text, at_s=time.monotonic(), url=url)
    if scrape is None and version is None and not any(entry.get("owned_by") == "vllm" for entry in entries):
        raise EndpointError(
            f"{url} is no vLLM server",
            expected="one that says so in /v1/models, /version or /metrics",
            got="an OpenAI-style server of another kind",
            remedy="give the address of `vllm serve` itself",
        )
    entry = _entry(entries, model, url=url)
    longest = entry.get("max_model_len")
    return ServerFacts(
        url=url,
        model=str(entry["id"]),
        root=entry.get("root") if isinstance(entry.get("root"), str) else None,
        max_model_len=longest if isinstance(longest, int) and longest > 0 else None,
        version=version,
        speculates=None if scrape is None else speculation_counters(scrape) is not None,
        has_metrics=scrape is not None,
        kv_tokens=None if scrape is None else read_gauges(scrape).kv_tokens,
        start_time_s=None if scrape is None else scrape.start_time_s,
        is_cpu=_is_cpu(url, version, log_text, scrape),
    )


def _entry(entries: list[dict[str, Any]], model: str | None, *, url: str) -> Mapping[str, Any]:
    """The served model that is meant: the named one, else the first (adapters follow their base)."""
    named = [entry for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)]
    if model is None and named:
        return named[0]
    for entry in named:
        if entry["id"] == model:
            return entry
    raise EndpointError(
        f"{url} does not serve {model!r}",
        expected="one of " + ", ".join(repr(entry["id"][:80]) for entry in named[:8]) if named else "a served model",
        remedy="name it with --model",
    )


async def _version(session: aiohttp.ClientSession) -> str | None:
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError, AttributeError):
        async with session.get("version", timeout=aiohttp.ClientTimeout(total=15.0)) as reply:
            found = orjson.loads(await whole(reply, most=LISTING_BYTES)).get("version") if reply.status == 200 else None
            return found if isinstance(found, str) else None
    return None


def _is_cpu(url: str, version: str | None, log_text: str, scrape: Scrape | None) -> bool | None:
    """Told by the version or the worker's own log lines; of a server that runs already, by its cache and its host.

    Nothing that vLLM 0.32 answers names its platform (/version leaves the build's tag out), but /metrics names the
    cache's blocks: where none are asked for vLLM's CPU platform takes 128 tokens (platforms/cpu.py, 0.26 and 0.32),
    others mostly 16. So 128 alone proves nothing (CUTLASS MLA takes as many), and neither does a host without
    accelerators, to which a port may be forwarded; both together are taken for a CPU, blocks of another size for none.
    """
    if version is not None and "+cpu" in version:
        return True
    if "cpu_worker.py" in log_text or "CPU KV cache size" in log_text:
        return True
    if log_text:
        return False
    blocks = [] if scrape is None else [line.labels for line in scrape.lines("cache_config_info")]
    sizes = {labels.get("block_size") for labels in blocks if labels.get("user_specified_block_size") == "False"}
    if "128" not in sizes:
        return False if sizes else None
    if is_local(url) and not any(True for pattern in _ACCELERATORS for _ in Path("/dev").glob(pattern)):
        return True
    return None


def is_local(url: str) -> bool:
    """Whether the address is of this host's loopback."""
    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_two_servers(baseline: ServerFacts, speculative: ServerFacts) -> None:
    """Refuse one server under two addresses, and arms that are not what they should be.

    Raises:
        EndpointError: the same server twice, a baseline that speculates, a speculative server that does not, or two
            servers of different models.
    """
    if _addresses(baseline.url) & _addresses(speculative.url):
        raise EndpointError(
            "both addresses are of the same server",
            expected="one server without speculation and one with it",
            got=f"{baseline.url} and {speculative.url}",
        )
    check_arm(baseline, speculates=False)
    check_arm(speculative, speculates=True)
    if different_roots(baseline, speculative) and baseline.model != speculative.model:
        raise EndpointError(
            "the two servers serve different models",
            expected="the same target on both",
            got=f"{baseline.root} and {speculative.root}",
            remedy="if they are the same weights, serve both under one name (--served-model-name)",
        )


def different_roots(baseline: ServerFacts, speculative: ServerFacts) -> bool:
    """Whether they were loaded from different places: other weights, or the same ones mounted or named otherwise."""
    return baseline.root is not None and speculative.root is not None and baseline.root != speculative.root


def check_arm(facts: ServerFacts, *, speculates: bool) -> None:
    """Refuse a baseline that speculates and a speculative server that does not."""
    if facts.speculates is None or facts.speculates == speculates:
        return
    if facts.speculates:
        raise EndpointError(
            f"the baseline {facts.url} speculates: its /metrics has vllm:spec_decode counters",
            expected="a server without a speculative config",
        )
    raise EndpointError(
        f"the speculative server {facts.url} does not speculate: its /metrics has no vllm:spec_decode counters",
        expected="a server with a speculative config",
    )


def _addresses(url: str) -> set[tuple[str, int]]:
    """(address, port) pairs that the URL's host resolves to."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return {(parts.hostname or "", port)}
    return {(str(entry[4][0]), port) for entry in found}


async def count_prompt_tokens(session: aiohttp.ClientSession, body: Mapping[str, Any]) -> int | None:
    """Tokens of a request's prompt as the server's own tokenizer and template make them; None where it cannot tell."""
    asked = {name: body[name] for name in ("model", "messages", "prompt", "tools") if name in body}
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError, AttributeError):
        async with session.post(
            "tokenize", data=orjson.dumps(asked), headers={"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=30.0),
        ) as reply:  # fmt: skip
            count = orjson.loads(await whole(reply, most=TOKENS_BYTES)).get("count") if reply.status == 200 else None
            return count if isinstance(count, int) else None
    return None
