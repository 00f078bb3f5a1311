"""What is sent for one prompt: a chat or completion request with the prompt's own or overridden sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from profiler.load.demands import sendable
from profiler.prompts.sample import Prompt

Api = Literal["chat", "completions"]
_MANY_ANSWERS = ("n", "best_of", "use_beam_search")  # several answers to one request would mix in its latency
DEFAULT_MAX_TOKENS = 256  # where neither the prompt nor the caller says: vLLM would run on to max_model_len


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """How prompts become requests; None leaves each prompt its own value."""

    model: str
    api: Api = "chat"
    temperature: float | None = None
    max_tokens: int | None = None
    ignore_eos: bool = False
    seed: int | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def path(self) -> str:
        """Path below the server's root."""
        return "/v1/chat/completions" if self.api == "chat" else "/v1/completions"

    def asked_tokens(self, prompt: Prompt) -> int:
        """The longest answer that is asked for."""
        return self.max_tokens or prompt.max_tokens or DEFAULT_MAX_TOKENS

    def body(self, prompt: Prompt, *, max_tokens: int | None = None) -> dict[str, Any]:
        """The request's JSON. Streaming with usage, so that output tokens are the server's count, not the chunks'.

        max_tokens: what the context leaves for this prompt's answer, where that is less than what is asked.
        """
        body: dict[str, Any] = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}}
        if self.api == "chat":
            # A tool's answer needs the id of its call, which a sample does not keep: it is sent as the user's words.
            body["messages"] = [
                {"role": "user" if m.role == "tool" else m.role, "content": m.text} for m in prompt.messages
            ]
        else:
            body["prompt"] = prompt.text
        body.update(prompt.sampling)
        for name in _MANY_ANSWERS:
            body.pop(name, None)
        if self.api == "chat" and prompt.demands:
            body.update(sendable(prompt.demands))
        temperature = self.temperature if self.temperature is not None else prompt.temperature
        if temperature is not None:
            body["temperature"] = temperature
        body["max_tokens"] = max_tokens or self.asked_tokens(prompt)
        if self.ignore_eos:
            body["ignore_eos"] = True
        if self.seed is not None:
            body["seed"] = self.seed
        body.update(self.extra or {})
        return body

    def sent_temperature(self, prompt: Prompt) -> float | None:
        """The temperature that this prompt's request carries; None leaves it to the server."""
        return self.temperature if self.temperature is not None else prompt.temperature
