"""Hostile inputs are refused with a clear error, by a real service: names, headers, compression, nesting, numbers.

Forms of addresses are in tests/api/jobs/test_destinations.py, shapes of bodies in tests/api/test_problems.py.
"""

from __future__ import annotations

import asyncio
import bz2
import contextlib
import copy
import gzip
import io
import json
import lzma
import socket
from collections import Counter

import httpx
import pyarrow
import pyarrow.parquet as parquet
import pytest
import zstandard

from api.examples import REQUEST_EXAMPLES
from api.jobs.destinations import AllowList, read_address
from api.settings import Settings
from profiler.load import Endpoint
from tests.api.history.processes import JSON, PATH, service
from tests.fake_vllm import fake_vllm

OWN = REQUEST_EXAMPLES["own_model_and_gpu"]["value"]


def problem(answer, status):
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert "\n" not in told["detail"]
    return told


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service as a process of its own, with logs as JSON: a client, its lines, its process, its port."""
    folder = tmp_path_factory.mktemp("hostile")
    with (
        service(folder, log_format="json", max_body_bytes="1MiB") as (process, url, lines),
        httpx.Client(base_url=url, timeout=60, trust_env=False) as client,
    ):
        yield client, lines, process, int(url.rpartition(":")[2])


@pytest.fixture
def there(served):
    return served[0]


class TestNames:
    """A name over HTTP is a name: no file is read for it, whichever file there is."""

    @pytest.fixture
    def model_folder(self, tmp_path):
        """A folder that the command line takes as a target."""
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(OWN["deployment"]["target"]["config"]))
        (folder / "tokenizer.json").write_text("{}")
        return folder

    def test_no_file_is_read_for_a_name(self, there, body, model_folder, specworth, prompts):
        """A folder with a good config.json, its file, relative ways to both: unknown names, as any other."""
        words = ["--target", str(model_folder), "--gpu", "H200", "--concurrency", "4"]
        assert specworth("advise", str(prompts), *words).returncode == 0
        up = "/".join([".."] * 20)
        for name in (
            str(model_folder), f"{model_folder}/config.json", f"file://{model_folder}", up + str(model_folder),
            "../../etc/passwd", "/etc/passwd", "..\\..\\config.json", "~/.ssh/id_rsa", "%2e%2e%2fetc%2fpasswd", ".",
            "..",
            "/dev/stdin", "/proc/self/environ", "http://127.0.0.1/x", "meta-llama/../../etc/passwd",
            "meta-llama/Llama-3.1-8B-Instruct/../../x",
        ):  # fmt: skip
            for member in ("target", "gpu"):
                asked = body | {"deployment": body["deployment"] | {member: name}}
                told = problem(there.post(PATH, json=asked), 422)
                assert told["type"].endswith(":unknown-name"), (name, told)
                assert told["errors"][0]["field"] == f"deployment.{member}"
            speculation = {"method": "draft_model", "num_speculative_tokens": 3, "draft": name}
            asked = body | {"deployment": body["deployment"] | {"speculation": speculation}}
            told = problem(there.post(PATH, json=asked), 422)
            assert told["errors"][0]["field"] == "deployment.speculation.draft", (name, told)
            assert "root:" not in json.dumps(told)

    @pytest.mark.parametrize("member", ["tokenizer", "config", "path", "prompts_file", "model_config"])
    def test_nothing_in_a_request_names_a_file(self, there, body, member):
        """Members that the command line has as options do not exist over HTTP."""
        for place in (body, body["deployment"]):
            place[member] = "/etc/passwd"
            errors = problem(there.post(PATH, json=body), 422)["errors"]
            assert any(member in error["field"] for error in errors)
            del place[member]

    @pytest.mark.parametrize(
        "path",
        [
            "/v1/recommendations/..%2f..%2f..%2fetc%2fpasswd", "/v1/recommendations/%2e%2e/%2e%2e/etc/passwd",
            "/v1/profiles/../../../etc/passwd", "/v1/profiles/jobs/..%00", "/..%2f..%2fetc/passwd", "//etc/passwd",
            "/v1/recommendations/" + "a" * 5000, "/docs/..%5c..%5cwindows", "/assets/..%2f..%2fapp.py",
            "/assets/%2e%2e/%2e%2e/app.py", "/static/../app.py",
        ],
    )  # fmt: skip
    def test_no_path_leads_to_a_file(self, served, path):
        """Sent as it stands, without a client's tidying up: 404 or 422, and nothing of a file."""
        head, body = raw(served[3], f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        assert head.split()[1] in ("404", "422", "400"), head
        assert "root:" not in body
        assert "import " not in body


def raw(port, sent):
    """The head and the body of what a server answers to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        received = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            while chunk := connection.recv(65536):
                received += chunk
    head, _, body = received.decode("latin-1").partition("\r\n\r\n")
    return head, body


class TestInjection:
    """Line ends and control characters start no line of their own, in a head, a log or a message."""

    def test_control_characters_in_names_and_labels(self, served, body):
        """Labels with them are refused, names are told escaped; the log has one line of JSON for each request."""
        client, lines, *_ = served
        evil = 'x\r\nSet-Cookie: a=1\r\n\r\n{"event":"forged"}\x1b[31m\u2028\x00'
        before = len([line for line in list(lines) if '"event":"request"' in line])
        requests = [
            body | {"labels": [evil]},
            body | {"labels": ["a\nb"]},
            body | {"deployment": body["deployment"] | {"target": evil}},
            body | {"deployment": body["deployment"] | {"gpu": evil}},
            body | {evil: 1},
            body | {"traffic": {evil: 1}},
            body | {"policy": {"objective": evil}},
        ]
        for asked in requests:
            answer = client.post(PATH, json=asked)
            told = problem(answer, 422)
            assert "set-cookie" not in answer.headers
            assert "\x1b" not in json.dumps(told, ensure_ascii=False)
            assert not any(ord(letter) < 32 for letter in told["detail"])
        noted = client.post(PATH, json=body | {"note": "a\nforged: b"}).json()  # notes are prose, and stay out of logs
        assert client.get(f"{PATH}/{noted['id']}").json()["note"] == "a\nforged: b"
        client.get("/healthz")
        told = [json.loads(line) for line in list(lines)]
        assert not any(line["event"] == "forged" for line in told)
        assert len([line for line in told if line["event"] == "request"]) - before <= len(requests) + 2
        assert "forged" not in "".join(lines)

    @pytest.mark.parametrize(
        "header",
        [
            b"X-Request-ID: a\rSet-Cookie: x=1", b"X-Request-ID: a\nSet-Cookie: x=1", b"X-Request-ID: a\x00b",
            b"X-Request-ID: a\r\n b", b"Idempotency-Key: a\rb", b"Idempotency-Key: a\x7fb", b"Last-Event-ID: 1\r\n\t2",
            b"Authorization: Bearer \xff\xfe", b"Content-Type: application/json; charset=\x01",
            b"Transfer-Encoding: gzip, chunked", b"Content-Length: 5\r\nTransfer-Encoding: chunked",
            b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: -1", b"Content-Length: 1e3",
            b"Host: evil.example", b"X: " + b"a" * 200_000,
        ],
    )  # fmt: skip
    def test_odd_heads(self, served, header):
        """Refused or harmless: never a 5xx, and nothing of it stands in the answer's head."""
        port = served[3]
        head, _ = raw(
            port,
            b"POST /v1/recommendations:validate HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            + header
            + b"\r\n\r\n",
        )
        assert head.split()[1][0] == "4", head
        assert "set-cookie" not in head.lower()
        assert "x=1" not in head

    def test_a_request_after_another_in_its_body_is_no_request(self, served, body):
        """A body that looks like a second request is read as the body that it is."""
        client, lines, *_ = served
        hidden = b"DELETE /v1/recommendations/" + b"0" * 32 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"
        problem(client.post(PATH, content=hidden, headers=JSON), 400)
        client.get("/healthz")
        assert not any('"method":"DELETE"' in line for line in list(lines))


class TestCompression:
    """Bodies are taken as they are: nothing is ever decompressed for a client."""

    @pytest.mark.parametrize(
        "name", ["gzip", "zstd", "deflate", "br", "GZIP", "gzip, gzip", "identity, gzip", "x-gzip"]
    )
    def test_a_compressed_body_is_refused_unread(self, served, name):
        """A gibibyte of spaces in some kB: 415 that says what is taken, and the process stays as small as it was."""
        client, _, process, _ = served
        bomb = ZSTD_BOMB if name == "zstd" else GZIP_BOMB
        assert len(bomb) < 2**20
        before = resident(process.pid)
        told = problem(client.post(PATH, content=bomb, headers=JSON | {"content-encoding": name}), 415)
        assert told["errors"][0]["expected"] == "no Content-Encoding"
        assert resident(process.pid) - before < 64 * 2**20

    @pytest.mark.parametrize("name", ["gzip", "zstd"])
    def test_a_compressed_body_that_does_not_say_so_is_no_json(self, there, name):
        """Its bytes are bytes."""
        bomb = ZSTD_BOMB if name == "zstd" else GZIP_BOMB
        problem(there.post(PATH, content=bomb, headers=JSON), 400)

    @pytest.mark.parametrize("media_type", ["application/gzip", "application/zip", "multipart/form-data; boundary=x"])
    def test_files_are_not_uploaded(self, there, media_type):
        """JSON is the one form."""
        problem(there.post(PATH, content=GZIP_BOMB, headers={"content-type": media_type}), 415)


class TestUploads:
    """Files of prompts: what unpacks is refused by its first bytes, whatever it is called."""

    @pytest.mark.parametrize("path", ["/v1/workloads", "/v1/comparisons/prompts"])
    @pytest.mark.parametrize("kind", ["gzip", "zstd", "bzip2", "xz", "parquet"])
    def test_nothing_is_unpacked(self, served, path, kind):
        """One line that says what it is and what to do; the process stays as small as it was."""
        client, _, process, _ = served
        content = FILE_BOMBS[kind]
        assert len(content) < 2**20
        before = resident(process.pid)
        for name in ("prompts.jsonl", f"prompts.{kind}"):
            answer = client.post(
                path, params={"name": name}, content=content, headers={"content-type": "application/octet-stream"}
            )
            told = problem(answer, 422)
            assert f"{name} is compressed" in told["detail"]
            assert told["errors"][0]["got"].lower() == kind
            assert told["errors"][0]["remedy"]
        assert resident(process.pid) - before < 64 * 2**20


def parquet_bomb() -> bytes:
    """One text of 8 MiB in 512 rows, which a dictionary and zstd make into some hundred bytes."""
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 512, pyarrow.int32()), pyarrow.array(["a" * 2**23]))
    written = io.BytesIO()
    parquet.write_table(pyarrow.table({"prompt": texts}), written, compression="zstd")
    return written.getvalue()


GZIP_BOMB = gzip.compress(b" " * 2**26, mtime=0) * 16  # members one after the other are one stream
ZSTD_BOMB = zstandard.ZstdCompressor(level=3).compress(b" " * 2**30)
FILE_BOMBS = {
    "gzip": GZIP_BOMB, "zstd": ZSTD_BOMB, "bzip2": bz2.compress(b" " * 2**22), "xz": lzma.compress(b" " * 2**22),
    "parquet": parquet_bomb(),
}  # fmt: skip


def resident(pid):
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * 4096


class TestNesting:
    """Levels are counted, whatever they are made of."""

    @pytest.mark.parametrize("depth", [65, 200, 1023, 1025, 100_000])
    @pytest.mark.parametrize("pair", ["[]", "{}"])
    def test_the_limit_that_is_told_is_the_limit_that_is_set(self, there, depth, pair):
        """64 levels, also where the parser's own limit of 1,024 is met first."""
        opening, closing = ("[", "]") if pair == "[]" else ('{"a":', "}")
        text = '{"prompts": ["a"], "note": ' + opening * depth + "1" + closing * depth + "}"
        told = problem(there.post(PATH, content=text.encode(), headers=JSON), 422)
        assert "nested too deeply; expected at most 64 levels" in told["detail"]

    def test_an_operator_may_set_another_limit(self, serve):
        """And that one is told."""
        with serve(Settings(max_json_depth=20, store=False)) as url:
            for depth in (21, 2000):
                text = b'{"a":' * depth + b"1" + b"}" * depth
                answer = httpx.post(url + PATH, content=text, headers=JSON, trust_env=False)
                assert "at most 20 levels" in problem(answer, 422)["detail"]


NUMBERS = (1e308, -1e308, 5e-324, 2**63, 2**64, 10**300, -1, 0, -0.0)


def leaves(node, path=()):
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if isinstance(child, (dict, list)):
            yield from leaves(child, (*path, key))
        else:
            yield (*path, key)


def test_no_number_anywhere_makes_the_service_fail(there):
    """The largest, the smallest, and those that no machine word holds, in each member: an answer or a 422."""
    statuses = Counter()
    for path in leaves(OWN):
        for number in NUMBERS:
            changed = copy.deepcopy(OWN)
            at = changed
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = number
            answer = there.post(PATH, json=changed)
            statuses[answer.status_code] += 1
            if answer.status_code != 200:
                assert problem(answer, 422)["errors"][0]["got"], (path, number)
            else:
                assert "NaN" not in answer.text
                assert "Infinity" not in answer.text
                json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))
    assert set(statuses) == {200, 422}


@pytest.mark.parametrize(
    "text", ["NaN", "-NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "-" + "9" * 400, "0x10", "1_0"]
)
def test_what_is_no_number_is_no_json(there, body, text):
    """In a number's place and beside it: 400 that says where."""
    for place in ('"concurrency": 4', '"temperature": 0.0'):
        asked = json.dumps(body).replace(place, place.partition(":")[0] + ": " + text)
        assert text in asked
        told = problem(there.post(PATH, content=asked.encode(), headers=JSON), 400)
        assert "line 1 column" in told["detail"]


def test_a_name_that_changes_its_address_is_asked_once(monkeypatch):
    """DNS rebinding: the answer of the one look-up is what was checked, and what is connected to."""
    asked = []
    real = socket.getaddrinfo

    def rebinding(host, port, *arguments, **options):
        if host == "vllm.example":
            asked.append(host)
            address = "127.0.0.1" if len(asked) == 1 else "10.255.255.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]
        return real(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with fake_vllm() as server:
        address = read_address(f"http://vllm.example:{server.url.rpartition(':')[2]}", field="url")
        pinned = AllowList.parse("vllm.example").resolve(address, field="url")

        async def ask():
            endpoint = Endpoint(address.url, address=pinned)
            async with endpoint.session() as session:
                for _ in range(3):
                    async with session.get("health") as reply:
                        assert reply.status == 200

        asyncio.run(ask())
    assert asked == ["vllm.example"]
