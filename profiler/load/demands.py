"""Response formats and tools as vLLM's chat API takes them, from the forms in which requests of other APIs carry them.

Structured output and tool schemas decide how much of a draft survives, so a probe must send them as the user's requests
do. Forms of OpenAI (chat, Responses), Anthropic, Gemini, Ollama and of vLLM's older options are brought to
`response_format`, `structured_outputs` and `tools`. What has no counterpart is left out.

Tools are offered with tool_choice "none" unless the request forces one: they then stand in the prompt as always, and
the server needs no tool parser, which would only cut the answer into pieces after it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_GUIDED = ("guided_json", "guided_regex", "guided_choice", "guided_grammar")  # vLLM before structured_outputs
_MEDIA_TYPES = ("responseMimeType", "response_mime_type")
_SENDABLE_FORMATS = ("json_object", "json_schema", "structural_tag")


def sendable(demands: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a chat body that state these demands; empty where none can be stated."""
    body: dict[str, Any] = {}
    tools = [tool for key in ("tools", "functions", "toolConfig") for tool in _tools(_plain(demands.get(key)))]
    if tools:
        choice = _plain(demands.get("tool_choice"))
        body["tools"] = tools
        body["tool_choice"] = choice if choice == "required" or isinstance(choice, Mapping) else "none"
    for key, value in sorted(demands.items(), key=lambda item: item[0] in _MEDIA_TYPES):  # a schema says more
        stated = _format(key, _plain(value))
        if stated:
            body.update(stated)
            break
    return body


def _format(key: str, value: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """One demand on the form of the answer."""
    if key in _GUIDED:
        return {"structured_outputs": {key.removeprefix("guided_"): value}}
    if key == "structured_outputs":
        return {key: value} if isinstance(value, Mapping) else None
    if key in ("response_schema", "responseSchema"):
        return _schema(value)
    if isinstance(value, str):
        asks_json = value in ("json", "json_object", "application/json")
        return {"response_format": {"type": "json_object"}} if asks_json else None
    if not isinstance(value, Mapping) or key in ("tools", "functions", "toolConfig", "tool_choice"):
        return None
    if key == "format":  # Ollama: the schema itself
        return _schema(value)
    if isinstance(value.get("format"), Mapping):
        return _format("response_format", value["format"])
    kind = value.get("type")
    if kind == "json_schema" and not isinstance(value.get("json_schema"), Mapping):
        return _schema(value.get("schema"))
    return {"response_format": dict(value)} if kind in _SENDABLE_FORMATS else None


def _schema(schema: Any) -> dict[str, Any] | None:  # noqa: ANN401
    if not isinstance(schema, Mapping):
        return None
    named = {"name": "answer", "schema": dict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _tools(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Tools in OpenAI's form, whichever form they came in."""
    if isinstance(value, Mapping):
        value = value.get("tools", [value])
    found: list[dict[str, Any]] = []
    for tool in value if isinstance(value, list | tuple) else ():
        if not isinstance(tool, Mapping):
            continue
        declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        for one in declared if isinstance(declared, list) else [tool]:
            if isinstance(one, Mapping) and isinstance(one.get("toolSpec"), Mapping):  # Bedrock
                one = one["toolSpec"]
            if isinstance(one, Mapping) and isinstance(one.get("function"), Mapping):
                found.append({"type": "function", "function": dict(one["function"])})
            elif isinstance(one, Mapping) and isinstance(one.get("name"), str):
                schema = one.get("parameters", one.get("input_schema", one.get("inputSchema")))
                schema = schema.get("json", schema) if isinstance(schema, Mapping) else None
                function = {"name": one["name"], "description": str(one.get("description") or "")}
                if isinstance(schema, Mapping):
                    function["parameters"] = dict(schema)
                found.append({"type": "function", "function": function})
    return found


def _plain(value: Any) -> Any:  # noqa: ANN401
    """A value that came as JSON text, decoded."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value
