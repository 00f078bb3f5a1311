"""Where a session runs: what the servers, NVML and the host say of themselves."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from profiler.metrics.gpu import GpuHost
from profiler.probe.profile import Arm, Environment
from profiler.probe.settings import Attached, Launched
from profiler.serving.inspection import ServerFacts, is_local

# Each multiplies the GPUs that one server holds.
_PARALLEL = (
    ("--tensor-parallel-size", "-tp"),
    ("--pipeline-parallel-size", "-pp"),
    ("--data-parallel-size", "-dp"),
)


# What an option or a variable of a secret ends with: --api-key, --hf-token, HF_TOKEN=..., but not --tokenizer.
_SECRET = re.compile(r"(?i)(?:^|[-_])(?:token|key|secret|password)$")


class Surroundings:
    """Grows as servers are seen."""

    def __init__(self, servers: Launched | Attached) -> None:
        self._servers = servers
        self.facts: dict[Arm, ServerFacts] = {}
        self.build_version: str | None = None  # as the interpreter tells it, with the build's tag
        self.per_request_metrics = False
        self._gpus = GpuHost()

    def learn(self, arm: Arm, facts: ServerFacts, gpus: GpuHost) -> None:
        """Keep what a server says; GPUs of this host count where the server runs here, and not on its CPU."""
        self.facts[arm] = facts
        if not facts.is_cpu and is_local(facts.url):
            self._gpus = gpus

    @property
    def gpus_held(self) -> int:
        """GPUs that one server holds; 0 on a CPU."""
        if any(facts.is_cpu for facts in self.facts.values()):
            return 0
        if isinstance(self._servers, Launched):
            return gpus_of(self._servers.baseline.arguments)
        return 1

    def environment(self) -> Environment:
        """What is known now."""
        base, spec = self.facts.get("baseline"), self.facts.get("speculative")
        known = [facts for facts in (spec, base) if facts is not None]
        lengths = [facts.max_model_len for facts in known if facts.max_model_len is not None]
        servers = self._servers
        mode = "attached" if isinstance(servers, Attached) else "co-resident" if servers.co_resident else "launched"
        on_cpu = any(facts.is_cpu for facts in known)
        return Environment.model_validate(
            {
                "mode": mode,
                "engine_version": self.build_version or next((f.version for f in known if f.version), None),
                "platform": "cpu" if on_cpu else "gpu" if self._gpus.names else None,
                "gpus": self._gpus.names[: self.gpus_held or 1] if not on_cpu else (),
                "gpu_memory_bytes": None if on_cpu else self._gpus.memory_bytes,
                "driver": None if on_cpu else self._gpus.driver,
                "host_cpu": cpu_name() if not isinstance(servers, Attached) else None,
                "serve_arguments": without_secrets(servers.baseline.arguments) if isinstance(servers, Launched) else (),
                "per_request_metrics": self.per_request_metrics,
                "max_model_len": min(lengths, default=None),
                "kv_tokens_baseline": base.kv_tokens if base is not None else None,
                "kv_tokens_speculative": spec.kv_tokens if spec is not None else None,
            }
        )


def without_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments with dots in place of keys: a profile is handed around."""
    told: list[str] = []
    for word in arguments:
        name, equals, _ = word.partition("=")
        before = told[-1] if told else ""
        if equals and _SECRET.search(name):
            told.append(f"{name}=...")
        else:
            follows = before.startswith("-") and _SECRET.search(before) and not word.startswith("--")
            told.append("..." if follows else word)
    return tuple(told)


def gpus_of(arguments: Sequence[str]) -> int:
    """GPUs that `vllm serve` takes with these arguments."""
    count = 1
    for names in _PARALLEL:
        value = argument(arguments, *names)
        count *= int(value) if value is not None and value.isdecimal() else 1
    return count


def argument(arguments: Sequence[str], *names: str) -> str | None:
    """The value of an option in either of its spellings, `--name value` or `--name=value`; the last one counts."""
    found = None
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            found = value if equals else arguments[i + 1] if i + 1 < len(arguments) else None
    return found


def cpu_name() -> str | None:
    """The host's processor; launching kernels is its work."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()[:200]
    except OSError:
        pass
    return platform.processor() or None
