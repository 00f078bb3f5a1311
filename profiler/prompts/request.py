"""One request from whatever stands where a prompt stands: a text, messages, a body, JSON text of these, token ids.

A conversation that ends with a user or tool turn is one request as a server gets it, history and all. One that ends
with an answer is finished: its first answered user turn is the request and that answer the past output, as vLLM's own
benchmark reads ShareGPT; later turns are remarked on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import orjson

from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.messages import kind_of, read_content, read_turns
from profiler.prompts.sample import Json, Message, Prompt
from profiler.prompts.settings import read_settings

SYSTEM_KEYS = ("system", "instructions", "systemInstruction", "system_instruction", "system_prompt")
PROMPT_KEYS = (
    "messages",
    "prompt",
    "input",
    "contents",
    "inputs",
    "prompt_token_ids",
    "prompts",
    "user_prompt",
    "text",
)
_SYSTEM = frozenset(SYSTEM_KEYS)
PARTS = "image, audio or file parts left out: only text counts"
LATER_TURNS = "conversations of several turns: the first turn with its answer is the request, later turns are not read"
STARTS_WITH_ANSWER = "conversations that start with an answer: it is kept as history"
SEVERAL_TEXTS = "requests that carry several texts: the first is read"
REDACTED = ("redacted", "[redacted]", "<redacted>", "(redacted)", "***", "redacted-by-litellm", "redacted by litellm",
            "[filtered]", "[removed]", "<removed>", "[hidden]", "<masked>", "[masked]", "__redacted__",
            "message content redacted", "[content redacted]", "content redacted", "[omitted]", "<omitted>", "omitted",
            "[scrubbed]", "[scrubbed by logfire]", "[content filtered]", "<pii>", "[pii]", "xxx")  # fmt: skip
_HASH = re.compile(r"(?:sha\d+|md5|hash)?[:=-]?[0-9a-f]{32,128}")  # what logs keep of a text that must not be kept
MISSING = frozenset({"nan", "null", "none", "n/a", "<na>", "undefined"})  # how tables write that there is nothing


def read_body(
    body: Mapping[str, Any],
    remarks: Remarks,
    *,
    is_request: bool = False,
    output: str | None = None,
    known: Mapping[str, Any] | None = None,
) -> Prompt:
    """A request body of any of the common APIs; `known` are further fields of the Prompt.

    Args:
        is_request: the body was sent as it stands, so a last assistant turn is a prefilled start, not an answer.

    Raises:
        NoPrompt: it holds no text to send.
    """
    settings = read_settings(body, remarks)
    settings.update(known or {})
    system = None
    if not _SYSTEM.isdisjoint(body):
        for key in SYSTEM_KEYS:
            if body.get(key):
                system = read_content(body[key], remarks)[0]
                break
    failure: NoPrompt | None = None
    for key in PROMPT_KEYS:
        value = body.get(key)
        if value is None or value == [] or value == {}:
            continue
        if key == "text" and not isinstance(value, str):
            continue  # Responses: text holds the format
        try:
            return read_value(
                value, remarks, system=system, settings=settings, is_request=is_request, output=output, place=key
            )
        except NoPrompt as reason:  # a row may hold its text under another key
            if remarks.strict:
                raise
            failure = failure or reason
    if failure is not None:
        raise failure
    held = [key for key in PROMPT_KEYS if key in body]
    if held:
        raise NoPrompt("no prompt: null or empty", f"in {held[0]!r}", field=held[0])
    raise NoPrompt("no field that holds a prompt", f"fields are {', '.join(map(repr, list(body)[:8]))}")


def read_value(
    value: Json,
    remarks: Remarks,
    *,
    system: str | None = None,
    settings: Mapping[str, Any] | None = None,
    is_request: bool = False,
    output: str | None = None,
    place: str = "",
) -> Prompt:
    """The request that `value` stands for; `settings` are fields of the Prompt that stand beside it."""
    settings = settings or {}
    others = 0
    if isinstance(value, str):
        nested = decode_nested(value) if value[:1] in '[{"' else value
        if place and (nested == [] or nested == {}):
            raise NoPrompt("no prompt: null or empty", field=place)
        if not isinstance(nested, str):
            inner = _nested_prompt(nested, remarks, system, settings, is_request, output)
            if inner is not None:
                return inner
        turns = [Message("user", value)]
    elif isinstance(value, list | tuple):
        items = list(value)
        if not items:
            raise NoPrompt("no turns", field=place)
        first = items[0]
        if isinstance(first, int) and not isinstance(first, bool) and place != "messages":
            raise token_ids(items, settings)
        if isinstance(first, list | tuple):  # a batch of token ids, or turns of messages
            if first and isinstance(first[0], int):
                raise token_ids(list(first), settings)
            if len(items) > 1:
                remarks.add(LATER_TURNS)
            items = list(first)
        if items and all(isinstance(item, str) for item in items):
            if len(items) > 1:
                remarks.add(SEVERAL_TEXTS)
            turns = [Message("user", next((item for item in items if item.strip()), ""))]
        else:
            turns, others = read_turns(items, remarks)
    elif isinstance(value, Mapping):
        if any(value.get(key) is not None for key in PROMPT_KEYS if key != "text"):
            return read_body(value, remarks, is_request=is_request, output=output, known=settings)
        text, others = read_content(value, remarks)
        turns = [Message("user", text)]
    elif value is None:
        raise NoPrompt("no prompt: null or empty", field=place)
    else:
        raise NoPrompt("a prompt that is neither text nor messages", f"it is {kind_of(value)}", field=place)
    if system:
        turns.insert(0, Message("system", system))
    return finish(turns, others, remarks, is_request=is_request, output=output, settings=settings)


def _nested_prompt(
    nested: object,
    remarks: Remarks,
    system: str | None,
    settings: Mapping[str, Any],
    is_request: bool,
    output: str | None,
) -> Prompt | None:
    """The request inside JSON text, or None where that JSON is itself the text of the prompt."""
    is_messages = isinstance(nested, list) and bool(nested) and all(_is_message(item) for item in nested)
    is_body = isinstance(nested, Mapping) and any(
        nested.get(key) is not None for key in ("messages", "prompt", "contents")
    )
    if not is_messages and not is_body:
        return None
    return read_value(nested, remarks, system=system, settings=settings, is_request=is_request, output=output)


def _is_message(item: object) -> bool:
    if isinstance(item, list) and item:
        return _is_message(item[0])
    return isinstance(item, Mapping) and (
        "role" in item or ("from" in item and "value" in item) or item.get("type") == "message"
    )


def decode_nested(value: object) -> object:
    """Undo JSON inside text, layer by layer (gateways encode up to twice); text that is no JSON stays text.

    Raises:
        NoPrompt: messages as JSON text that breaks off.
    """
    for _ in range(3):
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text[:1] not in ("[", "{", '"') or len(text) < 2:
            return value
        try:
            inner = orjson.loads(text)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            if text[:1] in "[{" and ("'role'" in text or "'from'" in text or "'content'" in text):
                try:  # a Python literal, as pandas writes lists into CSV
                    return ast.literal_eval(text)
                except (ValueError, SyntaxError, MemoryError, RecursionError):
                    return value
            if text[:2] in ('{"', "[{", "[ ") and text[-1] not in "]}" and ('"role"' in text or '"messages"' in text):
                raise NoPrompt("JSON text that breaks off (cut by the export)") from None
            return value
        if not isinstance(inner, str | list | Mapping):
            return value
        value = inner
    return value


def token_ids(ids: list[Any], settings: Mapping[str, Any]) -> NoPrompt:
    """The reason for a prompt given as token ids: a length, but no text."""
    return NoPrompt(
        "token ids without a text: only the length is known",
        input_tokens=len(ids),
        output_tokens=settings.get("output_tokens"),
    )


def finish(
    turns: list[Message],
    others: int,
    remarks: Remarks,
    *,
    is_request: bool,
    output: str | None,
    settings: Mapping[str, Any],
) -> Prompt:
    """Tell request from answer and make the Prompt; see the module's docstring for the rule."""
    if not turns:
        raise NoPrompt("no turns")
    if len(turns) > 1:
        if turns[0].role == "assistant":
            remarks.add(STARTS_WITH_ANSWER)
        if turns[-1].role == "assistant" and not is_request:
            turns, output = _first_answered(turns, output, remarks)
    asks = text_there = False
    last = ""
    for turn in turns:
        role, text = turn.role, turn.text
        if role == "user" or role == "tool":
            if not asks:
                asks, text_there = True, False  # a system turn's text is no prompt where a user's turn is blank
            text_there = text_there or bool(text and not text.isspace())
            last = text
        elif role == "system" and not asks:
            text_there = text_there or bool(text and not text.isspace())
            last = text
    if not text_there:
        if others:
            raise NoPrompt("no text: only image, audio or file parts")
        raise NoPrompt("blank prompt: null content, empty or only spaces" if asks else "no user turn")
    if len(last) < 160:
        word = last.strip().lower()
        if word in REDACTED or _HASH.fullmatch(word):
            raise NoPrompt("redacted: the text was replaced when it was logged")
        if word in MISSING and not remarks.strict:
            raise NoPrompt("no prompt: a word that stands for a missing value", repr(last.strip()))
    if others:
        remarks.add(PARTS)
    return Prompt(
        messages=tuple(turns), output=output or None, other_parts=others, line=remarks.line or None, **settings
    )


def _first_answered(turns: list[Message], output: str | None, remarks: Remarks) -> tuple[list[Message], str | None]:
    """The part of a finished conversation up to its first answered user turn that has text, and the answer to it."""
    asked = [i for i, turn in enumerate(turns[:-1]) if turn.role in ("user", "tool")]
    answered = [i for i in asked if turns[i + 1].role == "assistant" and turns[i].text.strip()]
    if not answered:
        return turns, output
    first = answered[0]
    if len(answered) > 1:
        remarks.add(LATER_TURNS)
    return turns[: first + 1], output or turns[first + 1].text
