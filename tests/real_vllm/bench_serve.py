"""The same load by vLLM's own client, `vllm bench serve`: what it counts and times, from the file it saves."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler.prompts.sample import Prompt


def bench_serve(
    python: Path,
    model: Path,
    url: str,
    sample: list[tuple[int, Prompt]],
    *,
    concurrency: int,
    folder: Path,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Send the prompts, all of one max_tokens, in their order; the result that vLLM saves, with one entry per request.

    The data set is in ShareGPT's shape because vLLM's own shape needs pandas, which a server does not.
    """
    (max_tokens,) = {prompt.max_tokens for _, prompt in sample}
    data = folder / "sharegpt.json"
    turns = [
        {"conversations": [{"from": "human", "value": p.text}, {"from": "gpt", "value": "An answer of some words."}]}
        for _, p in sample
    ]
    data.write_text(json.dumps(turns))
    command = [
        str(python), "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai-chat",
        "--base-url", url, "--endpoint", "/v1/chat/completions", "--model", str(model),
        "--served-model-name", "smollm", "--dataset-name", "sharegpt", "--dataset-path", str(data),
        "--sharegpt-output-len", str(max_tokens), "--num-prompts", str(len(sample)), "--disable-shuffle",
        "--max-concurrency", str(concurrency), "--temperature", "0", "--ready-check-timeout-sec", "0",
        "--num-warmups", "0", "--disable-tqdm", "--save-result", "--save-detailed",
        "--result-dir", str(folder), "--result-filename", "result.json",
    ]  # fmt: skip
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, env=inherited | dict(environment), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result
