"""What has come of one streamed answer so far: its text, the server's counts, and what was wrong if anything was.

Whoever watches an answer is told of each piece as it comes, with the server's running count of output tokens where the
request asked for one (vLLM's `stream_options.continuous_usage_stats`): a piece of several tokens is no rarity, since
speculation emits a step's accepted drafts together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one event of a stream added."""

    text: str  # empty where only the count moved, as at an end-of-text token
    at_s: float  # monotonic clock
    output_tokens: int | None  # of the answer so far; None where the server does not count along


Listener = Callable[[Piece], str | None]  # what it returns, if anything, ends the request and is its error


class AnswerStream:
    """What has come of one answer so far."""

    def __init__(self, listen: Listener | None = None) -> None:
        self._listen = listen
        self.first_s: float | None = None
        self.chunks = 0
        self.pieces: list[str] = []
        self.usage: Mapping[str, Any] = {}
        self.finish_reason: str | None = None
        self.speculation: Mapping[str, Any] | None = None
        self.error: str | None = None
        self.error_code: int | None = None  # as HTTP has it: what is known too late for the status comes in the stream
        self.done = False

    def take(self, payload: bytes, now_s: float) -> None:
        """One event; the first that carries text stops the clock of TTFT."""
        if payload == _DONE:
            self.done = True
            return
        try:
            event = orjson.loads(payload)
        except orjson.JSONDecodeError:
            self.error = f"broken JSON in the stream: {payload[:80].decode(errors='replace')!r}"
            return
        if not isinstance(event, dict):
            self.error = f"an event that is no object: {payload[:80].decode(errors='replace')!r}"
            return
        if event.get("error") is not None:
            self.error = f"the server reported {str(event['error'])[:200]}"
            code = event["error"].get("code") if isinstance(event["error"], dict) else None
            self.error_code = code if isinstance(code, int) else None
            return
        choices = event.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            self.error = f"an event of an unknown form: {payload[:80].decode(errors='replace')!r}"
            return
        known = len(self.pieces), self.tokens("completion_tokens")
        for choice in choices:
            self._choice(choice, now_s)
        usage = event.get("usage")
        self.usage = usage if isinstance(usage, dict) and usage else self.usage
        metrics = event.get("metrics")
        if isinstance(metrics, dict):
            inner = metrics.get("speculative_decoding")
            self.speculation = inner if isinstance(inner, dict) else metrics
        if self._listen is not None and known != (len(self.pieces), self.tokens("completion_tokens")):
            text = "".join(self.pieces[known[0] :])
            self.error = self._listen(Piece(text, now_s, self.tokens("completion_tokens")))

    def _choice(self, choice: Mapping[str, Any], now_s: float) -> None:
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        # Reasoning models stream thoughts under a name of their own; they are output tokens all the same.
        texts = (choice.get("text"), *(delta.get(name) for name in ("content", "reasoning_content", "reasoning")))
        text = next((text for text in texts if isinstance(text, str) and text), None)
        if text is not None or delta.get("tool_calls"):
            self.chunks += 1
            if self.first_s is None:
                self.first_s = now_s
            if text is not None:
                self.pieces.append(text)
        reason = choice.get("finish_reason")
        self.finish_reason = reason if isinstance(reason, str) else self.finish_reason

    def tokens(self, name: str) -> int | None:
        """A count of the server's usage; None where it gives none, or none that could be one."""
        count = self.usage.get(name)
        return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**31 else None
