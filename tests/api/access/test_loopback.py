"""Loopback: names and addresses that lead nowhere but here, in all their spellings."""

from __future__ import annotations

import pytest

from api.access.loopback import host_of, is_loopback


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]",
                                  "::ffff:127.0.0.1"])  # fmt: skip
def test_what_is_this_machine(host):
    """Also mapped and bracketed."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io", "2130706433", "127.1", "", "example",
     "::ffff:10.0.0.1", "169.254.169.254"],
)  # fmt: skip
def test_what_is_not_or_is_not_surely(host):
    """Everything else, and every spelling that some resolver might read in its own way."""
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("authority", "host"),
    [("localhost:8000", "localhost"), ("127.0.0.1", "127.0.0.1"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")],
)
def test_a_host_header_has_a_port_or_none(authority, host):
    """Brackets hold an IPv6 address together."""
    assert host_of(authority) == host
