"""What does the engine's own log say about memory and start-up? Read from vLLM's lines, nothing computed.

Lines are those of vLLM 0.26 (both model runners) and 0.32; a line that a version does not write leaves its field out.
"""

from __future__ import annotations

import re

GIB = 2**30
_NUMBER = r"([\d,.]+)"
_GIB_LINES = {
    "weight_bytes": rf"{_NUMBER} GiB for weight",
    "activation_bytes": rf"{_NUMBER} GiB for peak activation",
    "non_torch_bytes": rf"{_NUMBER} GiB for non-torch memory",
    "graph_bytes": rf"and {_NUMBER} GiB for CUDAGraph memory",
    "requested_bytes": rf"Desired GPU memory utilization is \([\d.]+, {_NUMBER} GiB\)",
    "free_bytes_at_start": rf"Free memory on device \({_NUMBER}/[\d.]+ GiB\)",
    "total_bytes": rf"Free memory on device \([\d.]+/{_NUMBER} GiB\)",
    "kv_cache_bytes": rf"Available KV cache memory: {_NUMBER} GiB",
    "model_load_bytes": rf"Model loading took {_NUMBER} GiB",
    "estimated_graph_bytes": rf"Estimated CUDA graph memory: {_NUMBER} GiB",
}
_PLAIN_LINES = {
    "kv_cache_tokens": rf"GPU KV cache size: {_NUMBER} tokens",
    "model_load_s": rf"Model loading took [\d.]+ GiB(?: memory)? and {_NUMBER} seconds",
    "init_s": rf"init engine \(profile, create kv cache, warmup model\) took {_NUMBER} s",
    "compile_s": rf"torch\.compile took {_NUMBER} s in total",
    "dynamo_s": rf"Dynamo bytecode transform time: {_NUMBER} s",
    "graph_capture_s": rf"Graph capturing finished in {_NUMBER} secs",
}
_TEXT_LINES = {
    "attention_backend": r"Using (\w+) attention backend",
    "moe_backend": r"Using '?([\w ]+?)'? .*MoE backend",
}


def read_startup_log(text: str) -> dict[str, float | str]:
    """The last value of each field that the log states; bytes from GiB with the log's two decimals."""
    found: dict[str, float | str] = {}
    for name, pattern in (_GIB_LINES | _PLAIN_LINES).items():
        if matches := re.findall(pattern, text):
            value = float(matches[-1].rstrip(".,").replace(",", ""))
            found[name] = round(value * GIB) if name in _GIB_LINES else value
    for name, pattern in _TEXT_LINES.items():
        if matches := re.findall(pattern, text):
            found[name] = matches[-1]
    return found


def failure_line(text: str) -> str:
    """The line that most likely says why an engine died: the last one that names an error."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w*(Error|Exception)\b.*: ", line)]
    return lines[-1][-400:] if lines else (text.strip().splitlines() or ["no output"])[-1][-400:]
