"""Bodies of POST /v1/profiles as the documentation shows them."""

from __future__ import annotations

from typing import Any

_PROMPTS = ["Write a Python function that merges overlapping intervals.", {"prompt": "Say hello.", "max_tokens": 64}]

PROFILE_EXAMPLES: dict[str, Any] = {
    "attach": {
        "summary": "Two servers that run already",
        "value": {
            "prompts": _PROMPTS,
            "attach": {"baseline_url": "http://127.0.0.1:8001", "speculative_url": "http://127.0.0.1:8002"},
            "traffic": {"concurrency": 8, "temperature": 0.0},
            "budget_s": 60,
        },
    },
    "launch": {
        "summary": "Two servers that the worker starts",
        "value": {
            "prompts": _PROMPTS,
            "target": "Qwen/Qwen3-8B",
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4},
            "launch": {"arguments": {"--max-model-len": 8192, "--enforce-eager": True}},
            "traffic": {"concurrency": 16},
        },
    },
}
