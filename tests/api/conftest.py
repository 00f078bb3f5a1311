"""A real server on a loopback port, and the real console script: what users meet, not what is inside.

Both databases are real, too: a file of SQLite, and a PostgreSQL server of Debian's that these tests start.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from api.app import create_app
from api.history import schema
from api.history.database import Database, read_url
from api.main import run as run_command
from api.settings import Settings
from tests.advisor.deployments import LLAMA_8B as LLAMA_CONFIG
from tests.postgresql import Cluster, running


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The service on a free loopback port, in a thread; gives its URL."""
    config = uvicorn.Config(create_app(settings), host="127.0.0.1", port=0, log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the server died"
        assert time.monotonic() < until, "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)


@pytest.fixture(scope="session", autouse=True)
def _data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a service keeps by default goes to a folder of the tests, not to that of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session")
def serve() -> Callable[[Settings], contextlib.AbstractContextManager[str]]:
    """Starts a server with settings of one's own."""
    return serving


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One server for all tests; each takes a database of its own."""
    with running() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite3'}"
    started: Cluster = request.getfixturevalue("cluster")
    return started.create(f"test_{uuid.uuid4().hex}")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty database with our tables."""
    opened = Database(read_url(database_url), wait_s=5.0)
    schema.prepare(opened)
    yield opened
    opened.close()


@pytest.fixture
def llama_config() -> dict[str, Any]:
    """The config.json of an 8B Llama."""
    return dict(LLAMA_CONFIG)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A server with the default settings."""
    with serving(Settings()) as address:
        yield address


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as opened:
        yield opened


@pytest.fixture
def body() -> dict[str, Any]:
    """A small request that is valid."""
    return {
        "prompts": ["Write a Python function that merges overlapping intervals."],
        "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"},
        "traffic": {"concurrency": 4, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
    }


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def specworth(tmp_path: Path) -> Run:
    """Runs the installed console script, in a folder that is not the checkout."""
    script = Path(sys.executable).with_name("specworth")

    def run(*arguments: str | Path, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script, *map(str, arguments)],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=600,  # against a hang alone: training takes minutes where other tests run beside it
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1"} | environment,
        )

    return run


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The same without a process of its own: the whole of `specworth` but the script, for many small cases."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = run_command(list(map(str, arguments)))
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, err)

    return call


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """A file with a few prompts, one a line."""
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"messages": [{"role": "user", "content": "Return the invoice as JSON."}], "temperature": 0}\n'
        '{"prompt": "Write a Python function that merges intervals.", "max_tokens": 200}\n'
        '"Translate into German: the door is open."\n',
        encoding="utf-8",
    )
    return path
