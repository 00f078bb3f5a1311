"""Which kind of record this is, told from its keys: one small reader for each kind, in one table.

The order is from the most particular to the most general. A shape says its name in words; the name is what a user is
told and `slug` is what forces it. Shapes that hold no prompt are in the table too, so that they are named for what
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from profiler.prompts import body_shapes, dataset_shapes, export_shapes, trace_shapes
from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.messages import kind_of
from profiler.prompts.request import decode_nested, read_body, read_value
from profiler.prompts.sample import Json, Prompt
from profiler.prompts.settings import read_settings

Keys = frozenset[str]
Reader = Callable[[Mapping[str, Any], Remarks], Prompt]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of record: `fits` looks at keys alone, `read` raises NoPrompt where a record of this kind has none."""

    slug: str
    name: str
    fits: Callable[[Keys], bool]
    read: Reader


def having(*groups: str) -> Callable[[Keys], bool]:
    """All groups must be met; a group is met by any of its names: `having("input", "type|kind")`."""
    wanted = [frozenset(group.split("|")) for group in groups]
    return lambda keys: all(not names.isdisjoint(keys) for names in wanted)


def _wrapped(key: str) -> Reader:
    """A record that stands inside another one, as the only thing that matters there."""

    def read(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
        inner = record.get(key)
        if not isinstance(inner, Mapping):
            raise NoPrompt(f"no record under {key!r}", f"it is {kind_of(inner)}")
        return read_record(inner, remarks)[1]

    return read


def _wrapped_request(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A request, or a record of any other shape, under a key that says no more than that something is in it."""
    for key in ("request", "body", "payload", "data", "row", "params", "kwargs", "json"):
        inner = decode_nested(record.get(key))
        if isinstance(inner, dict) and find_shape(tuple(inner))[0] is not None:
            return read_record(inner, remarks)[1]
        if isinstance(inner, list) and len(inner) > 1 and all(isinstance(text, str) for text in inner):
            return read_value(inner, remarks, output=inner[1], place=key)  # UltraChat: the turns' texts by turns
    return read_body(record, remarks)


SHAPES: tuple[Shape, ...] = (
    Shape("vllm-log", "server log", having("_vllm_log"), export_shapes.vllm_log_line),
    Shape("anthropic-batch", "Anthropic batch input", having("custom_id", "params"), export_shapes.batch_input),
    Shape("openai-batch", "OpenAI batch input", having("body", "custom_id|url|method"), export_shapes.batch_input),
    Shape("batch-output", "batch output (answers, no prompts)", having("custom_id", "response|result|error"),
          export_shapes.batch_output),
    Shape("bedrock", "Bedrock invocation log", having("input", "modelId", "schemaType|operation|output"),
          export_shapes.bedrock),
    Shape("helicone", "requests logged with their answers (Helicone form)",
          having("request_body|requestBody|request", "response_body|responseBody|response|request_id|helicone_url"),
          export_shapes.helicone),
    Shape("litellm", "LiteLLM log", having("call_type|litellm_call_id|litellm_params|proxy_server_request|spend",
                                           "messages|proxy_server_request|response"), export_shapes.litellm),
    Shape("langfuse", "Langfuse export",
          having("input", "traceId|trace_id|observations|observation_id|project_id|projectId|modelParameters|"
                          "model_parameters|usage_details|usageDetails"), export_shapes.langfuse),
    Shape("langsmith", "LangSmith run export", having("inputs", "outputs|run_type"), export_shapes.langsmith),
    Shape("openinference", "OpenTelemetry spans of LLM calls",
          lambda keys: any(key.startswith(("attributes.llm", "gen_ai.", "llm.input_messages",
          "attributes.input")) for key in keys)
          or having("attributes", "span_id|spanId|context|name")(keys), export_shapes.spans),
    Shape("chatgpt", "ChatGPT conversations export", having("mapping", "title|conversation_id|current_node"),
          export_shapes.chatgpt),
    Shape("server-answer", "API answers (no prompts)", having("choices", "object|usage|model"),
              export_shapes.api_answer),
    Shape("aiperf-multi-turn", "AIPerf multi-turn sessions", having("turns", "session_id|type"),
              dataset_shapes.aiperf_turns),
    Shape("aiperf-payloads", "AIPerf payloads", having("payloads|payload"), dataset_shapes.payloads),
    Shape("length-trace", "length trace (Mooncake form)",
          having("input_length|hash_ids|text_input", "input_length|output_length|hash_ids"), trace_shapes.mooncake),
    Shape("usage", "usage table (token counts, no text)", trace_shapes.is_usage_table, trace_shapes.usage_row),
    Shape("benchmark-report", "benchmark report (no prompts)",
          having("benchmarks|request_throughput|output_throughput|generated_texts"), trace_shapes.report),
    Shape("model-config", "a model's config.json (no prompts)", having("architectures|hidden_size",
              "model_type|hidden_size"),
          trace_shapes.model_config),
    Shape("bfcl", "BFCL (function calling)", having("question", "function|functions"), dataset_shapes.bfcl),
    Shape("guidellm-multi-turn", "GuideLLM multi-turn columns", having("prompt_0"), dataset_shapes.guidellm_columns),
    Shape("sharegpt", "ShareGPT conversations", having("conversations|items"), dataset_shapes.sharegpt),
    Shape("lmsys", "conversations (LMSYS-Chat-1M, WildChat)", having("conversation|conversation_a"),
              dataset_shapes.lmsys),
    Shape("aiperf-single-turn", "AIPerf single-turn",
          lambda keys: keys.isdisjoint({"messages", "prompt", "question", "instruction"}) and having(
              "texts|text|image|images|audio|audios|video|videos",
              "texts|image|images|audio|audios|video|videos|delay|timestamp|type")(keys), dataset_shapes.aiperf_single),
    Shape("mt-bench", "questions in turns (MT-bench, Spec-Bench)", having("turns"), dataset_shapes.question_turns),
    Shape("alpaca", "Alpaca instructions", having("instruction"), dataset_shapes.alpaca),
    Shape("dataset-row", "rows of a data set viewer", having("row", "row_idx|truncated_cells"), _wrapped("row")),
    Shape("container-log", "container log", having("log", "stream|time|kubernetes"), export_shapes.container_log),
    Shape("preference", "preference pairs", having("chosen", "rejected"), dataset_shapes.preference),
    Shape("oasst", "OpenAssistant messages", having("message_id", "parent_id", "text"), dataset_shapes.oasst),
    Shape("anthropic", "Anthropic messages bodies",
          having("messages", "system|anthropic_version|stop_sequences|thinking|max_tokens_to_sample"),
          body_shapes.body),
    Shape("responses", "OpenAI Responses bodies",
          lambda keys: "input" in keys and not keys.isdisjoint(
              {"instructions", "max_output_tokens", "previous_response_id", "reasoning"}), body_shapes.body),
    Shape("gemini", "Gemini bodies", having("contents"), body_shapes.body),
    Shape("chat", "chat messages (OpenAI form)", having("messages"), body_shapes.chat),
    Shape("token-ids", "token ids", having("prompt_token_ids|input_ids|token_ids|tokens"), body_shapes.ids),
    Shape("completion", "prompts", having("prompt|prompts"), body_shapes.completion),
    Shape("tgi", "TGI bodies", having("inputs"), body_shapes.body),
    Shape("genai-perf", "Triton text_input bodies", having("text_input"), body_shapes.field("text_input",
              "text_output")),
    Shape("question", "questions", having("|".join(dataset_shapes.QUESTION_KEYS)),
          dataset_shapes.question),
    Shape("input", "inputs", having("input"), dataset_shapes.input_field),
    Shape("text", "texts", having("text|content"), dataset_shapes.text_field),
    Shape("single-message", "single messages", having("role", "content"), dataset_shapes.text_field),
    Shape("server-error", "error messages of a server (no prompts)",
          having("error|detail|errors|message|code"), export_shapes.server_error),
    Shape("wrapped-request", "requests under a key", having("request|body|payload|data|row|params|kwargs|json"),
          _wrapped_request),
)  # fmt: skip
BY_SLUG = {shape.slug: shape for shape in SHAPES}
STRINGS, MESSAGE_LISTS, UNKNOWN = "texts", "lists of chat messages", "records without a prompt field"

_found: dict[tuple[str, ...], tuple[Shape | None, bool]] = {}
_FOUND_LIMIT = 4096  # keys of a record may be random; the cache must not grow with the file


def find_shape(keys: tuple[str, ...]) -> tuple[Shape | None, bool]:
    """The first shape that fits these keys, and whether it fits them in plain lower case only ("User Prompt").

    Remembered by the tuple of keys as it stands in the record.
    """
    try:
        return _found[keys]
    except KeyError:
        pass
    found: tuple[Shape | None, bool] = _first_fitting(frozenset(keys)), False
    if found[0] is None:
        found = _first_fitting(frozenset(map(plain_key, keys))), True
    if len(_found) >= _FOUND_LIMIT:
        _found.clear()
    _found[keys] = found
    return found


def _first_fitting(keys: Keys) -> Shape | None:
    return next((shape for shape in SHAPES if shape.fits(keys)), None)


def plain_key(key: str) -> str:
    """A key as data sets write it in the form that shapes expect: "User Prompt" is user_prompt."""
    return key.strip().lower().replace(" ", "_")


def read_record(
    record: Json, remarks: Remarks, *, column: str | None = None, shape: Shape | None = None
) -> tuple[str, Prompt]:
    """The shape's name and the request in one record.

    Raises:
        NoPrompt: the record gives none; `shape_name` is set on it where a shape was recognised.
    """
    name = UNKNOWN
    try:
        if column is not None:
            name = f"prompts in {column!r}"
            return name, read_column(record, column, remarks)
        if isinstance(record, str):
            name = STRINGS
            return name, read_value(record, remarks)
        if isinstance(record, list):
            name = MESSAGE_LISTS
            return name, read_value(record, remarks)
        if not isinstance(record, dict):
            raise NoPrompt("neither a text nor an object", f"it is {kind_of(record)}")
        if shape is None:
            shape, in_lower_case = find_shape(tuple(record))
            if shape is None:
                return UNKNOWN, read_body(record, remarks)
            if in_lower_case:
                record = {plain_key(key): value for key, value in record.items()}
        name = shape.name
        prompt = shape.read(record, remarks)
    except NoPrompt as reason:
        reason.shape_name = name
        raise
    return name, prompt


def read_column(record: Json, column: str, remarks: Remarks) -> Prompt:
    """The request in the field that the user named; a dotted name goes into nested objects."""
    if not isinstance(record, Mapping):
        raise NoPrompt("no object, so it has no fields", f"it is {kind_of(record)}")
    value: Any = record
    for part in [column] if column in record else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise NoPrompt(f"no field {column!r}", f"fields are {', '.join(map(repr, list(record)[:12]))}")
        value = value[part]
    return read_value(value, remarks, settings=read_settings(record, remarks), place=column)


def is_known_header(names: list[str]) -> bool:
    """Whether the cells of a table's first row are names that some shape knows."""
    shape, _ = find_shape(tuple(names))
    return shape is not None and shape.slug not in ("server-error", "wrapped-request")
