"""Sampling settings, tools and response formats from the fields in which requests carry them.

Names of OpenAI's, Anthropic's, Gemini's, Ollama's and TGI's APIs and of vLLM's own extensions. A value that cannot be
right is left out and remarked on in a log, refused in a request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson

from profiler.prompts.account import Remarks

MAX_TEMPERATURE = 2.0  # OpenAI API reference, chat completions: "between 0 and 2"
MAX_TOKENS = 10_000_000  # the longest context that any published model states (Llama 4 Scout)

_FORMAT, _TOOLS, _NESTED, _OTHER, _TEXT_FORMAT = "format", "tools", "nested", "other", "text_format"
_TOOL_CHOICE = "tool_choice"
SETTINGS: dict[str, str] = {
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict", "n_predict",
         "maxOutputTokens", "maxTokens", "max_tokens_to_sample"),
        "max_tokens",
    ),
    "temperature": "temperature",
    **dict.fromkeys(
        ("response_format", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
         "format", "responseMimeType", "response_mime_type", "output_format", "output_config", "response_schema"),
        _FORMAT,
    ),
    "text": _TEXT_FORMAT,  # Responses API: text: {format: {type: ...}}
    **dict.fromkeys(("tools", "functions", "toolConfig"), _TOOLS),
    "tool_choice": _TOOL_CHOICE,
    **dict.fromkeys(
        ("parameters", "options", "sampling_params", "samplingParams", "generationConfig", "generation_config",
         "model_parameters", "modelParameters", "inferenceConfig", "extra_body", "optional_params", "sampling",
         "model_params", "config", "invocation_params"),
        _NESTED,
    ),
    **dict.fromkeys(
        ("top_p", "top_k", "min_p", "typical_p", "n", "best_of", "presence_penalty", "frequency_penalty",
         "repetition_penalty", "repeat_penalty", "logit_bias", "logprobs", "top_logprobs", "prompt_logprobs",
         "min_tokens", "ignore_eos", "bad_words", "allowed_token_ids", "logits_processors", "use_beam_search", "echo",
         "stop", "seed", "stop_token_ids", "length_penalty", "thinking_token_budget"),
        _OTHER,
    ),
}  # fmt: skip


def read_settings(record: Mapping[str, Any], remarks: Remarks) -> dict[str, Any]:
    """Keyword arguments for a Prompt: max_tokens, temperature, response_format, tools, sampling, demands; if given."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        handler = SETTINGS.get(key)
        if handler is None or value is None:
            continue
        if handler == "max_tokens":
            number = read_number(value, key, remarks, low=1, high=MAX_TOKENS, whole=True)
            if number is not None:
                found["max_tokens"] = int(number)
        elif handler == "temperature":
            number = read_number(value, key, remarks, low=0.0, high=MAX_TEMPERATURE)
            if number is not None:
                found["temperature"] = number
        elif handler == _OTHER:
            found.setdefault("sampling", {})[key] = value
            if key == "n" and value not in (1, "1"):
                remarks.add("requests for several answers (n > 1) counted as one")
        elif handler == _TOOLS:
            found["tools"] = count_tools(value)
            found.setdefault("demands", {})[key] = value
        elif handler == _TOOL_CHOICE:
            found.setdefault("demands", {})[key] = value
        elif handler == _FORMAT:
            form = response_format(key, value)
            if form:
                found["response_format"] = form
                found.setdefault("demands", {})[key] = value
        elif handler == _TEXT_FORMAT:
            if isinstance(value, Mapping) and isinstance(value.get("format"), Mapping):
                form = response_format("response_format", value["format"])
                if form:
                    found["response_format"] = form
                    found.setdefault("demands", {})["response_format"] = value["format"]
        else:
            nested = _mapping(value)
            if nested is not None:
                for name, inner in read_settings(nested, remarks).items():
                    found[name] = {**inner, **found.get(name, {})} if name == "demands" else found.get(name, inner)
    return found


def read_number(
    value: object, name: str, remarks: Remarks, *, low: float, high: float, whole: bool = False
) -> float | None:
    """A finite number within bounds; texts of numbers count in logs and tables, not in requests."""
    kind = type(value)
    if (kind is int or (kind is float and not whole)) and low <= value <= high:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    number: float | None = None
    if isinstance(value, bool):
        pass
    elif isinstance(value, int | float):
        number = float(value)
    elif isinstance(value, str) and not remarks.strict:
        if not value.strip():
            return None
        try:
            number = float(value)
        except ValueError:
            number = None
    if number is None or not math.isfinite(number) or not low <= number <= high or (whole and number != int(number)):
        expected = f"{'a whole number' if whole else 'a number'} from {low:g} to {high:,.10g}"
        remarks.bad_value(name, value, expected)
        return None
    return number


def count_tools(value: object) -> int:
    """How many tools are offered, in OpenAI's, Anthropic's or Gemini's form."""
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping):
        value = value.get("tools", [value])
    if not isinstance(value, list | tuple):
        return 0
    count = 0
    for tool in value:
        declared = None
        if isinstance(tool, Mapping):
            declared = tool.get("functionDeclarations", tool.get("function_declarations"))
        count += len(declared) if isinstance(declared, list) else 1
    return count


def response_format(key: str, value: object) -> str | None:
    """The kind of output that a request demands, as the request names it; None for free text."""
    if key in ("guided_json", "guided_regex", "guided_choice", "guided_grammar"):
        return {"guided_json": "json_schema"}.get(key, key.removeprefix("guided_"))
    if key == "response_schema":
        return "json_schema"
    if isinstance(value, str) and value[:1] == "{":
        value = _parsed(value)
    if isinstance(value, Mapping):
        kind = value.get("type")
        if isinstance(kind, str) and key != "format":
            return None if kind == "text" else kind
        for name in ("json", "json_object", "regex", "choice", "grammar", "structural_tag"):
            if value.get(name) is not None:
                return "json_schema" if name == "json" else name
        inner = value.get("format")
        if isinstance(inner, Mapping):
            return response_format("response_format", inner)
        return "json_schema" if key == "format" else None  # Ollama: format may be a schema
    if isinstance(value, str) and value:
        return {"json": "json_object", "application/json": "json_object", "text": None, "text/plain": None}.get(
            value, value if key == "response_format" else None
        )
    return None


def _mapping(value: object) -> Mapping[str, Any] | None:
    for _ in range(2):  # model_parameters may be JSON text
        if isinstance(value, Mapping):
            return value
        if not isinstance(value, str):
            return None
        value = _parsed(value)
    return value if isinstance(value, Mapping) else None


def _parsed(text: str) -> object:
    try:
        parsed: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return parsed
