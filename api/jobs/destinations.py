"""Which running servers may a job attach to, and at which address is each reached?

An address is `http://HOST:PORT` or `https://HOST:PORT` and nothing else: no user, path, query or zone, and a host in
one spelling only. Numbers that other programs would read as an IPv4 address (decimal, octal, hexadecimal, shortened)
are refused, and so are IPv6 forms that carry an IPv4 address inside: what is checked must be what is connected to.

Allowed are loopback, and what SPECWORTH_ATTACH_HOSTS lists: names, addresses, networks. A name is resolved once, by the
worker, right before it connects; every address that comes back must be allowed, and the connection goes to the one that
was checked, so that a name that changes its mind (DNS rebinding) changes nothing. A listed name may lead to public
addresses and to loopback; private ones must be listed besides. Link-local and cloud metadata addresses are reached only
where they themselves are listed, never as part of a wider network.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

from api.jobs.errors import NotAllowedError
from profiler.errors import EndpointError, InputError

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Lookup = Callable[[str, int], list[str]]

SETTING = "SPECWORTH_ATTACH_HOSTS"
_FORM = "an address such as http://127.0.0.1:8000, without user, path, query or fragment"
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::(?P<port>[0-9]{1,5}))?/?",
    re.ASCII,
)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?", re.ASCII)
# The last label of what WHATWG's URL standard, and libc's inet_aton, read as an IPv4 address.
_NUMERIC = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|[0-9]+)", re.ASCII)
# Instance metadata outside of link-local: AWS by IPv6, Alibaba, Oracle, Azure's wire server.
_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")
)
# IPv6 forms that lead to an IPv4 address: mapped, compatible, NAT64 (RFC 6052, 8215), 6to4, Teredo, ISATAP by its form.
_TRANSLATED = tuple(
    ipaddress.IPv6Network(text)
    for text in ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)
_COMPATIBLE = ipaddress.IPv6Network("::/96")


@dataclass(frozen=True)
class ServerAddress:
    """One address in its only spelling; `ip` where the host is no name."""

    scheme: str
    host: str
    port: int
    ip: Ip | None

    @property
    def url(self) -> str:
        """As it is connected to and told."""
        host = f"[{self.host}]" if self.ip is not None and self.ip.version == 6 else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Of this host, by its form."""
        return self.ip.is_loopback if self.ip is not None else self.host == "localhost"


def read_address(text: str, *, field: str) -> ServerAddress:
    """The address that `text` is; raises InputError for any other form."""
    found = _ADDRESS.fullmatch(text.lower()) if text.isascii() and len(text) <= 300 else None
    if found is None:
        raise _unreadable(text, field)
    host, port = found["host"], int(found["port"] or (443 if found["scheme"] == "https" else 80))
    if not 1 <= port <= 65_535:
        raise _unreadable(text, field)
    ip: Ip | None = None
    try:
        if host.startswith("["):
            ip = ipaddress.IPv6Address(host[1:-1])
        elif _NUMERIC.fullmatch(host):
            ip = ipaddress.IPv4Address(host)
    except ValueError:
        raise _unreadable(text, field) from None
    if ip is not None and _carries_ipv4(ip):
        raise InputError(
            f"{field}: an IPv6 address that stands for an IPv4 one", expected="the IPv4 address itself",
            got=repr(text), field=field,
        )  # fmt: skip
    if ip is None and ".." in host:
        raise _unreadable(text, field)
    return ServerAddress(found["scheme"], str(ip) if ip is not None else host, port, ip)


def _unreadable(text: str, field: str) -> InputError:
    return InputError(f"{field}: no address of a server", expected=_FORM, got=ascii(text[:100]), field=field)


def _carries_ipv4(ip: Ip) -> bool:
    if ip.version == 4:
        return False
    if ip.is_loopback or ip.is_unspecified:
        return False
    isatap = (int(ip) >> 32) & 0xFCFF_FFFF == 0x0000_5EFE  # ...:0:5efe:a.b.c.d and ...:200:5efe:a.b.c.d
    return ip in _COMPATIBLE or isatap or any(ip in network for network in _TRANSLATED)


@dataclass(frozen=True)
class AllowList:
    """What the operator lists."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AllowList:
        """Names, addresses and networks between commas. Raises ValueError naming the entry that is none."""
        names, networks = set(), []
        for entry in filter(None, (part.strip().lower() for part in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry.strip("[]")))
                continue
            except ValueError:
                pass
            if not _NAME.fullmatch(entry) or _NUMERIC.fullmatch(entry):
                raise ValueError(f"names, addresses and networks between commas; {entry[:60]!r} is none")
            names.add(entry)
        return cls(frozenset(names), tuple(networks))

    def check(self, address: ServerAddress, *, field: str) -> None:
        """Refuse what is not allowed as far as its form tells; names are resolved later. Raises NotAllowedError."""
        if address.ip is not None:
            self._check_ip(address.ip, address, field=field, listed_name=False)
        elif address.host != "localhost" and address.host not in self.names:
            raise _refused(address.host, "it is not listed", address.host, field)

    def resolve(self, address: ServerAddress, *, field: str, lookup: Lookup | None = None) -> str:
        """The IP address to connect to. Raises NotAllowedError, EndpointError where the name leads nowhere."""
        self.check(address, field=field)
        if address.ip is not None:
            return str(address.ip)
        found = [ipaddress.ip_address(text) for text in (lookup or look_up)(address.host, address.port)]
        if not found:
            raise EndpointError(f"{address.host} has no address", expected="a name that resolves", field=field)
        for ip in found:
            self._check_ip(ip, address, field=field, listed_name=address.host in self.names)
        return str(found[0])

    def lists(self, address: ServerAddress) -> bool:
        """Whether the operator wrote it down, which loopback need not be."""
        return address.host in self.names or (address.ip is not None and self._network_has(address.ip))

    def _network_has(self, ip: Ip, *, alone: bool = False) -> bool:
        return any(ip in network and (not alone or network.num_addresses == 1) for network in self.networks)

    def _check_ip(self, ip: Ip, address: ServerAddress, *, field: str, listed_name: bool) -> None:
        told = str(ip) if address.ip is not None else f"{address.host}, which is {ip}"
        if _carries_ipv4(ip) or (ip.version == 6 and ip.scope_id is not None):
            raise _refused(told, "it stands for another address", str(ip), field)
        if ip.is_link_local or ip in _METADATA:
            if not self._network_has(ip, alone=True):
                raise _refused(told, "it is link-local or of cloud metadata, and not listed itself", str(ip), field)
        elif self._network_has(ip):
            return
        elif ip.is_loopback:
            if not listed_name and not address.is_loopback:
                raise _refused(told, "it leads to this host", address.host, field)
        elif not listed_name:
            raise _refused(told, "it is not listed", str(ip), field)
        elif not ip.is_global or ip.is_multicast:
            raise _refused(told, "it is private, and only its name is listed", str(ip), field)


def _refused(told: str, why: str, entry: str, field: str) -> NotAllowedError:
    return NotAllowedError(
        f"{field}: this service does not connect to {told}: {why}",
        expected=f"this host's loopback, or what {SETTING} lists", got=told,
        remedy=f"have the operator add {entry} to {SETTING}", field=field,
    )  # fmt: skip


def check_hosts(text: str) -> str:
    """The setting as it is; raises ValueError where an entry is no name, address or network."""
    AllowList.parse(text)
    return text


def look_up(host: str, port: int) -> list[str]:
    """Addresses of a name, in the system's order. Raises EndpointError where it has none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", None) or error)
        raise EndpointError(f"{host} cannot be resolved", expected="a name that resolves", got=reason) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
