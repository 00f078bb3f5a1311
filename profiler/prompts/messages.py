"""Turns of a conversation from the ways in which APIs and data sets write them.

Read: OpenAI chat messages (text, parts, tool calls with arguments as text or as objects), Responses items, Anthropic
blocks, Gemini parts, ShareGPT's from/value, OASST roles, ChatGPT parts. Only text is kept; image, audio and file parts
are counted. Reasoning blocks are no part of what is sent and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.sample import Json, Message, Role

ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human", "prompter", "customer", "usr", "question"), "user"),
    **dict.fromkeys(
        (
            "assistant", "gpt", "chatgpt", "bing", "bard", "model", "bot", "ai", "claude", "gemini", "answer",
            "function_call", "chatbot", "agent",
        ),
        "assistant",
    ),
    **dict.fromkeys(("system", "developer", "root"), "system"),
    **dict.fromkeys(
        ("tool", "function", "observation", "ipython", "environment", "tool_response", "function_response",
         "tool_result", "function_call_output"),
        "tool",
    ),
}  # fmt: skip
TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
CALL_PARTS = frozenset({"tool_use", "function_call", "server_tool_use", "mcp_tool_use"})
SILENT_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content", "cache_control"})
CONTENT_KEYS = ("content", "value", "text", "parts", "contents", "message", "output")
EMPTY_ANSWER = "assistant turns without text kept as they are"


def read_turns(value: list[Any], remarks: Remarks) -> tuple[list[Message], int]:
    """The turns of a list of messages, and the number of parts that are no text.

    Raises:
        NoPrompt: an entry that is no message at all.
    """
    turns: list[Message] = []
    others = 0
    for position, entry in enumerate(value):
        if type(entry) is dict:
            content = entry.get("content")
            named = entry.get("role")
            role = ROLES.get(named) if type(named) is str else None
            if role is not None and type(content) is str and "tool_calls" not in entry:
                turns.append(Message(role, content))  # by far the most frequent kind
                continue
        if isinstance(entry, str):
            turns.append(Message("user" if position % 2 == 0 else "assistant", entry))  # UltraChat: alternating texts
            continue
        if not isinstance(entry, Mapping):
            raise NoPrompt(
                "a message that is no object", f"message {position} is {kind_of(entry)}", field=f"messages[{position}]"
            )
        turn, parts = _read_turn(entry, position, remarks)
        others += parts
        if turn is not None:
            turns.append(turn)
    return turns, others


def _read_turn(entry: Mapping[str, Any], position: int, remarks: Remarks) -> tuple[Message | None, int]:
    entry = _without_wrapping(entry)
    kind = _word(entry.get("type"))
    if kind in SILENT_PARTS or kind == "item_reference":
        return None, 0
    role = _role(entry, position, remarks)
    texts: list[str] = []
    others = 0
    for key in CONTENT_KEYS:
        if entry.get(key) is not None:
            if role == "tool" and isinstance(entry[key], Mapping) and "type" not in entry[key]:
                texts.append(as_json(entry[key]))  # a result as an object, which a client turns into text
                break
            text, others = read_content(entry[key], remarks)
            texts.append(text)
            break
    texts.extend(_tool_calls(entry))
    text = "\n".join(t for t in texts if t)
    if role == "assistant" and not text:
        remarks.add(EMPTY_ANSWER)
    return Message(role, text), others


def _without_wrapping(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """LangChain's messages, serialised by its dumps (kwargs) or by messages_to_dict (data), as plain ones."""
    inner = entry.get("kwargs", entry.get("data"))
    if not isinstance(inner, Mapping) or "content" not in inner or "content" in entry or "role" in entry:
        return entry
    names = entry.get("id")
    written = names[-1] if isinstance(names, list) and names else None  # [..., "HumanMessage"]
    kind = _word(inner.get("type")) or _word(written) or _word(entry.get("type")) or ""
    kind = kind.removesuffix("Chunk").removesuffix("Message").lower()
    return {"role": kind, **{key: value for key, value in inner.items() if key in ("content", "tool_calls")}}


def _role(entry: Mapping[str, Any], position: int, remarks: Remarks) -> Role:
    named = entry.get("role", entry.get("from", entry.get("author", entry.get("speaker"))))
    if isinstance(named, Mapping):  # ChatGPT: author: {role: ...}
        named = named.get("role")
    if named is None and _word(entry.get("type")) in ROLES:
        named = entry["type"]  # Responses: function_call, function_call_output; LangChain: human, ai
    if isinstance(named, str):
        role = ROLES.get(named.strip().lower())
        if role is not None:
            return role
    if named is None and "from" not in entry and "role" not in entry and not remarks.strict:
        remarks.add("messages without a role read as the user's")
        return "user"
    if remarks.strict:
        raise NoPrompt(
            "a message with an unknown role", f"got {named!r}; system, user, assistant or tool",
            field=f"messages[{position}].role",
        )  # fmt: skip
    remarks.add("messages with an unknown role read as the user's")
    return "user"


def read_content(content: Json, remarks: Remarks) -> tuple[str, int]:
    """The text of one message's content, and how many of its parts are no text."""
    if isinstance(content, str):
        return content, 0
    if content is None:
        return "", 0
    if isinstance(content, Mapping):
        return _read_part(content, remarks)
    if isinstance(content, list | tuple):
        texts, others = [], 0
        for part in content:
            text, more = read_content(part, remarks)
            if text:
                texts.append(text)
            others += more
        return "\n".join(texts), others
    return str(content), 0


def _read_part(part: Mapping[str, Any], remarks: Remarks) -> tuple[str, int]:
    kind = _word(part.get("type", part.get("content_type")))
    text = part.get("text")
    if kind in SILENT_PARTS:
        return "", 0
    if isinstance(text, Mapping):  # OpenAI Assistants: text: {value: ...}
        text = text.get("value")
    if (kind in TEXT_PARTS or kind is None) and isinstance(text, str):
        return text, 0
    if kind in TEXT_PARTS and isinstance(part.get("content"), str):  # OpenTelemetry's GenAI conventions
        return part["content"], 0
    call = part.get("functionCall", part.get("toolUse", part if kind in CALL_PARTS else None))
    if isinstance(call, Mapping):
        return _written_call(call), 0
    if kind in ("tool_result", "function_response", "mcp_tool_result", "web_search_tool_result"):
        return read_content(part.get("content", part.get("output")), remarks)
    for key in ("functionResponse", "toolResult"):
        if isinstance(part.get(key), Mapping):
            inner = part[key].get("response", part[key].get("content"))
            return (as_json(inner), 0) if isinstance(inner, Mapping) else read_content(inner, remarks)
    source = part.get("source")
    if kind == "document" and isinstance(source, Mapping) and source.get("type") == "text":
        return str(source.get("data", "")), 0
    if kind is None and "parts" in part:
        return read_content(part["parts"], remarks)
    if kind == "json" or (kind is None and "json" in part):
        return as_json(part.get("json")), 0
    if "parts" in part:
        return read_content(part["parts"], remarks)
    if kind is None and "content" in part:  # named parts: {"name": ..., "content(s)": ...}
        return read_content(part["content"], remarks)
    if kind is None and "contents" in part:
        return read_content(part["contents"], remarks)
    return "", 1


def _tool_calls(entry: Mapping[str, Any]) -> list[str]:
    calls = entry.get("tool_calls") or []
    if entry.get("function_call") is not None:
        calls = [{"function": entry["function_call"]}]
    if entry.get("type") == "function_call":
        calls = [{"function": entry}]
    if isinstance(calls, Mapping):
        calls = [calls]
    texts = []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function", call) if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            texts.append(_written_call(function))
    return texts


def _written_call(call: Mapping[str, Any]) -> str:
    arguments = next((call[key] for key in ("arguments", "args", "input") if call.get(key) is not None), None)
    return f"{call.get('name', '')}({as_json(arguments)})"


def _word(value: object) -> str | None:
    """A value that is to name a kind, where it is a text at all."""
    return value if isinstance(value, str) else None


def as_json(value: object) -> str:
    """Arguments as the text that a chat template would make of them: text stays, objects become JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode("utf-8", "replace")
    except TypeError:  # integers beyond 64 bits
        return json.dumps(value, default=str)


def kind_of(value: object) -> str:
    """What a JSON value is, in JSON's own words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a {type(value).__name__}"
