"""Structured output and tools reach the server as the request stated them, in the form that vLLM takes."""

import pytest

from profiler.load import RequestPlan
from profiler.load.demands import sendable
from profiler.prompts import prompts_from_objects
from profiler.prompts.sample import Prompt

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
OPENAI = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
FUNCTION = {"name": "f", "description": "", "parameters": SCHEMA}
OFFERED = [{"type": "function", "function": FUNCTION}]
JSON_OBJECT = {"response_format": {"type": "json_object"}}
AS_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}}


def read(record: dict) -> Prompt:
    return prompts_from_objects([{"messages": [{"role": "user", "content": "give it"}], **record}]).prompts[0]


@pytest.mark.parametrize(
    ("record", "sent"),
    [
        ({"response_format": OPENAI}, {"response_format": OPENAI}),
        ({"response_format": {"type": "json_object"}}, JSON_OBJECT),
        ({"response_format": {"type": "text"}}, {}),
        ({"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}}, AS_SCHEMA),
        ({"format": SCHEMA}, AS_SCHEMA),
        ({"format": "json"}, JSON_OBJECT),
        ({"guided_json": SCHEMA}, {"structured_outputs": {"json": SCHEMA}}),
        ({"extra_body": {"guided_regex": "a+"}}, {"structured_outputs": {"regex": "a+"}}),
        ({"structured_outputs": {"choice": ["a", "b"]}}, {"structured_outputs": {"choice": ["a", "b"]}}),
        ({"generationConfig": {"responseMimeType": "application/json", "response_schema": SCHEMA}}, AS_SCHEMA),
        ({"tools": OFFERED}, {"tools": OFFERED, "tool_choice": "none"}),
        ({"tools": OFFERED, "tool_choice": "required"}, {"tools": OFFERED, "tool_choice": "required"}),
        ({"tools": [{"name": "f", "input_schema": SCHEMA}]}, {"tools": OFFERED, "tool_choice": "none"}),
        ({"tools": [{"functionDeclarations": [{"name": "f", "parameters": SCHEMA}]}]},
         {"tools": OFFERED, "tool_choice": "none"}),
        ({"functions": [FUNCTION]}, {"tools": OFFERED, "tool_choice": "none"}),
        ({"toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": SCHEMA}}}]}},
         {"tools": OFFERED, "tool_choice": "none"}),
        ({"tools": "garbage", "tool_choice": "auto"}, {}),
    ],
)  # fmt: skip
def test_each_form_is_sent_as_vllm_takes_it(record: dict, sent: dict) -> None:
    """Forms of other APIs become vLLM's; what has no counterpart is left out."""
    prompt = read(record)
    body = RequestPlan(model="m").body(prompt)
    assert {name: body[name] for name in ("response_format", "structured_outputs", "tools", "tool_choice")
            if name in body} == sent  # fmt: skip


def test_tools_and_a_format_go_together() -> None:
    """A request that states both sends both, wherever they stood."""
    prompt = read({"tools": OFFERED, "extra_body": {"guided_json": SCHEMA}})
    body = sendable(prompt.demands or {})
    assert body["tools"] == OFFERED
    assert body["structured_outputs"] == {"json": SCHEMA}


def test_a_prompt_without_demands_sends_none() -> None:
    """Nothing is added to a plain request."""
    body = RequestPlan(model="m").body(read({}))
    assert not {"tools", "tool_choice", "response_format", "structured_outputs"} & set(body)
