"""A service and workers as processes of their own, on both databases, against stand-in servers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.settings import Settings
from tests.api.round_robin import round_robin
from tests.fake_vllm import FakeVllm, Knobs, fake_vllm

SERVE = Path(__file__).resolve().parents[2] / "fake_serve.py"
CONFIG = {"method": "ngram", "num_speculative_tokens": 4}
JOBS = "/v1/profiles/jobs"
# Of equal servers: a question that no number of pairs settles.
OPEN: dict[str, Any] = {"policy": {"min_speedup": 1.0, "confidence": 0.9999}}
ENDLESS: dict[str, Any] = OPEN | {"budget_s": 120}


def prompts(count: int = 40, *, max_tokens: int = 13) -> list[dict[str, Any]]:
    """That all differ, at temperature 0."""
    return [
        {"prompt": f"say number {i} with many words please", "max_tokens": max_tokens, "temperature": 0}
        for i in range(count)
    ]


def attach_body(base: FakeVllm, spec: FakeVllm, **changes: Any) -> dict[str, Any]:
    """A job on two running servers."""
    return (
        {
            "prompts": prompts() if spec.knobs.tokens_per_step > 1 else prompts(400),
            "target": "meta-llama/Llama-3.1-8B-Instruct",
            "speculative_config": CONFIG,
            "attach": {"baseline_url": base.url, "speculative_url": spec.url},
            "traffic": {"concurrency": 4},
            "budget_s": 20,
            "look_around": False,
        }
        | ({} if spec.knobs.tokens_per_step > 1 else ENDLESS)
        | changes
    )


def launch_body(model: str, **changes: Any) -> dict[str, Any]:
    """A job on servers that the worker starts."""
    return {
        "prompts": prompts(), "target": model, "speculative_config": CONFIG, "launch": {},
        "traffic": {"concurrency": 4}, "budget_s": 20, "look_around": False,
    } | changes  # fmt: skip


def open_body(model: str, count: int = 400, **changes: Any) -> dict[str, Any]:
    """The same about equal servers: nothing but its budget of 20 s, of each server, ends it."""
    return launch_body(model, prompts=prompts(count), **OPEN, **changes)


@pytest.fixture
def servers() -> Iterator[tuple[FakeVllm, FakeVllm]]:
    """A baseline, and a server that emits three tokens a step."""
    slow = {"ttft_s": 0.01, "step_s": 0.02}
    with (
        fake_vllm(Knobs(**slow)) as base,
        fake_vllm(Knobs(**slow, tokens_per_step=3, num_speculative_tokens=4)) as spec,
    ):
        yield base, spec


@pytest.fixture
def endless() -> Iterator[tuple[FakeVllm, FakeVllm]]:
    """Servers that need most of a minute for a job, and answer something all along."""
    slow = {"ttft_s": 0.1, "step_s": 0.008, "jitter_s": 0.1}
    with fake_vllm(Knobs(**slow)) as base, fake_vllm(Knobs(**slow, num_speculative_tokens=4)) as spec:
        yield base, spec


StartWorker = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def lease_s() -> float | None:
    """The workers' lease, None for what operators get: a busy host can keep a process waiting for seconds."""
    return None


@pytest.fixture
def start_worker(database_url: str, tmp_path: Path, lease_s: float | None) -> Iterator[StartWorker]:
    """Starts `specworth worker` on the test's database; all are killed at the end."""
    script = Path(sys.executable).with_name("specworth")
    started: list[subprocess.Popen[str]] = []

    def start(**settings: str) -> subprocess.Popen[str]:
        given = {"DATABASE_URL": database_url, "LOG_FORMAT": "json"}
        given |= {} if lease_s is None else {"JOB_LEASE_S": str(lease_s)}
        given |= {name.upper(): value for name, value in settings.items()}
        environment = os.environ | {f"SPECWORTH_{name}": value for name, value in given.items()}
        log = (tmp_path / f"worker-{len(started)}.log").open("w")
        process = subprocess.Popen([script, "worker"], stdout=log, stderr=log, env=environment, text=True, cwd=tmp_path)
        started.append(process)
        until = time.monotonic() + 30
        while "takes profile jobs" not in Path(log.name).read_text():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for log in sorted(tmp_path.glob("worker-*.log")):
            print(log.read_text())


@pytest.fixture
def service(database_url: str, serve: Any) -> Callable[..., contextlib.AbstractContextManager[httpx.Client]]:
    """A client of a service on the test's database, with settings of one's own; on PostgreSQL of two, asked in turn."""

    @contextlib.contextmanager
    def started(**settings: Any) -> Iterator[httpx.Client]:
        own = Settings(database_url=database_url, **settings)
        with contextlib.ExitStack() as stack:
            count = 2 if database_url.startswith("postgresql") else 1
            urls = [stack.enter_context(serve(own)) for _ in range(count)]
            yield stack.enter_context(round_robin(urls))

    return started


@pytest.fixture
def client(service: Any) -> Iterator[httpx.Client]:
    """The same with the default settings."""
    with service() as opened:
        yield opened


# Where the database changes nothing about a claim, one kind of it is enough.
ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
ON_POSTGRESQL = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.fixture(scope="module")
def refusing(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One service for many requests of which it queues none; it may launch two models."""
    own = Settings(
        database_url=f"sqlite:///{tmp_path_factory.mktemp('refusing') / 'history.sqlite3'}",
        launch_models="Qwen/Target, Qwen/Drafter",
    )
    with serve(own) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        yield client


def submit(client: httpx.Client, body: dict[str, Any], key: str | None = None) -> str:
    """The id of a new job."""
    answer = client.post("/v1/profiles", json=body, headers={} if key is None else {"Idempotency-Key": key})
    assert answer.status_code == 202, answer.text
    job: str = answer.json()["id"]
    assert answer.headers["location"] == f"{JOBS}/{job}"
    return job


def wait_until(
    client: httpx.Client, job: str, wanted: Callable[[dict[str, Any]], bool], timeout_s: float = 40.0
) -> dict[str, Any]:
    """The job once it is as wanted."""
    until = time.monotonic() + timeout_s
    while True:
        found: dict[str, Any] = client.get(f"{JOBS}/{job}").json()
        if wanted(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(0.05)


def ended(job: dict[str, Any]) -> bool:
    """Whether it has ended."""
    return job["state"] not in ("queued", "running")


def measured_once(job: dict[str, Any]) -> bool:
    """Whether it runs, and something was answered in a wave."""
    assert not ended(job), job
    return bool(job["state"] == "running" and job["progress"].get("answered"))


def wait_for_kept(client: httpx.Client, job: str, timeout_s: float = 40.0) -> None:
    """Until a wave is over and the partial profile with it stands in the database, whatever becomes of its worker."""
    until = time.monotonic() + timeout_s
    after, told = 0, ""
    while told != "wave_finished":
        assert time.monotonic() < until
        assert not ended(client.get(f"{JOBS}/{job}").json())
        for event in read_events(client, job, after=after, most=1):
            after, told = int(event["id"]), event["event"]


def read_events(
    client: httpx.Client, job: str, after: int | None = None, most: int | None = None
) -> list[dict[str, Any]]:
    """Events until the stream ends, or `most` of them."""
    found: list[dict[str, Any]] = []
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    with client.stream("GET", f"{JOBS}/{job}/events", headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        event: dict[str, Any] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name in ("id", "event", "data"):
                event[name] = json.loads(value) if name == "data" else value
            elif not line and event:
                found.append(event)
                event = {}
                if len(found) == most:
                    break
    return found


def processes_of(word: str) -> list[int]:
    """Processes of this machine that have the word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if str(SERVE).encode() in words and word.encode() in words:
                    found.append(int(entry.name))
    return found
