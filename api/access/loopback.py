"""Which addresses are this machine alone?"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Does a host name or address, as a bind address or a URL has it, lead nowhere but to this machine?"""
    name = host.strip().rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def host_of(authority: str) -> str:
    """The host in a Host header, without its port."""
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.partition(":")[0]
