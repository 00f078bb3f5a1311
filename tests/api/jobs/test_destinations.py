"""Which addresses a job may attach to: every form in which an address can hide, names that lie, and redirects."""

from __future__ import annotations

import asyncio
import json

import pytest

from api.jobs.destinations import AllowList, look_up, read_address
from api.jobs.errors import NotAllowedError
from profiler.errors import EndpointError, InputError
from profiler.load import Endpoint
from tests.api.jobs.conftest import JOBS, ON_SQLITE, attach_body, ended, submit, wait_until
from tests.fake_vllm import Knobs, fake_vllm

UNREADABLE = [
    "http://2130706433:8000",  # 127.0.0.1 as one number
    "http://0x7f000001:8000",
    "http://017700000001:8000",
    "http://0177.0.0.1:8000",
    "http://127.0.0.01:8000",
    "http://0x7f.0.0.1:8000",
    "http://127.1:8000",
    "http://127.0.0.1.:8000",
    "http://1.2.3:8000",
    "http://256.0.0.1:8000",
    "http://2852039166",  # 169.254.169.254
    "http://[::ffff:127.0.0.1]:8000",  # IPv4 inside of IPv6
    "http://[::ffff:7f00:1]:8000",
    "http://[::ffff:169.254.169.254]/",
    "http://[::127.0.0.1]:8000",
    "http://[::ffff:0:127.0.0.1]:8000",
    "http://[64:ff9b::7f00:1]:8000",
    "http://[64:ff9b:1::a9fe:a9fe]:8000",
    "http://[2002:7f00:1::]:8000",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]:8000",
    "http://[fd00::5efe:7f00:1]:8000",
    "http://[fd00::200:5efe:10.0.0.1]:8000",
    "http://[fe80::1%25eth0]:8000",  # zones
    "http://[fe80::1%eth0]:8000",
    "http://[::1]x:8000",
    "http://[::1:8000",
    "http://user@127.0.0.1:8000",  # users, and what looks like one
    "http://user:secret@127.0.0.1:8000",
    "http://127.0.0.1:8000@evil.example",
    "http://evil.example#@127.0.0.1:8000",
    "http://127.0.0.1:8000\\@evil.example",
    "http://127.0.0.1:8000/../admin",
    "http://127.0.0.1:8000/v1",
    "http://127.0.0.1:8000?x=1",
    "http://127.0.0.1:8000#x",
    "http://127.0.0.1:8000\r\nX-Evil: 1",  # other letters, and what is no address at all
    "http://127.0.0.1\t:8000",
    " http://127.0.0.1:8000",
    "http://127.0.0.1%2f@evil.example",
    "http://%31%32%37.0.0.1:8000",
    "http://①②⑦.0.0.1:8000",
    "http://127。0。0。1:8000",
    "http://lоcalhost:8000",  # a Cyrillic o
    "http://localhost.:8000",
    "http://a..b:8000",
    "http://-a:8000",
    "http://127.0.0.1:0",
    "http://127.0.0.1:65536",
    "http://127.0.0.1:080000",
    "http://:8000",
    "http://",
    "//127.0.0.1:8000",
    "127.0.0.1:8000",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_x",
    "ftp://127.0.0.1",
    "unix:/var/run/docker.sock",
    "javascript:1",
    "http://" + "a" * 400,
]

REFUSED = [
    "http://0.0.0.0:8000",  # leads to this host on Linux
    "http://[::]:8000",
    "http://10.0.0.1:8000",
    "http://172.16.0.1",
    "http://192.168.1.1",
    "http://100.64.0.1",
    "http://169.254.169.254",  # metadata of clouds
    "http://[fd00:ec2::254]",
    "http://100.100.100.200",
    "http://168.63.129.16",
    "http://metadata.google.internal",
    "http://[fe80::1]:8000",
    "http://[fd12::1]:8000",
    "http://224.0.0.1",
    "http://255.255.255.255",
    "http://8.8.8.8",
    "https://example.com",
    "http://localhost.example.com",
    "http://127.0.0.1.nip.io:8000",
    "http://localhost6:8000",
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_an_address_in_any_other_form_is_no_address(text):
    """Even where everything is allowed: the form itself is refused, with the form that is expected."""
    with pytest.raises(InputError) as caught:
        AllowList.parse("0.0.0.0/0,::/0,evil.example").check(read_address(text, field="url"), field="url")
    assert not isinstance(caught.value, NotAllowedError)
    assert caught.value.field == "url"


@pytest.mark.parametrize("text", REFUSED)
def test_nothing_but_loopback_is_allowed_by_default(text):
    """Private, public and metadata addresses, and every name, without looking any of them up."""
    with pytest.raises(NotAllowedError, match="SPECWORTH_ATTACH_HOSTS"):
        AllowList().check(read_address(text, field="url"), field="url")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("HTTP://LOCALHOST:8000", "http://localhost:8000"),
        ("http://localhost", "http://localhost:80"),
        ("https://localhost", "https://localhost:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://[0:0:0:0:0:0:0:1]:8000", "http://[::1]:8000"),
        ("http://127.8.9.1:1", "http://127.8.9.1:1"),
    ],
)
def test_loopback_is_allowed_in_its_own_form(text, url):
    """And is told in one spelling."""
    address = read_address(text, field="url")
    assert address.url == url
    assert AllowList().resolve(address, field="url") in ("127.0.0.1", "::1", "127.8.9.1")


@pytest.mark.parametrize(
    ("listed", "text", "found", "allowed"),
    [
        ("vllm.example", "http://vllm.example", ["93.184.216.34"], True),
        ("VLLM.example", "http://vllm.EXAMPLE", ["93.184.216.34"], True),
        ("vllm.example", "http://other.example", ["93.184.216.34"], False),
        ("vllm.example", "http://sub.vllm.example", ["93.184.216.34"], False),
        ("vllm.example", "http://vllm.example", ["127.0.0.1"], True),  # loopback is open to all anyway
        ("vllm.example", "http://vllm.example", ["10.0.0.7"], False),  # private, and only the name is listed
        ("vllm.example,10.0.0.0/24", "http://vllm.example", ["10.0.0.7"], True),
        ("vllm.example,10.0.0.0/24", "http://vllm.example", ["10.0.0.7", "10.0.1.7"], False),  # all must be
        ("vllm.example", "http://vllm.example", ["93.184.216.34", "169.254.169.254"], False),
        ("vllm.example", "http://vllm.example", ["::ffff:169.254.169.254"], False),
        ("vllm.example", "http://vllm.example", ["64:ff9b::a00:7"], False),
        ("vllm.example", "http://vllm.example", ["0.0.0.0"], False),
        ("vllm.example", "http://vllm.example", ["224.0.0.1"], False),
        ("vllm.example", "http://vllm.example", ["fe80::1%eth0"], False),
        ("vllm.example,169.254.0.0/16", "http://vllm.example", ["169.254.169.254"], False),  # not by a network
        ("vllm.example,0.0.0.0/0", "http://vllm.example", ["168.63.129.16"], False),
        ("vllm.example,169.254.169.254", "http://vllm.example", ["169.254.169.254"], True),
        ("10.0.0.0/24", "http://10.0.0.7:8000", [], True),
        ("10.0.0.0/24", "http://10.0.1.7:8000", [], False),
        ("10.0.0.0/24", "http://any.example", ["10.0.0.7"], False),  # a name must be listed itself
        ("fd12::/64", "http://[fd12::5]:8000", [], True),
        ("[fd12::5]", "http://[fd12::5]:8000", [], True),
        ("8.8.8.8", "http://8.8.8.8", [], True),
        ("", "http://localhost:1", ["10.0.0.7"], False),  # a hosts file that lies
        ("", "http://localhost:1", ["::1", "127.0.0.1"], True),
    ],
)
def test_names_are_checked_by_what_they_lead_to(listed, text, found, allowed):
    """Every address that a name has must be allowed; the first one is what is connected to."""
    hosts, address = AllowList.parse(listed), read_address(text, field="url")
    if allowed:
        told = hosts.resolve(address, field="url", lookup=lambda *_: found)
        assert told == (found[0] if found else str(address.ip))
    else:
        with pytest.raises(NotAllowedError):
            hosts.resolve(address, field="url", lookup=lambda *_: found)


@pytest.mark.parametrize("text", ["a b", "http://a", "10.0.0.0/33", "1.2.3", "10.0.0.1/24", "a@b", "0x7f000001", "*"])
def test_a_list_that_cannot_be_read_is_refused(text):
    """With the entry that is none, so that no mistake opens or closes anything in silence."""
    with pytest.raises(ValueError, match="is none"):
        AllowList.parse(f"vllm.example,{text}")


def test_a_name_without_an_address_is_told():
    """As the system has it."""
    with pytest.raises(EndpointError, match=r"nowhere\.invalid"):
        look_up("nowhere.invalid", 80)


@pytest.mark.parametrize("url", ["http://10.0.0.1:8000", "http://169.254.169.254", "https://example.com"])
def test_the_service_refuses_before_anything_is_queued(refusing, servers, url):
    """403, with what is expected and what to do; whichever of the two URLs it is."""
    base, spec = servers
    for attach in ({"speculative_url": url}, {"speculative_url": spec.url, "baseline_url": url}):
        answer = refusing.post("/v1/profiles", json=attach_body(base, spec, attach=attach))
        assert answer.status_code == 403
        told = answer.json()
        assert told["type"].endswith(":not-allowed")
        assert told["errors"][0]["field"] == f"attach.{list(attach)[-1]}"
        assert "SPECWORTH_ATTACH_HOSTS" in told["errors"][0]["remedy"]
    hidden = refusing.post(
        "/v1/profiles", json=attach_body(base, spec, attach={"speculative_url": "http://2130706433"})
    )
    assert hidden.status_code == 422
    assert refusing.get(JOBS).json()["jobs"] == []


def test_the_worker_connects_to_what_it_checked(servers):
    """A name that leads elsewhere by the time of the connection changes nothing: it is not looked up again."""
    base, _ = servers
    port = base.url.rpartition(":")[2]

    async def ask() -> int:
        endpoint = Endpoint(f"http://vllm.invalid:{port}", address="127.0.0.1")
        async with endpoint.session() as session, session.get("health") as reply:
            return reply.status

    assert asyncio.run(ask()) == 200


@ON_SQLITE
def test_redirects_are_not_followed(client, servers, start_worker):
    """A server that sends its clients elsewhere fails the job, and nobody comes to where it points."""
    base, _ = servers
    with fake_vllm() as target, fake_vllm(Knobs(redirect_to=target.url)) as redirecting:
        start_worker()
        job = submit(client, attach_body(base, redirecting, attach={"speculative_url": redirecting.url}))
        found = wait_until(client, job, ended)
        assert found["state"] == "failed"
        assert "redirects" in json.dumps(found["problem"])
        assert target.bodies == []
        assert target.scrapes == 0
