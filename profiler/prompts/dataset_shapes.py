"""Readers for request bodies and for rows of data sets and of benchmark tools' input files.

Sources of the field names: OpenAI and Anthropic API references; vLLM's custom data set (prompt, output_tokens);
AIPerf's data set models (single_turn, multi_turn, random_pool); GuideLLM's column names; BFCL, LMSYS-Chat-1M,
WildChat, ShareGPT, Alpaca, Dolly, MT-bench, SQuAD, GSM8K, OASST and preference sets as published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.prompts.account import NoPrompt, Remarks
from profiler.prompts.answers import answer_text, known_counts
from profiler.prompts.body_shapes import answer_beside
from profiler.prompts.messages import kind_of, read_content
from profiler.prompts.request import (
    LATER_TURNS,
    SEVERAL_TEXTS,
    decode_nested,
    finish,
    read_body,
    read_value,
)
from profiler.prompts.sample import Message, Prompt
from profiler.prompts.settings import read_settings

QUESTION_KEYS = (
    "question", "query", "problem", "user_prompt", "user_input", "user", "goal", "user_query", "user_message",
    "user_request", "user_text", "prompt_text", "request_text", "input_text", "utterance", "customer_message", "human",
)  # fmt: skip
NAMES_REDACTED = "texts with names redacted (NAME_1), otherwise read"


def question(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """A question, with the text that it is about before it where there is one (SQuAD's context)."""
    name = next(
        (k for k in QUESTION_KEYS if record.get(k)),
        None,
    )
    if name is None:
        raise NoPrompt("no prompt: null or empty")
    settings = {**known_counts(record), **read_settings(record, remarks)}
    system = record.get("system") or record.get("system_prompt")
    text = record[name]
    context = record.get("context") or record.get("passage")
    if isinstance(text, str) and isinstance(context, str) and context.strip():
        text = f"{context}\n\n{text}"
    return read_value(
        text, remarks, system=system if isinstance(system, str) else None, settings=settings,
        output=answer_beside(record), place=name,
    )  # fmt: skip


def input_field(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"input": ...}: a text, messages or a body, plain or as JSON text (observability exports)."""
    return read_body(record, remarks, output=answer_text(record.get("output")), known=known_counts(record))


def text_field(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"text": ...} or {"content": ...}."""
    role = record.get("role")
    if isinstance(role, str) and role.lower() not in ("user", "human", "prompter"):
        raise NoPrompt("a single message that is not the user's")
    settings = {**known_counts(record), **read_settings(record, remarks)}
    value = record.get("text", record.get("content"))
    if value is None:
        value = record.get("content")
    return read_value(value, remarks, settings=settings, output=answer_beside(record), place="text")


def alpaca(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """Instruction and input (Dolly: context), a blank line between them."""
    instruction = record.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise NoPrompt("no instruction", field="instruction")
    given = record.get("input") or record.get("context")
    text = f"{instruction}\n\n{given}" if isinstance(given, str) and given.strip() else instruction
    settings = {**known_counts(record), **read_settings(record, remarks)}
    system = record.get("system")
    return read_value(
        text, remarks, system=system if isinstance(system, str) else None, settings=settings,
        output=answer_beside(record), place="instruction",
    )  # fmt: skip


def sharegpt(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"conversations": [{"from", "value"}, ...]}, older exports under "items"."""
    remarks.identify(record.get("id"))
    turns = decode_nested(record.get("conversations", record.get("items")))
    if not isinstance(turns, list) or not turns:
        raise NoPrompt("no turns", field="conversations")
    system = record.get("system")
    return read_value(turns, remarks, system=system if isinstance(system, str) else None, place="conversations")


def lmsys(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"conversation": [{"role", "content"}, ...]}: LMSYS-Chat-1M, WildChat, Arena pairs."""
    turns = decode_nested(record.get("conversation", record.get("conversation_a")))
    if not isinstance(turns, list) or not turns:
        raise NoPrompt("no turns", field="conversation")
    if record.get("redacted") is True:
        remarks.add(NAMES_REDACTED)
    return read_value(turns, remarks, place="conversation")


def bfcl(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"question": [[turn, ...], ...], "function": [...]}: the first user turn with the functions offered."""
    functions = record.get("function", record.get("functions"))
    offered = len(functions) if isinstance(functions, list) else int(bool(functions))
    settings = {"tools": offered, "demands": {"functions": functions}} if offered else {"tools": 0}
    return read_value(record.get("question"), remarks, settings=settings, place="question")


def preference(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"prompt", "chosen", "rejected"}; without a prompt the turns of `chosen` hold it."""
    if record.get("prompt"):
        return read_value(record["prompt"], remarks, output=answer_text(record.get("chosen")), place="prompt")
    chosen = record.get("chosen")
    if isinstance(chosen, str) and "\n\nHuman:" in chosen:  # HH-RLHF writes the turns into one text
        asked = chosen.split("\n\nHuman:", 1)[1]
        asked, _, answer = asked.partition("\n\nAssistant:")
        return read_value(asked.strip(), remarks, output=answer.split("\n\nHuman:")[0].strip() or None)
    if isinstance(chosen, list):
        return read_value(chosen, remarks, place="chosen")
    if record.get("question"):
        return question(record, remarks)
    raise NoPrompt("answers without the prompt that they answer", field="prompt")


def oasst(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """One message of an OpenAssistant tree; only the prompter's are requests."""
    if record.get("role") != "prompter":
        raise NoPrompt("an assistant's message, no prompt")
    return read_value(record.get("text"), remarks, place="text")


def question_turns(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"turns": [text, ...]}: the user's turns without answers; the first is a request of its own."""
    turns = decode_nested(record.get("turns"))
    if not isinstance(turns, list) or not turns:
        raise NoPrompt("no turns", field="turns")
    if isinstance(turns[0], str):
        if len(turns) > 1:
            remarks.add(LATER_TURNS)
        return read_value(turns[0], remarks, settings=read_settings(record, remarks), place="turns[0]")
    if isinstance(turns[0], Mapping) and ("role" in turns[0] or "from" in turns[0]):
        return read_value(turns, remarks, place="turns")
    return aiperf_turns(record, remarks)


def aiperf_turns(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """An AIPerf session: the first turn that has text; later ones need answers that the file does not hold."""
    turns = record.get("turns")
    if not isinstance(turns, list) or not turns:
        raise NoPrompt("no turns", field="turns")
    if len(turns) > 1:
        remarks.add(LATER_TURNS)
    failure: NoPrompt | None = None
    for turn in turns:
        try:
            if isinstance(turn, str):
                return read_value(turn, remarks, place="turns[0]")
            if isinstance(turn, Mapping):
                inner = {"system": record.get("system") or record.get("system_message"), **turn}
                return read_body(inner, remarks) if "messages" in turn else aiperf_single(inner, remarks)
        except NoPrompt as reason:
            failure = failure or reason
    raise failure or NoPrompt("a turn that is no object", f"it is {kind_of(turns[0])}", field="turns[0]")


def aiperf_single(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """AIPerf's single_turn and random_pool: text or texts, beside images, audio and video that no text stands for."""
    if any(record.get(key) for key in ("messages", "prompt", "conversation")):
        return read_body(record, remarks, output=answer_beside(record))
    media = 0
    for key in ("image", "images", "audio", "audios", "video", "videos"):
        value = record.get(key)
        media += len(value) if isinstance(value, list) else int(bool(value))
    text = record.get("text")
    texts = record.get("texts")
    if text is None and isinstance(texts, list) and texts:
        if all(isinstance(part, str) for part in texts):
            if len(texts) > 1:
                remarks.add(SEVERAL_TEXTS)
            text = next((part for part in texts if part.strip()), "")
        else:  # named parts of one prompt: {"name", "contents"}
            text = read_content(texts, remarks)[0]
    elif isinstance(texts, str):
        text = texts
    if text is None and "content" in record:
        text = record["content"]
    if isinstance(text, list | Mapping):
        return read_value(text, remarks, place="text")
    turns = [Message("user", text if isinstance(text, str) else "")]
    system = record.get("system")
    if isinstance(system, str) and system:
        turns.insert(0, Message("system", system))
    settings = {**known_counts(record), **read_settings(record, remarks)}
    return finish(turns, media, remarks, is_request=True, output=answer_beside(record), settings=settings)


def payloads(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """{"payloads": [body, ...]} of AIPerf's inputs.json: the first body."""
    value = record.get("payloads", record.get("payload"))
    bodies = value if isinstance(value, list) else [value]
    if len(bodies) > 1:
        remarks.add(LATER_TURNS)
    if not bodies or not isinstance(bodies[0], Mapping):
        raise NoPrompt("no payload", field="payloads")
    return read_body(bodies[0], remarks, is_request=True)


def guidellm_columns(record: Mapping[str, Any], remarks: Remarks) -> Prompt:
    """GuideLLM's prefix, prompt_0, output_tokens_count_0, prompt_1, ...: the first turn, the prefix as system turn."""
    text = record.get("prompt_0")
    if text is None or (isinstance(text, str) and not text.strip()):
        raise NoPrompt("no first turn: prompt_0 is empty", field="prompt_0")
    if record.get("prompt_1"):
        remarks.add(LATER_TURNS)
    counts = known_counts({"input": record.get("prompt_tokens_count_0"), "output": record.get("output_tokens_count_0")})
    prefix = record.get("prefix") or record.get("prefix_0")
    return read_value(
        text, remarks, system=prefix if isinstance(prefix, str) else None, settings=counts, place="prompt_0"
    )
