"""What a profile tells of its surroundings is handed around: no key is in it, and nothing else is missing."""

import pytest

from profiler.probe.environment import without_secrets


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--api-key hunter2 --port 1", "--api-key ... --port 1"),
        ("--api_key=hunter2", "--api_key=..."),
        ("--hf-token --port 1", "--hf-token --port 1"),  # the option without its value, as vLLM allows
        ("--env HF_TOKEN=hunter2 -e AWS_SECRET_ACCESS_KEY=hunter2", "--env HF_TOKEN=... -e AWS_SECRET_ACCESS_KEY=..."),
        ("--tokenizer ours --max-num-batched-tokens=8192", "--tokenizer ours --max-num-batched-tokens=8192"),
        ("key value", "key value"),
    ],
)
def test_keys_become_dots_and_nothing_else_does(arguments: str, told: str) -> None:
    """Options and variables whose name ends with token, key, secret or password, in either spelling."""
    assert without_secrets(arguments.split()) == tuple(told.split())
