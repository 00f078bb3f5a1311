"""Which models may a job start, with which flags?

None, unless the operator lists models in SPECWORTH_LAUNCH_MODELS: a server that is started runs with this host's GPU
and the worker's rights. Flags come as an object, name to value, and reach vLLM as `--name=value`, so that no value can
pass for another flag. The default list holds sizes and precisions; nothing that reads a file, opens a port or runs code
of a model's repository. The operator's own flags (SPECWORTH_LAUNCH_ARGUMENTS) are added to both servers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from api.jobs.errors import NotAllowedError
from profiler.errors import InputError

FLAGS = (
    "--max-model-len,--max-num-seqs,--max-num-batched-tokens,--gpu-memory-utilization,--tensor-parallel-size,--dtype,"
    "--quantization,--kv-cache-dtype,--block-size,--seed,--enforce-eager,--enable-prefix-caching,"
    "--no-enable-prefix-caching,--enable-chunked-prefill,--no-enable-chunked-prefill"
)
# Of vLLM's SpeculativeConfig (0.26, 0.32), what names no code, no revision and no file besides the model.
CONFIG = (
    "method", "model", "num_speculative_tokens", "draft_tensor_parallel_size", "prompt_lookup_max",
    "prompt_lookup_min", "draft_sample_method", "use_heterogeneous_vocab", "quantization", "max_model_len",
    "suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor",
    "suffix_decoding_min_token_prob",
)  # fmt: skip
_FLAG = re.compile(r"--[a-z][a-z0-9.-]{0,60}", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", re.ASCII)


def names_between_commas(text: str) -> tuple[str, ...]:
    """What a setting lists."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def check_flags(text: str) -> str:
    """The setting as it is; raises ValueError where an entry is no flag."""
    for name in names_between_commas(text):
        if not _FLAG.fullmatch(name):
            raise ValueError(f"flags such as --max-model-len between commas; {name[:60]!r} is none")
    return text


def check_words(text: str) -> str:
    """The setting as it is; raises ValueError where quotes are left open."""
    shlex.split(text)
    return text


@dataclass(frozen=True)
class LaunchPolicy:
    """What the operator allows."""

    models: frozenset[str]
    flags: frozenset[str]

    def check_model(self, name: str, *, field: str) -> None:
        """Refuse a model that is not listed; all of them where none is. Raises NotAllowedError."""
        if name in self.models:
            return
        if not self.models:
            raise NotAllowedError(
                "this service starts no servers", expected="attach, with servers that run already", got="launch",
                remedy="have the operator list models in SPECWORTH_LAUNCH_MODELS", field="launch",
            )  # fmt: skip
        raise NotAllowedError(
            f"{field}: this service does not start this model", expected="one of " + ", ".join(sorted(self.models)),
            got=ascii(name[:100]), remedy="have the operator add it to SPECWORTH_LAUNCH_MODELS", field=field,
        )  # fmt: skip

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Refuse a speculative config that says more than how to draft. Raises NotAllowedError, InputError."""
        for name, value in config.items():
            field = f"speculative_config.{name[:60]}"
            if name not in CONFIG:
                raise NotAllowedError(
                    f"{field}: not among what may be set", expected="one of " + ", ".join(CONFIG),
                    got=ascii(name[:60]), field=field,
                )  # fmt: skip
            if name == "model":
                self.check_model(str(value), field=field)
            else:
                _check_value(value, field)

    def words(self, arguments: Mapping[str, Any], *, field: str) -> tuple[str, ...]:
        """Arguments of `vllm serve`. Raises NotAllowedError, InputError."""
        words = []
        for name, value in arguments.items():
            place = f"{field}.{name[:60]}"
            if name not in self.flags:
                raise NotAllowedError(
                    f"{place}: this service does not pass on this flag", expected=_listed(self.flags),
                    got=ascii(name[:60]), remedy="have the operator add it to SPECWORTH_LAUNCH_FLAGS", field=place,
                )  # fmt: skip
            if value is True:
                words.append(name)
                continue
            _check_value(value, place)
            words.append(f"{name}={value}")
        return tuple(words)


def _check_value(value: object, field: str) -> None:
    plain = isinstance(value, (int, float, bool)) or (isinstance(value, str) and _VALUE.fullmatch(value))
    if not plain:
        raise InputError(
            f"{field}: no plain value", expected="true, a number, or a word of letters, digits and . _ + -",
            got=ascii(value)[:100], field=field,
        )  # fmt: skip


def _listed(names: Iterable[str]) -> str:
    return "one of " + ", ".join(sorted(names))
