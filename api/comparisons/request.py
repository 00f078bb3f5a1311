"""What a client asks for with POST /v1/comparisons: one prompt, two servers that run already, and how to sample."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from advisor.fields import Closed, number, whole
from advisor.request import Name
from api.jobs.request import Url
from profiler.errors import PromptsError
from profiler.prompts.reading import prompts_from_objects
from profiler.prompts.sample import Prompt

MOST_TOKENS = 4096  # of one answer: minutes of a slow server, and as much as anybody reads
MOST_PROMPT_BYTES = 2**20  # some 250,000 tokens
ArmName = Literal["baseline", "speculative"]
ARMS: tuple[ArmName, ArmName] = ("baseline", "speculative")


def _a_header_can_have_it(key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if not 0 < len(text) <= 500 or not all("!" <= c <= "~" for c in text):
        what = "expected up to 500 printable ASCII characters without spaces, got something else"
        raise PydanticCustomError("key", "{what}", {"what": what})
    return key


class ServerSpec(Closed):
    """A vLLM server that runs already, on this host or where the operator allows to connect."""

    url: Url
    api_key: Annotated[SecretStr, AfterValidator(_a_header_can_have_it)] | None = Field(
        default=None, description="The key that it asks for; neither kept nor logged"
    )


class ComparisonRequest(Closed):
    """One prompt for two servers."""

    baseline: ServerSpec
    speculative: ServerSpec
    prompt: Any = Field(description="A text, a list of chat messages, or a request object, as one of `prompts`")
    model: Name | None = Field(default=None, description="Which of the models that they serve; left out: the first")
    temperature: Annotated[float, number(0, 2)] = 0.0
    max_tokens: Annotated[int, whole(1, MOST_TOKENS)] = 256
    order: Literal["together", "in_turn"] = Field(
        default="together", description="Both at the same time, or the speculative server after the baseline"
    )

    def read_prompt(self) -> Prompt:
        """The prompt as it will be sent. Raises PromptsError for what is none, or is too long to be passed on."""
        try:
            prompt = prompts_from_objects([self.prompt], field="prompt").prompts[0]
        except PromptsError as error:
            raise PromptsError(
                error.what.replace("prompt 1 ", "the prompt "), expected=error.expected, got=error.got,
                remedy=error.remedy, field=(error.field or "").replace("prompt[0]", "prompt"),
            ) from None  # fmt: skip
        size = len(prompt.text.encode(errors="replace"))
        if size > MOST_PROMPT_BYTES:
            raise PromptsError(
                "the prompt is too long to be compared here", expected=f"at most {MOST_PROMPT_BYTES:,} bytes",
                got=f"{size:,} bytes", remedy="specworth profile measures with prompts of any length", field="prompt",
            )  # fmt: skip
        return prompt
