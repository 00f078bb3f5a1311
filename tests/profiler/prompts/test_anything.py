"""Whatever a file or a request holds, the reader gives a sample or a refusal of its own, never another exception."""

from __future__ import annotations

import contextlib
import io
import json
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.errors import PromptsError
from profiler.prompts import FORMATS, prompts_from_objects, read_prompts
from profiler.prompts.container import CONTAINERS

KEYS = st.sampled_from(
    [
        "messages", "prompt", "input", "role", "content", "text", "texts", "turns", "conversations",
        "body", "custom_id", "url", "response", "request", "data", "question", "function", "instruction",
        "mapping", "inputs",
        "call_type", "chosen", "tools", "temperature", "max_tokens", "response_format", "usage", "choices",
        "attributes",
        "contents", "parts", "type", "from", "value", "system", "prompt_token_ids", "request_body", "log", "row",
        "session_id", "hash_ids", "input_length", "error", "images", "trace_id", "conversation", "items", "prompt_0",
        "tool_calls",
    ]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(),
    st.sampled_from(["", "x", "user", "assistant", "[1, 2]", '{"a": 1}',
                     '[{"role": "user", "content": "q"}]', '{"messages":']),
    st.text(max_size=20),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=12
)
JSON_LIKE = st.text(alphabet='[]{}":,\\n tfu0189.' + string.ascii_letters[:8] + "\n\t\ufeff\x00é", max_size=80)


@settings(max_examples=300, deadline=None)
@given(value=VALUES, format=st.sampled_from([None, *(slug for slug in FORMATS if slug not in CONTAINERS)]))
def test_any_json_value(value: object, format: str | None) -> None:
    """As a line of a file under any shape, and as an item of a request; every record is accounted for."""
    content = (json.dumps(value) + "\n").encode()
    with contextlib.suppress(PromptsError):
        sample = read_prompts(io.BytesIO(content * 2), format=format, lengths_suffice=True)
        assert sample.usable + sum(sample.skipped.values()) == sample.records
        for prompt in sample.prompts:
            prompt.text.encode()
    with contextlib.suppress(PromptsError):
        prompts_from_objects([value])


@settings(max_examples=300, deadline=None)
@given(text=JSON_LIKE, format=st.sampled_from([None, "jsonl", "json", "csv", "tsv", "text", "log"]))
def test_any_text(text: str, format: str | None) -> None:
    """As a file of any packing."""
    with contextlib.suppress(PromptsError):
        read_prompts(io.BytesIO(text.encode()), format=format, lengths_suffice=True)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """As a file."""
    with contextlib.suppress(PromptsError):
        read_prompts(io.BytesIO(content), lengths_suffice=True)
