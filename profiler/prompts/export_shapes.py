"""Readers for exports and logs of gateways and observability tools, batch files, and what is no prompt at all.

Sources of the field names: OpenAI and Anthropic batch references; LiteLLM's spend logs and StandardLoggingPayload;
Langfuse's blob storage export; Helicone's request export; LangSmith runs; OpenInference and OpenTelemetry's GenAI
attributes; Amazon Bedrock's invocation log; ChatGPT's data export; vLLM's request log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.answers import answer_text, known_counts, token_counts
from profiler.prompts.messages import kind_of, read_content
from profiler.prompts.request import PROMPT_KEYS, decode_nested, read_body, read_value
from profiler.prompts.sample import Prompt
from profiler.prompts.server_log import read_log_text
from profiler.prompts.settings import read_settings

# Parts of paths and call types of requests that generate no text.
NOT_GENERATING = {
    "embedding": "embeddings", "moderation": "moderation", "rerank": "reranking", "image_generation": "images",
    "images/": "images", "transcription": "audio", "speech": "audio", "translations": "audio", "/score": "scoring",
    "pooling": "pooling", "classify": "classification", "tokenize": "tokenisation", "/models": "model list",
}  # fmt: skip
NAMED_SPANS = {"span", "event", "tool", "retriever", "chain", "agent", "embedding", "guardrail", "evaluator"}


def refuse_other_endpoint(path: object) -> None:
    """Raise NoPrompt where the path or call type is one that generates no text."""
    if isinstance(path, str):
        lowered = path.lower()
        for part, name in NOT_GENERATING.items():
            if part in lowered:
                raise NoPrompt(f"{name} endpoint: no text is generated", path, field="url")


def batch_input(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """One line of a batch file: {"custom_id", "url", "body"} or Anthropic's {"custom_id", "params"}."""
    remarks.identify(record.get("custom_id"))
    refuse_other_endpoint(record.get("url"))
    body = decode_nested(record.get("body", record.get("params")))
    if not isinstance(body, Mapping):
        raise NoPrompt("a batch line without a body", f"it is {kind_of(body)}", field="body")
    response = record.get("response")
    return read_body(body, remarks, is_request=True, output=answer_text(response) if response else None)


def batch_output(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """One line of a batch's answers: named for what it is, lengths kept."""
    given, answered = token_counts(record)
    result = record.get("result")
    if given is None and isinstance(result, Mapping):
        given, answered = token_counts(result.get("message") or {})
    raise NoPrompt(
        "batch output holds answers, not prompts: give the batch's input file",
        input_tokens=given,
        output_tokens=answered,
    )


def api_answer(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A chat.completion object; some logs keep the messages in it."""
    if any(record.get(key) for key in ("messages", "prompt")):
        return read_body(record, remarks, is_request=True, output=answer_text(record), known=known_counts(record))
    given, answered = token_counts(record)
    raise NoPrompt("an API's answer, without the prompt", input_tokens=given, output_tokens=answered)


def server_error(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"error": ...}: what a failed download leaves; anything that could be a prompt is still sought."""
    if any(record.get(key) is not None for key in PROMPT_KEYS):
        return read_body(record, remarks)
    error = next((record[key] for key in ("error", "detail", "errors", "message", "code") if key in record), None)
    if isinstance(error, Mapping):
        error = error.get("message", error)
    if "error" in record or "detail" in record or "errors" in record:
        raise NoPrompt("an error message of a server, no prompt", str(error)[:120])
    if isinstance(record.get("message"), str | list | Mapping):
        message = record["message"]
        if isinstance(message, str) and ("prompt: " in message or "prompt_token_ids" in message):
            return log_line(message, remarks)
        if "status" in record or "code" in record or "statusCode" in record:
            raise NoPrompt("an error message of a server, no prompt", str(error)[:120])
        return read_value(message, remarks, settings=read_settings(record, remarks), place="message")
    return read_body(record, remarks)


def langfuse(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """An observation or a trace: only generations are requests; input and parameters may be JSON inside text."""
    kind = record.get("type", record.get("observation_type"))
    if isinstance(kind, str) and kind.lower() in NAMED_SPANS:
        raise NoPrompt("an observation that is no generation", kind.lower(), field="type")
    value = record.get("input")
    if value is None or value == "":
        raise NoPrompt("no input", field="input")
    usage = record.get("usage_details") or record.get("usageDetails") or record.get("usage") or record
    usage = decode_nested(usage)
    settings = known_counts(usage) if isinstance(usage, Mapping) and usage is not record else {}
    settings = {**settings, **read_settings(record, remarks)}
    return read_value(
        value, remarks, settings=settings, is_request=True, output=answer_text(record.get("output")), place="input"
    )


def litellm(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A spend log or a StandardLoggingPayload; the prompt may be redacted and stand in the proxied request instead."""
    refuse_other_endpoint(record.get("call_type"))
    output = answer_text(decode_nested(record.get("response")))
    settings = {**known_counts(record), **read_settings(record, remarks)}
    failure: NoPrompt | None = None
    request = decode_nested(record.get("proxy_server_request"))
    if isinstance(request, Mapping):
        request = decode_nested(request.get("body", request))
    for value in (record.get("messages"), request, record.get("prompt"), record.get("input")):
        if not value:
            continue
        try:
            return read_value(value, remarks, settings=settings, is_request=True, output=output, place="messages")
        except NoPrompt as reason:
            failure = failure or reason
    given, answered = token_counts(record)
    failure = failure or NoPrompt("no prompt text: the gateway was set to store none", field="messages")
    failure.input_tokens, failure.output_tokens = given, answered
    raise failure


def helicone(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A request with its answer: bodies as objects or as JSON text, under a request or beside each other."""
    refuse_other_endpoint(record.get("request_path", record.get("target_url", record.get("path"))))
    request = decode_nested(record.get("request_body", record.get("requestBody", record.get("request"))))
    if isinstance(request, Mapping):
        refuse_other_endpoint(request.get("path", request.get("url", request.get("request_path"))))
        for key in ("body", "request_body"):
            if key in request:
                request = decode_nested(request[key])
                break
        posted = request.get("postData") if isinstance(request, Mapping) else None
        if isinstance(posted, Mapping):  # a browser's HTTP archive (HAR)
            request = decode_nested(posted.get("text"))
    response = decode_nested(record.get("response_body", record.get("responseBody", record.get("response"))))
    given, answered = token_counts(record)
    counts = {k: v for k, v in (("input_tokens", given), ("output_tokens", answered)) if v}
    if isinstance(request, str) and request.strip():
        return read_value(request, remarks, settings=counts, output=answer_text(response), place="request_body")
    if not isinstance(request, Mapping) or not any(request.get(key) for key in PROMPT_KEYS):
        raise NoPrompt(
            "no request body (left out or redacted by the log)",
            field="request_body",
            input_tokens=given,
            output_tokens=answered,
        )
    return read_body(request, remarks, is_request=True, output=answer_text(response), known=counts)


def langsmith(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A run with inputs and outputs; only runs of models are requests."""
    kind = record.get("run_type")
    if isinstance(kind, str) and kind not in ("llm", "prompt", "chat_model", "chain"):
        raise NoPrompt("a run that is no model call", kind, field="run_type")
    value = decode_nested(record.get("inputs"))
    if value in (None, {}, [], ""):
        raise NoPrompt("no input", field="inputs")
    extra = decode_nested(record.get("extra"))
    settings = read_settings(extra, remarks) if isinstance(extra, Mapping) else {}
    settings = {**settings, **read_settings(record, remarks)}
    output = answer_text(record.get("outputs"))
    if isinstance(value, Mapping) and not any(value.get(key) is not None for key in PROMPT_KEYS):
        texts = [text for text in value.values() if isinstance(text, str)]
        if len(texts) == 1:  # {"question": ...}: the data set's own name for its only input
            value = texts[0]
    return read_value(value, remarks, settings=settings, output=output, place="inputs")


def spans(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """Spans with OpenInference's or OpenTelemetry's attributes, flat or nested."""
    inner = decode_nested(record.get("attributes"))
    flat = _flatten(inner if isinstance(inner, Mapping) else record)
    turns: dict[int, dict[str, Any]] = {}
    for key, value in flat.items():
        path = key.removeprefix("attributes.").removeprefix("llm.").removeprefix("gen_ai.").split(".")
        if path[0] in ("input_messages", "prompt") and len(path) >= 3 and path[1].isdigit():
            turns.setdefault(int(path[1]), {})[path[-1]] = value
    settings = {**known_counts(flat), **_named_settings(flat, remarks)}
    if turns:
        messages = [turns[index] for index in sorted(turns)]
        return read_value(messages, remarks, settings=settings, is_request=True)
    for key, value in flat.items():
        if key.endswith(("input.messages", "input_messages", "llm.prompts", "gen_ai.prompt", "input.value")) and value:
            return read_value(decode_nested(value), remarks, settings=settings, is_request=True, place=key)
    raise NoPrompt("a span without a prompt")


def _named_settings(flat: Mapping[str, Any], remarks: Remarks) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, value in flat.items():
        if ".request." in key:
            named[key.rsplit(".", 1)[1]] = value
        elif key.endswith("invocation_parameters"):
            named["parameters"] = value
    return read_settings(named, remarks)


def _flatten(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def bedrock(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A ModelInvocationLog of Amazon Bedrock."""
    given = record.get("input")
    body = given.get("inputBodyJson") if isinstance(given, Mapping) else None
    output = record.get("output")
    answer = output.get("outputBodyJson") if isinstance(output, Mapping) else None
    if not isinstance(body, Mapping):
        raise NoPrompt("no input", field="input")
    return read_body(body, remarks, is_request=True, output=answer_text(answer))


def chatgpt(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """One conversation of ChatGPT's export: its messages from the root to the last one, in order of their tree."""
    mapping = record.get("mapping")
    if not isinstance(mapping, Mapping) or not mapping:
        raise NoPrompt("no turns", field="mapping")
    turns: list[Any] = []
    node = next((key for key, value in mapping.items() if isinstance(value, Mapping) and not value.get("parent")), None)
    visited: set[str] = set()
    while node is not None and node in mapping and node not in visited:
        visited.add(node)
        entry = mapping[node] if isinstance(mapping[node], Mapping) else {}
        message = entry.get("message")
        if isinstance(message, Mapping) and message.get("content"):
            text, _ = read_content(message["content"], remarks)
            author = message.get("author")
            role = author.get("role") if isinstance(author, Mapping) else "user"
            if text or role != "system":  # an empty system turn opens every conversation of the export
                turns.append({"role": role, "content": message["content"]})
        children = entry.get("children") or []
        node = children[-1] if isinstance(children, list) and children and isinstance(children[-1], str) else None
    return read_value(turns, remarks)


def container_log(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"log": "...", "stream": ...}: one line of a container's output."""
    text = record.get("log")
    if not isinstance(text, str):
        raise NoPrompt("a log record without text", field="log")
    return log_line(text, remarks)


def log_line(text: str, remarks: Remarks) -> Prompt:
    """One line of a vLLM server's log."""
    return vllm_log_line({"_vllm_log": text}, remarks)


def vllm_log_line(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A request that vLLM logged with --enable-log-requests; any other line of the log is none."""
    turns, settings = read_log_text(str(record.get("_vllm_log", "")))
    settings.update(read_settings(settings.pop("parameters"), remarks))
    return read_value(
        [{"role": turn.role, "content": turn.text} for turn in turns] if len(turns) > 1 else turns[0].text,
        remarks, settings=settings, is_request=True,
    )  # fmt: skip
