"""Every record shape is told by its keys, read right, and named; tables of cases in shapes.json, no_prompts.json."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import PromptsError
from profiler.prompts import read_prompts
from profiler.prompts.shapes import BY_SLUG, SHAPES, find_shape

HERE = Path(__file__).parent
CASES = json.loads((HERE / "shapes.json").read_text(encoding="utf-8"))
WITHOUT_PROMPTS = json.loads((HERE / "no_prompts.json").read_text(encoding="utf-8"))
FIELDS = ("max_tokens", "temperature", "response_format", "tools", "output", "input_tokens", "output_tokens")


def json_lines(records: list[Any]) -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(record) + "\n" for record in records).encode())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_each_shape_is_read_and_named(case: dict[str, Any]) -> None:
    """The format says the shape's name; counts, texts, settings, answers, reasons and remarks are the case's."""
    sample = read_prompts(json_lines(case["records"]), format="jsonl")

    assert case["shape"] in sample.format
    assert (sample.records, sample.usable) == (len(case["records"]), case["usable"])
    assert sample.prompts[0].text == case["first"]
    assert sample.skipped == case.get("skipped", {})
    assert sample.usable + sum(sample.skipped.values()) == sample.records
    for name in FIELDS:
        if name in case:
            assert [getattr(prompt, name) for prompt in sample.prompts] == case[name], name
    if "texts" in case:
        assert [prompt.text for prompt in sample.prompts] == case["texts"]
    if "sampling" in case:
        assert [sorted(prompt.sampling) for prompt in sample.prompts] == case["sampling"]
    for note in case.get("notes", []):
        assert any(note in said for said in sample.notes), (note, sample.notes)
    assert (sample.lengths.requests if sample.lengths else 0) == case.get("lengths", 0)


@pytest.mark.parametrize("case", WITHOUT_PROMPTS, ids=[case["name"] for case in WITHOUT_PROMPTS])
def test_files_without_prompts_are_named_for_what_they_are(case: dict[str, Any]) -> None:
    """The error says what the file is, and what was expected; lengths that it states can still be had."""
    with pytest.raises(PromptsError) as caught:
        read_prompts(json_lines(case["records"]), format="jsonl")
    assert case["says"] in str(caught.value)
    assert "expected JSON lines" in str(caught.value)
    if "lengths" in case:
        sample = read_prompts(json_lines(case["records"]), format="jsonl", lengths_suffice=True)
        assert sample.prompts == ()
        assert sample.lengths is not None
        assert sample.lengths.requests == case["lengths"]


def test_lengths_of_a_trace_are_told_in_the_error() -> None:
    """Who gives a trace learns its median lengths, so that they can be typed in."""
    rows = [{"timestamp": i, "input_length": 100 + i, "output_length": 10 + i, "hash_ids": []} for i in range(5)]
    with pytest.raises(PromptsError, match="5 requests, median 102 input tokens and 12 output tokens"):
        read_prompts(json_lines(rows))


def test_a_shape_can_be_forced() -> None:
    """format= takes a shape's slug: the record is read as that whatever its keys suggest."""
    record = {"instruction": "Sort these words.", "input": "b a", "prompt": "another prompt"}
    assert read_prompts(json_lines([record])).prompts[0].text == "Sort these words.\n\nb a"
    forced = read_prompts(json_lines([record]), format="completion")
    assert forced.prompts[0].text == "another prompt"
    assert "prompts" in forced.format


def test_an_unknown_format_names_the_nearest() -> None:
    """A mistyped format is refused with the nearest known one."""
    with pytest.raises(PromptsError, match=r"no format 'sharegpt4'.*did you mean 'sharegpt'") as caught:
        read_prompts(io.BytesIO(b"x"), format="sharegpt4")
    assert caught.value.field == "format"


def test_a_named_field_is_read() -> None:
    """column= names the field that holds the prompt, dotted into nested objects, settings beside it still counted."""
    rows = [{"task": {"ask": "the real one"}, "prompt": "not this", "max_tokens": 7}, {"task": {}}]
    sample = read_prompts(json_lines(rows), column="task.ask")
    assert sample.prompts[0].text == "the real one"
    assert sample.prompts[0].max_tokens == 7
    assert sample.skipped == {"no field 'task.ask'": 1}


def test_mixed_files_count_each_shape() -> None:
    """A file of two shapes names both, the more frequent one first."""
    rows: list[Any] = [{"prompt": "a"}, {"prompt": "b"}, {"messages": [{"role": "user", "content": "c"}]}]
    assert read_prompts(json_lines(rows)).format == "prompts (2), chat messages (OpenAI form) (1), JSON lines"


def test_slugs_are_unique_and_the_cache_is_bounded() -> None:
    """No two shapes share a slug, and a file whose keys are random does not grow the cache without end."""
    assert len(BY_SLUG) == len(SHAPES)
    from profiler.prompts import shapes

    for index in range(shapes._FOUND_LIMIT + 10):
        find_shape((f"key{index}",))
    assert len(shapes._found) <= shapes._FOUND_LIMIT


def test_the_short_way_of_plain_bodies_gives_what_the_long_way_gives() -> None:
    """A plain chat body is read by a short cut; every other reading of the same record is the same prompt."""
    from profiler.prompts import body_shapes
    from profiler.prompts.account import Remarks

    body = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "You are terse."},
            {"role": "user", "content": "Write a Rust function that merges two sorted slices."},
        ],
        "max_tokens": 9,
        "temperature": 1,
    }
    short = body_shapes._plain_chat(body, Remarks(line=3))
    assert short is not None
    assert short == body_shapes._any_chat(body, Remarks(line=3))
