"""What can the named vLLM do, before it is started: its version, and does it tell acceptance per request?

An interpreter is asked without importing vLLM (which takes 10 s and more): the installed distribution has the version,
the sources hold the names of the options. A container command is asked for its --help.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.serving.launch import server_environment

# Since about 0.32; both or neither.
PER_REQUEST_ARGUMENTS = ("--enable-per-request-metrics", "--per-request-spec-decode-metrics", "detailed")
_ASK = """
import importlib.metadata as m, importlib.util as u, pathlib
try: print(m.version("vllm"))
except m.PackageNotFoundError: print("")
spec = u.find_spec("vllm")
root = pathlib.Path(next(iter(spec.submodule_search_locations))) if spec else None
names = ("enable_per_request_metrics", "per_request_spec_decode_metrics")
found = set()
for folder in ("entrypoints", "config", "engine"):
    for path in (root / folder).rglob("*.py") if root else ():
        text = path.read_text(errors="replace")
        found |= {name for name in names if name in text}
print(len(found) == len(names))
"""


@dataclass(frozen=True)
class Engine:
    """What is known of a vLLM before it starts."""

    version: str | None  # "0.32.0+cpu": the build's tag stands in it, which /version leaves out
    tells_acceptance_per_request: bool

    @property
    def is_cpu(self) -> bool:
        """A CPU build."""
        return self.version is not None and "cpu" in self.version


def ask_engine(prefix: Sequence[str], environment: Mapping[str, str] | None = None) -> Engine:
    """Version and options behind the words that start `vllm serve`; unknown is not an error here, starting tells."""
    interpreter = _interpreter(prefix)
    if interpreter is not None:
        lines = _output([interpreter, "-c", _ASK], environment, timeout_s=60.0).splitlines()
        if len(lines) == 2:
            return Engine(lines[0] or None, lines[1] == "True")
        return Engine(None, False)
    helped = _output([*prefix, "--help=all"], environment, timeout_s=180.0)
    return Engine(None, all(word in helped for word in PER_REQUEST_ARGUMENTS if word.startswith("--")))


def _interpreter(prefix: Sequence[str]) -> str | None:
    """The Python that the words run; None for a container or another command."""
    if len(prefix) > 1 and prefix[1] == "-m":
        return prefix[0]
    if tuple(prefix) == ("vllm", "serve"):
        script = shutil.which("vllm")
        if script is None:
            return None
        with open(script, "rb") as source:
            first = source.readline(200).decode(errors="replace")
        words = first.removeprefix("#!").split()
        return words[0] if first.startswith("#!") and words and "python" in words[0] else None
    return None


def _output(words: Sequence[str], environment: Mapping[str, str] | None, *, timeout_s: float) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout_s, env=server_environment(environment),
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
