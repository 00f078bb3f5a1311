"""Watching a control and a canary until the policy is decided or the window ends.

Both /metrics are read at one time, every few seconds; each pair is a look, and the first look that decides ends the
watch. A pass that needs headroom in the KV cache waits for the end of the window, since a peak may still come. No
request is sent: the traffic is that of whoever uses the servers.

Refused: what is no vLLM or has no /metrics, one server under two addresses, a control that speculates or a canary that
does not, servers of different models, a server that stops answering, and what `advisor.gate.canary` refuses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from advisor.gate.canary import Canary
from advisor.gate.canary_rules import judge_canary
from advisor.gate.policy import GatePolicy
from advisor.gate.verdict import GateVerdict
from profiler.errors import EndpointError
from profiler.load import Endpoint
from profiler.load.client import fetch_metrics
from profiler.metrics import Scrape, read_scrape
from profiler.serving.inspection import ServerFacts, check_two_servers, different_roots, inspect_server

MOST_SILENT = 3  # readings in a row that may fail: a busy server misses one, a dead one all


@dataclass(frozen=True)
class Servers:
    """Which two, and how they are asked."""

    control: Endpoint
    canary: Endpoint
    model: str | None = None
    method: str | None = None  # of the canary, as the caller knows it


async def watch(
    policy: GatePolicy,
    servers: Servers,
    *,
    window_s: float,
    every_s: float,
    on_look: Callable[[float, GateVerdict], None] | None = None,
) -> GateVerdict:
    """The verdict at the first look that decides, or at the end of the window.

    Raises:
        EndpointError: see the module.
    """
    async with servers.control.session() as control, servers.canary.session() as canary:
        facts = await asyncio.gather(
            inspect_server(control, url=servers.control.url, model=servers.model),
            inspect_server(canary, url=servers.canary.url, model=servers.model),
        )
        _check(*facts)
        pair = await _pair((control, canary), facts)
        if pair is None:
            raise EndpointError("/metrics was there and then was not", expected="both servers up for the whole window")
        urls = servers.control.url, servers.canary.url
        seen = Canary.begin(*pair, urls=urls, models=(facts[0].model, facts[1].model))
        began, due, silent = time.monotonic(), 0.0, 0
        verdict = judge_canary(policy, seen, method=servers.method)
        while due < window_s:
            due = min(due + every_s, window_s)
            await asyncio.sleep(max(0.0, began + due - time.monotonic()))
            pair = await _pair((control, canary), facts)
            if pair is None:
                silent += 1
                if silent >= MOST_SILENT:
                    raise EndpointError(
                        f"one of the servers does not answer any more: {urls[0]} or {urls[1]}",
                        expected="both up for the whole window", got=f"{silent} readings in a row that failed",
                    )  # fmt: skip
                continue
            silent = 0
            seen.add(*pair)
            verdict = judge_canary(policy, seen, method=servers.method)
            if on_look is not None:
                on_look(time.monotonic() - began, verdict)
            if _decided(policy, verdict):
                break
    notes = [*verdict.notes]
    if different_roots(*facts):
        notes.append(f"loaded from different places: {facts[0].root} and {facts[1].root}; taken for the same model")
    return verdict.model_copy(update={"notes": notes})


def _decided(policy: GatePolicy, verdict: GateVerdict) -> bool:
    if verdict.outcome == "fail":
        return True
    return verdict.outcome == "pass" and policy.rules.min_kv_headroom is None


def _check(control: ServerFacts, canary: ServerFacts) -> None:
    for name, facts in (("control", control), ("canary", canary)):
        if not facts.has_metrics:
            raise EndpointError(
                f"the {name} {facts.url} has no vLLM /metrics", expected="vLLM's own, which the gate reads",
                remedy="serve without --disable-log-stats, and name the server itself rather than a router before it",
            )  # fmt: skip
    check_two_servers(control, canary)


async def _pair(
    sessions: tuple[aiohttp.ClientSession, aiohttp.ClientSession], facts: tuple[ServerFacts, ServerFacts]
) -> tuple[Scrape, Scrape] | None:
    """Both servers' metrics of one moment; None where one gave none."""
    texts = await asyncio.gather(*(fetch_metrics(session) for session in sessions))
    if texts[0] is None or texts[1] is None:
        return None
    at_s = time.monotonic()
    return read_scrape(texts[0], at_s=at_s, url=facts[0].url), read_scrape(texts[1], at_s=at_s, url=facts[1].url)
