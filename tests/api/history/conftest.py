"""Both databases, for real: a file of SQLite, and a PostgreSQL server of Debian's that these tests start."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor import advise
from api.history import schema
from api.history.database import Database, read_url
from api.history.record import RecommendationPost, Record, record_of
from tests.postgresql import Cluster, running


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


MakeRecord = Callable[..., Record]


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    """Makes records of real answers; changes to columns are given by name."""
    answers: dict[str, Any] = {}

    def make(*, labels: tuple[str, ...] = (), post: dict[str, Any] | None = None, **changes: Any) -> Record:
        request = RecommendationPost.model_validate(
            {
                "prompts": ["Write a haiku about rain."],
                "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"},
                "traffic": {"concurrency": 4, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
            }
            | (post or {})
        )
        known = request.model_dump_json()
        if known not in answers:
            answers[known] = advise(request)
        answer = answers[known].model_copy(update={"id": uuid.uuid4().hex})
        record = record_of(request, answer, text=answer.model_dump_json(), asked_by=None)
        return dataclasses.replace(record, labels=labels or record.labels, values=record.values | changes)

    return make
