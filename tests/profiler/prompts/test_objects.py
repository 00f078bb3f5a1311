"""Prompts of an HTTP body: read strictly, since a request is to be right; every refusal names its item."""

from __future__ import annotations

from typing import Any

import pytest

from profiler.errors import PromptsError
from profiler.prompts import prompts_from_objects


def test_texts_messages_and_objects() -> None:
    """The three forms of the contract, with what may stand beside a prompt."""
    sample = prompts_from_objects(
        [
            "Write a sonnet.",
            [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
            {
                "messages": [{"role": "user", "content": "Extract."}], "max_tokens": 9, "temperature": 0.5,
                "response_format": {"type": "json_object"}, "tools": [{"type": "function"}], "output": "{}",
            },
            {"prompt": "p"},
        ]
    )  # fmt: skip
    assert [p.text for p in sample.prompts] == ["Write a sonnet.", "s\nhi", "Extract.", "p"]
    third = sample.prompts[2]
    assert (third.max_tokens, third.temperature, third.response_format, third.tools, third.output) == (
        9, 0.5, "json_object", 1, "{}",
    )  # fmt: skip
    assert (sample.records, sample.usable, sample.source) == (4, 4, None)


@pytest.mark.parametrize(
    ("item", "field", "says"),
    [
        (42, "prompts[1]", "it is a number"),
        (None, "prompts[1]", "it is null"),
        ("   ", "prompts[1]", "blank prompt"),
        ([], "prompts[1]", "no turns"),
        ({}, "prompts[1]", "no field that holds a prompt"),
        ({"mesages": []}, "prompts[1]", "fields are 'mesages'"),
        ({"prompt": None}, "prompts[1].prompt", "null or empty"),
        ({"prompt": 5}, "prompts[1].prompt", "neither text nor messages"),
        ({"prompt": "a", "temperature": -1}, "prompts[1].temperature", "must be a number from 0 to 2: got -1"),
        ({"prompt": "a", "temperature": "0.5"}, "prompts[1].temperature", "got '0.5'"),
        ({"prompt": "a", "temperature": float("nan")}, "prompts[1].temperature", "got nan"),
        ({"prompt": "a", "max_tokens": 0}, "prompts[1].max_tokens", "must be a whole number from 1"),
        ({"prompt": "a", "max_tokens": True}, "prompts[1].max_tokens", "got True"),
        ({"prompt": "a", "max_tokens": 10**12}, "prompts[1].max_tokens", "10,000,000"),
        ({"messages": [{"role": "critic", "content": "a"}]}, "prompts[1].messages[0].role", "unknown role"),
        ({"messages": [{"content": "a"}]}, "prompts[1].messages[0].role", "unknown role"),
        ({"messages": [17]}, "prompts[1].messages[0]", "a message that is no object"),
        ({"messages": [{"role": "user", "content": None}]}, "prompts[1]", "blank prompt"),
        ({"prompt": [1, 2, 3]}, "prompts[1]", "token ids without a text"),
    ],
)
def test_an_item_that_cannot_be_read_is_refused(item: Any, field: str, says: str) -> None:
    """The first bad item stops the reading, and the error's field is its place in the request."""
    with pytest.raises(PromptsError) as caught:
        prompts_from_objects(["fine", item])
    assert caught.value.field == field
    assert says in str(caught.value)
    assert str(caught.value).startswith("prompt 2 cannot be read")


def test_no_prompts_are_refused() -> None:
    """An empty list is told at its own field."""
    with pytest.raises(PromptsError, match="there are no prompts") as caught:
        prompts_from_objects([])
    assert caught.value.field == "prompts"


def test_a_sample_of_many_objects() -> None:
    """With a size, a seeded sample is kept; without one, all."""
    texts = [f"prompt {i}" for i in range(300)]
    assert len(prompts_from_objects(texts).prompts) == 300
    assert len(prompts_from_objects(texts, sample_size=20).prompts) == 20


def test_lone_surrogates_of_a_body_are_replaced() -> None:
    """JSON of a request may hold half a pair, which no tokenizer takes."""
    assert prompts_from_objects(["a \ud83d b"]).prompts[0].text == "a \ufffd b"
