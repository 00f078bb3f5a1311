"""Every request: an id, one log line, its metrics; around the whole application, whatever answers inside.

A client's X-Request-ID is taken over where it is short and plain, else a new one is made; it stands in the answer's
head and in every log line that belongs to the request. Written as plain ASGI, since a middleware of Starlette's own
costs another task and half a millisecond.
"""

from __future__ import annotations

import logging
import re
import time
import uuid

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.operation.metrics import Metrics

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_QUIET = frozenset(("/healthz", "/readyz", "/metrics"))  # asked every few seconds by machines

logger = logging.getLogger("specworth.requests")


class Requests:
    """The outermost application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and say how it went."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _PLAIN.fullmatch(given) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        status, sent = 500, 0

        async def observed(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
            elif message["type"] == "http.response.body":
                sent += len(message.get("body", b""))
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id), self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, observed)
            finally:
                seconds = time.perf_counter() - began
                route = getattr(scope.get("route"), "path_format", "unmatched")
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._metrics.requests.labels(route, method, str(status)).observe(seconds)
                about = {
                    "method": method, "route": route, "status": status, "duration_ms": round(seconds * 1000, 2),
                    "answer_bytes": sent, "key": state.get("caller"), **state.get("about", {}),
                }  # fmt: skip
                level = logging.DEBUG if route in _QUIET and status < 400 else logging.INFO
                logger.log(level, "request", extra=about)
