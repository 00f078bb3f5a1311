"""May this caller do this now? Asked by every route under /v1 and by /metrics before anything of the body is read.

With keys, the caller shows one as `Authorization: Bearer specworth_...`; its scopes decide, then its rate. Without keys
the service is for this machine alone: whoever comes from elsewhere is refused, and so is a request that names another
host than this machine, since a page in a browser can make a name of its own lead here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request

from api.access.keys import Keyring, Scope
from api.access.loopback import host_of, is_loopback
from api.access.rate import RateLimiter
from api.findings import FieldError, shown
from api.problems import ProblemError
from api.settings import Settings
from profiler.errors import InputError

_HEADER = "expected the header Authorization: Bearer specworth_<name>_<secret>"


class Access:
    """The service's door."""

    def __init__(self, settings: Settings) -> None:
        """Raises InputError where keys cannot be read, or are missing where others than this machine can ask."""
        given = settings.api_keys.get_secret_value() if settings.api_keys is not None else None
        keys = Keyring(file=settings.api_keys_file, text=given)
        if not settings.on_loopback and (settings.no_keys or not keys):
            raise InputError(
                f"no service without API keys on {settings.host}: others than this machine can reach it",
                expected="SPECWORTH_API_KEYS_FILE or SPECWORTH_API_KEYS" + " without --no-keys" * settings.no_keys,
                got="no keys" if not keys else "--no-keys (SPECWORTH_NO_KEYS)",
                remedy="make a key with `specworth keys new NAME --scope advise`, or listen on 127.0.0.1",
                field="SPECWORTH_API_KEYS_FILE",
            )
        self.keys = keys if keys and not settings.no_keys else None
        self._rate = settings.rate_limit
        self._limiter = RateLimiter()

    def admit(self, request: Request, scope: Scope) -> str | None:
        """The name of the caller's key, None where none are asked for; raises a 401, 403, 421 or 429 problem."""
        if self.keys is None:
            _only_from_here(request)
            return None
        kind, _, presented = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not presented:
            raise _refused(401, "no-key", "An API key is needed", f"no API key came; {_HEADER}")
        key = self.keys.find(presented.strip())
        if key is None:
            raise _refused(401, "unknown-key", "The API key is not known", f"the API key is not known; {_HEADER}")
        if not key.allows(scope):
            has = ", ".join(sorted(key.scopes))
            detail = f"the key {key.name} may not do this; expected the scope {scope}; got {has}"
            raise _refused(403, "scope", "The API key may not do this", detail)
        wait_s = self._limiter.wait_s(key.rate_limit or self._rate, key.name)
        if wait_s is not None:
            rate = key.rate_limit or self._rate
            detail = f"the key {key.name} sent too many requests; expected at most {rate}; try again in {wait_s} s"
            raise ProblemError(429, "rate-limit", "Too many requests", detail, headers={"Retry-After": str(wait_s)})
        return key.name


def _refused(status: int, kind: str, title: str, detail: str) -> ProblemError:
    challenge = {"WWW-Authenticate": 'Bearer realm="specworth"'} if status == 401 else {}
    return ProblemError(status, kind, title, detail, headers=challenge)


def _only_from_here(request: Request) -> None:
    """Refuse callers and host names of elsewhere."""
    client = request.client.host if request.client is not None else "localhost"  # a Unix socket has no address
    if not is_loopback(client):
        detail = f"without API keys this service answers its own machine alone; got a request from {shown(client)}"
        raise _refused(403, "not-local", "Only for this machine", detail)
    host = request.headers.get("host", "localhost")
    if not is_loopback(host_of(host)):
        one = FieldError(field="", expected="localhost or a loopback address", got=shown(host)[:80])
        detail = f"without API keys this service has no other name; expected {one.expected}; got {one.got}"
        raise ProblemError(421, "host", "Not the host that was meant", detail, [one])


def needs(scope: Scope) -> Callable[[Request], Coroutine[Any, Any, str | None]]:
    """A dependency that admits callers with this scope, and gives the name of their key."""

    async def admitted(request: Request) -> str | None:
        access: Access = request.app.state.access
        name = access.admit(request, scope)
        request.state.caller = name
        return name

    return admitted


# First among a route's parameters, so that nothing of a body is read for a caller who may not ask.
Reader = Annotated[str | None, Depends(needs("read"))]
Asker = Annotated[str | None, Depends(needs("advise"))]
ProfileWriter = Annotated[str | None, Depends(needs("profile"))]
Administrator = Annotated[str | None, Depends(needs("admin"))]
