"""Records of real answers."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from advisor import advise
from api.history.record import RecommendationPost, Record, record_of

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
