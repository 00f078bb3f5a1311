"""Records of lengths without texts: request traces and usage tables.

No structure can be read from them, but their lengths are worth having: every reader here raises NoPrompt with the
lengths, unless a text stands in the record after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.answers import INPUT_COUNTS, OUTPUT_COUNTS, token_counts
from profiler.prompts.request import read_body, read_value
from profiler.prompts.sample import Prompt
from profiler.prompts.settings import read_settings

TRACE = "a length trace has lengths, arrival times and shared prefixes, no texts: no structure can be read from it"
USAGE = "no prompt text: only token counts"
TOTALS = "token counts of a period, not of requests: neither texts nor lengths"
_REQUESTS = ("num_requests", "n_requests", "requests", "request_count", "num_model_requests", "total_requests", "count")
_PERIODS = frozenset({"usage_date_utc", "usage_date", "date", "day", "month", "bucket_start", "start_date"})
TIMESTAMP = "timestamps that are no number (the lengths are kept)"
_TEXTS = frozenset(
    {"prompt", "prompts", "messages", "text", "input", "question", "instruction", "conversation", "conversations",
    "query",
     "content", "turns", "inputs", "text_input", "prompt_0", "request", "body", "request_body", "texts", "input_text",
     "payload", "contents", "log", "mapping", "data", "items"}
)  # fmt: skip
_COUNTS = (frozenset(INPUT_COUNTS) | frozenset(OUTPUT_COUNTS) | {
    "total_tokens", "n_context_tokens_total", "n_generated_tokens_total", "input_uncached_tokens"}) - {"input",
    "output"}  # fmt: skip


def is_usage_table(keys: frozenset[str]) -> bool:
    """Token counts, under whatever name a provider gives them, and no field that could hold a text."""
    if not _TEXTS.isdisjoint(keys):
        return False
    return not _COUNTS.isdisjoint(keys) or any(
        "tokens" in key and not key.startswith(("max", "min")) and "ids" not in key and key != "tokens" for key in keys
    )


def mooncake(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"timestamp", "input_length", "output_length", "hash_ids"}, some with text_input or messages."""
    given, answered = token_counts(record)
    settings: dict[str, Any] = {}
    if given:
        settings["input_tokens"] = given
    if answered:
        settings["output_tokens"] = answered
    text = record.get("text_input")
    if text:
        return read_value(text, remarks, settings={**read_settings(record, remarks), **settings}, place="text_input")
    if any(record.get(key) for key in ("messages", "prompt", "text", "conversations", "question")):
        return read_body(record, remarks, known=settings)
    timestamp = record.get("timestamp")
    if timestamp is not None and not _is_number(timestamp):
        remarks.add(TIMESTAMP)
    if not given:
        raise NoPrompt("a length trace's record without a positive input length")
    raise NoPrompt(TRACE, input_tokens=given, output_tokens=answered)


def usage_row(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """Token counts of one request or of one billing period."""
    given, answered = token_counts(record)
    if given is None and answered is None:
        given, answered = token_counts({key.strip().lower().replace(" ", "_"): value for key, value in record.items()})
    requests = next((record[key] for key in _REQUESTS if record.get(key) is not None), None)
    if requests is not None:  # totals of a period
        if not _is_number(requests) or float(requests) < 1:
            raise NoPrompt(USAGE)
        given, answered = (round(total / float(requests)) if total else None for total in (given, answered))
    elif not _PERIODS.isdisjoint(record):
        raise NoPrompt(TOTALS)
    raise NoPrompt(USAGE, input_tokens=given, output_tokens=answered)


def report(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """The result of a benchmark run (vLLM, GuideLLM, AIPerf)."""
    raise NoPrompt("a benchmark's report holds results, not prompts: give the benchmark's data set")


def model_config(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A config.json, given in the place of the prompts."""
    raise NoPrompt("a model's config.json, no prompts: it belongs to the target")


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
