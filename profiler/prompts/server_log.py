"""Prompts from the log of a vLLM server that was started with --enable-log-requests.

The line is "Received request ID: prompt: REPR, params: SamplingParams(...), ..."; newer versions write the text in a
second line, "Request ID details: prompt: REPR, ...". The text is what the chat template made, so turns are told apart
again where the template is ChatML's or Llama 3's. Lines of a server's log that hold no request are told apart from
prompts.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from profiler.prompts.account import NoPrompt
from profiler.prompts.messages import ROLES
from profiler.prompts.sample import Message

REQUEST = re.compile(
    r"(?:Received request|Request) (?P<id>\S+?)(?: details)?: prompt: "
    r"(?P<prompt>None|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?P<rest>.*)",
    re.DOTALL,
)
CUT_REQUEST = re.compile(r"(?:Received request|Request) \S+?(?: details)?: prompt: ['\"]")
PARAMETER = re.compile(r"\b(n|temperature|top_p|top_k|min_p|max_tokens|repetition_penalty|presence_penalty|"
                       r"frequency_penalty|seed|min_tokens|ignore_eos)=([^,()\s]+)")  # fmt: skip
TOKEN_IDS = re.compile(r"prompt_token_ids: \[([\d, ]*)\]")
# A line as servers log it: level and time, or an access log's; the process prefix is vLLM's own.
SERVER_LINE = re.compile(
    r"^(?:\x1b\[[\d;]*m)*(?:\([\w ]+pid=\d+\) ?)?(?:\x1b\[[\d;]*m)*"
    r"(?:(?:INFO|WARNING|ERROR|DEBUG|CRITICAL|TRACE|FATAL)\b[: ]"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+(?:\S+\s+){0,2}\[?(?:INFO|WARN|WARNING|ERROR|DEBUG)\b"
    r"|\S+ \S+ \S+ \[\d\d/\w{3}/\d{4}:)"
)
CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\n?|$)", re.DOTALL)
LLAMA3 = re.compile(r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n\n(.*?)(?:<\|eot_id\|>|$)", re.DOTALL)
NO_REQUEST = "a line of the server's log that holds no request"


def is_server_log(lines: list[str]) -> bool:
    """Whether most of these lines look like a server's log."""
    written = [line for line in lines if line.strip()]
    return bool(written) and sum(bool(SERVER_LINE.match(line)) for line in written) >= 0.5 * len(written)


def read_log_text(text: str) -> tuple[list[Message], dict[str, Any]]:
    """The turns and settings of the request in one log line.

    Raises:
        NoPrompt: no request in it, or one that was logged without its text.
    """
    match = REQUEST.search(text)
    if match is None:
        if CUT_REQUEST.search(text):
            raise NoPrompt("a request whose text breaks off in the log")
        if "Received request" in text:
            raise NoPrompt("a request logged without its text")
        raise NoPrompt(NO_REQUEST)
    rest = match["rest"]
    ids = TOKEN_IDS.search(rest)
    input_tokens = len(ids[1].split(",")) if ids and ids[1].strip() else None
    settings: dict[str, Any] = {"parameters": dict(PARAMETER.findall(rest))}
    settings["parameters"] = {k: v for k, v in settings["parameters"].items() if v != "None"}
    if match["prompt"] == "None":
        raise NoPrompt("a request logged without its text", input_tokens=input_tokens)
    try:
        prompt = ast.literal_eval(match["prompt"])
    except (ValueError, SyntaxError):
        raise NoPrompt("a request whose text breaks off in the log") from None
    if input_tokens:
        settings["input_tokens"] = input_tokens
    return split_template(prompt), settings


def split_template(text: str) -> list[Message]:
    """The turns that a chat template joined; one user turn where the template is not known."""
    for template in (CHATML, LLAMA3):
        turns = [Message(ROLES.get(role.lower(), "user"), said.strip("\n")) for role, said in template.findall(text)]
        if turns:
            if turns[-1].role == "assistant" and not turns[-1].text.strip():
                turns.pop()  # the generation prompt
            if turns:
                return turns
    return [Message("user", text)]
