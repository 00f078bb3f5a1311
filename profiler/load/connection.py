"""To which address does a client connect? To the one that was named or looked up before, and to no other.

Redirects are not followed, since whatever is behind one is not the server that was named. Where a name's address was
looked up and checked before, that address is connected to, whatever the name says by then.
"""

from __future__ import annotations

import socket

import aiohttp
import aiohttp.abc


class PinnedResolver(aiohttp.abc.AbstractResolver):
    """Every name is at one address, which was looked up and checked before."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """That address."""
        own = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        found: aiohttp.abc.ResolveResult = {
            "hostname": host, "host": self._address, "port": port, "family": own, "proto": 0,
            "flags": socket.AI_NUMERICHOST,
        }  # fmt: skip
        return [found]

    async def close(self) -> None:
        """Nothing is open."""


class RedirectedError(aiohttp.ClientError):
    """The server sends its clients elsewhere."""

    def __str__(self) -> str:
        return "it redirects to another address, which is not followed"


def refusing_redirects() -> aiohttp.TraceConfig:
    """Raise RedirectedError in place of a second request."""

    async def refuse(*_: object) -> None:
        raise RedirectedError

    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(refuse)
    return tracing
