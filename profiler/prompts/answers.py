"""Past answers and token counts from what gateways and APIs log beside a request.

Used only to know how long answers are and how much of the prompt they repeat; an answer in an unknown form is no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.messages import read_content, read_turns
from profiler.prompts.request import decode_nested
from profiler.prompts.sample import Json

INPUT_COUNTS = ("prompt_tokens", "input_tokens", "tokens_prompt", "input", "promptTokenCount", "inputTokens",
                "native_tokens_prompt", "input_length", "prompt_tokens_count", "prompt_eval_count", "promptTokens",
                "total_input_tokens", "inputTokenCount", "llm.token_count.prompt", "gen_ai.usage.input_tokens",
                "gen_ai.usage.prompt_tokens", "contexttokens", "request_tokens", "ContextTokens", "num_prompt_tokens",
                "tokens_in", "prompt_token_count")  # fmt: skip
OUTPUT_COUNTS = ("completion_tokens", "output_tokens", "tokens_completion", "output", "candidatesTokenCount",
                 "outputTokens", "native_tokens_completion", "output_length", "output_tokens_count", "eval_count",
                 "completionTokens", "total_output_tokens", "outputTokenCount", "llm.token_count.completion",
                 "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "generatedtokens", "response_tokens",
                 "GeneratedTokens", "num_completion_tokens", "num_generation_tokens", "tokens_out",
                 "expected_output_len", "completion_token_count")  # fmt: skip


_COUNTS = frozenset(INPUT_COUNTS + OUTPUT_COUNTS)
_NESTED_COUNTS = (
    "usage", "usage_details", "usageDetails", "usageMetadata", "usage_metadata", "response", "body", "output",
)  # fmt: skip
_NESTED = frozenset(_NESTED_COUNTS)


def answer_text(value: Json) -> str | None:
    """The text of an answer in any of the usual forms; None where there is none."""
    try:
        if isinstance(value, str):
            inner = decode_nested(value) if value[:1] in '[{"' else value
            if isinstance(inner, str) or not _is_answer(inner):
                return value or None  # an answer may itself be JSON
            value = inner
        if isinstance(value, list):
            if value and all(isinstance(item, str) for item in value):
                return value[0] or None
            turns, _ = read_turns([item for item in value if isinstance(item, Mapping)], Remarks())
            return "\n".join(turn.text for turn in turns if turn.text) or None
        if not isinstance(value, Mapping):
            return None
        for key in ("body", "response", "data"):
            if isinstance(value.get(key), Mapping | list) and "choices" not in value:
                return answer_text(value[key])
        choices = value.get("choices") or value.get("candidates")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
            first = choices[0]
            return answer_text(first.get("message") or first.get("text") or first.get("content") or first.get("delta"))
        for key in ("completion", "output_text", "generated_text", "text", "message", "output", "answer", "response"):
            if value.get(key):
                return answer_text(value[key])
        turns, _ = read_turns([{"role": "assistant", **value}], Remarks())
        return turns[0].text or None if turns else read_content(value, Remarks())[0] or None
    except (NoPrompt, TypeError, AttributeError, IndexError):
        return None


def _is_answer(value: Json) -> bool:
    """Whether decoded JSON is an API's answer or a message, not the text that a model wrote."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, Mapping) and "role" in item and "content" in item for item in value)
    return isinstance(value, Mapping) and (
        "choices" in value or "candidates" in value or {"role", "content"} <= set(value)
    )


def token_counts(record: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Input and output tokens that a record states, itself or under `usage`; None where it states none."""
    if not _COUNTS.isdisjoint(record):
        given = _first_count(record, INPUT_COUNTS), _first_count(record, OUTPUT_COUNTS)
        if given != (None, None):
            return given
    if _NESTED.isdisjoint(record):
        return None, None
    for key in _NESTED_COUNTS:
        inner = record.get(key)
        if isinstance(inner, str) and inner[:1] == "{":
            try:
                inner = decode_nested(inner)
            except NoPrompt:
                inner = None
        if isinstance(inner, Mapping):
            counts = token_counts(inner)
            if counts != (None, None):
                return counts
    return None, None


def _first_count(record: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value.strip().isdecimal() and len(value) < 19:
            value = int(value.strip())
        if isinstance(value, float) and value == value and value > 0 and value == int(value):
            value = int(value)  # a column with gaps becomes one of floats in pandas
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def known_counts(record: Mapping[str, Any]) -> dict[str, int]:
    """Token counts as fields of a Prompt."""
    given, answered = token_counts(record)
    counts = {}
    if given:
        counts["input_tokens"] = given
    if answered:
        counts["output_tokens"] = answered
    return counts
