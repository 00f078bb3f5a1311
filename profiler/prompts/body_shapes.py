"""Readers for request bodies: OpenAI's chat, completions and Responses, Anthropic, Gemini, TGI, Triton, token ids.

Sources of the field names: the API references of each, and vLLM's custom data set (prompt, output_tokens).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from profiler.prompts.account import Remarks
from profiler.prompts.answers import answer_text, known_counts
from profiler.prompts.messages import ROLES
from profiler.prompts.request import (
    LATER_TURNS,
    decode_nested,
    read_body,
    read_value,
    token_ids,
)
from profiler.prompts.sample import Message, Prompt
from profiler.prompts.settings import MAX_TEMPERATURE, MAX_TOKENS, read_settings

ANSWER_KEYS = ("output", "completion", "response", "answer", "answers", "generated_text", "canonical_solution",
"solution",
               "code", "label", "target", "response_a", "chosen", "text_output")  # fmt: skip
_ANSWERS = frozenset(ANSWER_KEYS)
_PLAIN_KEYS = frozenset({"messages", "model", "max_tokens", "temperature", "stream", "user", "id"})


def answer_beside(record: Mapping[str, Any]) -> str | None:
    """A past answer in one of the fields in which data sets keep it."""
    if _ANSWERS.isdisjoint(record):
        return None
    for key in ANSWER_KEYS:
        value = record.get(key)
        if value:
            return answer_text(value)
    return None


def chat(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"messages": [...]} with whatever stands beside it; the most frequent shape of all."""
    return _plain_chat(record, remarks) or _any_chat(record, remarks)


def _plain_chat(record: Mapping[str, Any], remarks: Remarks) -> Prompt | None:
    """The request where nothing is out of the ordinary, as in nearly every line of a large log; None leaves it to the
    general reader, which would give the same at twice the cost.
    """
    if not _PLAIN_KEYS.issuperset(record):
        return None
    turns = []
    messages = record.get("messages")
    for message in messages if type(messages) is list else ():
        if type(message) is not dict or len(message) != 2:
            return None
        named, text = message.get("role"), message.get("content")
        role = ROLES.get(named) if type(named) is str else None
        if role is None or type(text) is not str:
            return None
        turns.append(Message(role, text))
    if not turns or turns[-1].role != "user" or turns[0].role == "assistant":
        return None
    last = turns[-1].text
    if len(last) < 40 or " " not in last or last.isspace():  # blank, or what stands for a redacted text
        return None
    max_tokens, temperature = record.get("max_tokens"), record.get("temperature")
    if max_tokens is not None and not (type(max_tokens) is int and 1 <= max_tokens <= MAX_TOKENS):
        return None
    if temperature is not None:
        if type(temperature) not in (int, float) or not 0 <= temperature <= MAX_TEMPERATURE:
            return None
        temperature = float(temperature)
    return Prompt(tuple(turns), max_tokens, temperature, line=remarks.line or None)


def _any_chat(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    return read_body(record, remarks, output=answer_beside(record), known=known_counts(record))


def body(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """An API body as it was sent: a last assistant turn is a prefilled start."""
    return read_body(
        record, remarks, is_request=True, output=answer_text(record.get("output") or record.get("completion"))
    )


def completion(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"prompt": ...}: a text, texts, messages or token ids; vLLM's custom data set states output_tokens beside it."""
    if "response_a" in record or "model_a" in record:  # Chatbot Arena's pairs: the user's turns as JSON text
        turns = decode_nested(record.get("prompt"))
        if isinstance(turns, list) and turns and all(isinstance(turn, str) for turn in turns):
            if len(turns) > 1:
                remarks.add(LATER_TURNS)
            record = {**record, "prompt": turns[0]}
    settings = known_counts(record)
    prefix = record.get("prefix") or record.get("system_prompt")
    prompt = record.get("prompt", record.get("prompts"))
    if prefix and isinstance(prompt, str) and "suffix" not in record and prompt.strip():
        record = {**record, "system": record.get("system") or prefix}  # GuideLLM's prefix column
    return read_body(record, remarks, output=answer_beside(record), known=settings)


def ids(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """Token ids; a text beside them is read instead."""
    for key in ("prompt", "text", "messages"):
        value = record.get(key)
        if value and not (isinstance(value, list) and isinstance(value[0], int | list)):
            return read_body(record, remarks, output=answer_beside(record))
    for key in ("prompt_token_ids", "input_ids", "token_ids", "tokens", "prompt"):
        value = record.get(key)
        if isinstance(value, list) and value:
            raise token_ids(value[0] if isinstance(value[0], list) else value, known_counts(record))
    return read_body(record, remarks)


def field(name: str, answer: str) -> Callable[[Mapping[str, Any], Remarks], Prompt]:
    """A reader for a text in one field and its past answer in another."""

    def read(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
        settings = {**known_counts(record), **read_settings(record, remarks)}
        return read_value(
            record.get(name), remarks, settings=settings, output=answer_text(record.get(answer)), place=name
        )

    return read
