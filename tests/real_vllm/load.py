"""The prompts that real servers are sent, and one wave of them."""

from __future__ import annotations

import asyncio

from profiler.load import Endpoint, RequestPlan, Wave, run_wave
from profiler.prompts.sample import Message, Prompt

PLAN = RequestPlan(model="smollm", temperature=0.0)
# Texts that repeat themselves in the answer (so that n-gram and suffix drafts are accepted) and one that does not.
TEXTS = (
    "Repeat this list three times: apple, banana, cherry, grape.",
    'Copy this JSON four times: {"name": "lamp", "price": 12, "colour": "red"}',
    "Count from 1 to 30, one number a line.",
    "Write a short poem about the sea.",
)


def prompts(*texts: str, max_tokens: int = 32) -> list[tuple[int, Prompt]]:
    """The texts as a sample's prompts."""
    return [
        (i, Prompt(messages=(Message("user", text),), max_tokens=max_tokens, temperature=0.0))
        for i, text in enumerate(texts or TEXTS)
    ]


def send(
    url: str,
    sample: list[tuple[int, Prompt]] | None = None,
    *,
    concurrency: int = 2,
    plan: RequestPlan = PLAN,
) -> Wave:
    """Send the prompts to a server and wait for their answers."""

    async def go() -> Wave:
        async with Endpoint(url).session() as session:
            return await run_wave(session, plan, sample or prompts(), concurrency=concurrency)

    return asyncio.run(go())
