"""Requests that work as they stand: shown in the API's documentation, and posted one by one in the tests."""

from __future__ import annotations

from typing import Any

_JSON_CHAT = {
    "messages": [
        {"role": "system", "content": "You extract contact data and answer in JSON."},
        {"role": "user", "content": "Ana Ruiz moved to Lisbon; write to ana@example.com or call 555 0100."},
    ],
    "response_format": {"type": "json_object"},
    "temperature": 0,
    "max_tokens": 120,
}
_CODE = "Write a Python function that merges overlapping intervals, with type hints and three tests."

REQUEST_EXAMPLES: dict[str, dict[str, Any]] = {
    "compare_everything": {
        "summary": "Which method, if any? Prompts, a target, a GPU, a load",
        "value": {
            "prompts": [_CODE, _JSON_CHAT],
            "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"},
            "traffic": {"concurrency": 16},
        },
    },
    "one_method": {
        "summary": "One method and k, at temperature 0, judged by the time per output token",
        "value": {
            "prompts": [_CODE],
            "deployment": {
                "target": "Qwen/Qwen3-8B",
                "gpu": "H100 SXM",
                "max_model_len": 8192,
                "speculation": {"method": "ngram", "num_speculative_tokens": 4},
            },
            "traffic": {"concurrency": 4, "temperature": 0.0, "input_tokens": 900, "output_tokens": 200},
            "policy": {"objective": "tpot", "min_speedup": 1.1, "confidence": 0.9},
        },
    },
    "with_evidence": {
        "summary": "With what a run has counted: the numbers of vLLM's /metrics",
        "value": {
            "prompts": [_JSON_CHAT],
            "deployment": {
                "target": "meta-llama/Llama-3.1-8B-Instruct",
                "gpu": "H200",
                "speculation": {
                    "method": "draft_model",
                    "draft": "meta-llama/Llama-3.2-1B-Instruct",
                    "num_speculative_tokens": 3,
                },
            },
            "traffic": {"concurrency": 8, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
            "evidence": {
                "drafts": 412,
                "accepted_per_position": [390, 301, 240],
                "drafted_tokens": 1236,
                "decode_tokens": 1343,
                "temperature": 0.0,
            },
        },
    },
    "own_model_and_gpu": {
        "summary": "A model by its config.json and an accelerator by its figures, with a request rate",
        "value": {
            "prompts": [_CODE, _JSON_CHAT],
            "deployment": {
                "target": {
                    "name": "our-8b",
                    "config": {
                        "architectures": ["LlamaForCausalLM"],
                        "model_type": "llama",
                        "hidden_size": 4096,
                        "intermediate_size": 14336,
                        "num_hidden_layers": 32,
                        "num_attention_heads": 32,
                        "num_key_value_heads": 8,
                        "head_dim": 128,
                        "vocab_size": 128256,
                        "max_position_embeddings": 131072,
                        "tie_word_embeddings": False,
                        "torch_dtype": "bfloat16",
                    },
                },
                "gpu": {"name": "our-card", "memory_gib": 48, "bandwidth_gb_per_s": 1200, "bf16_tflops": 300},
                "max_model_len": 16384,
            },
            "traffic": {"request_rate": 2.0, "output_tokens": 300},
        },
    },
}
