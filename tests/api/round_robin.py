"""A client that asks two instances of the service in turn, as a load balancer without memory would."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import httpx


class RoundRobin(httpx.BaseTransport):
    """Each request goes to the next of the addresses; `asked` counts how many each has got."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._turn = itertools.cycle([httpx.URL(url) for url in urls])
        self._transport = httpx.HTTPTransport(trust_env=False)
        self.asked: dict[int | None, int] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send it to whoever's turn it is."""
        to = next(self._turn)
        self.asked[to.port] = self.asked.get(to.port, 0) + 1
        request.url = request.url.copy_with(scheme=to.scheme, host=to.host, port=to.port)
        request.headers["host"] = to.netloc.decode()
        return self._transport.handle_request(request)

    def close(self) -> None:
        """Drop the connections."""
        self._transport.close()


def round_robin(urls: Sequence[str]) -> httpx.Client:
    """A client of them all."""
    return httpx.Client(base_url=urls[0], transport=RoundRobin(urls), timeout=60)
