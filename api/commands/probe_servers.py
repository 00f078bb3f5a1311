"""Which servers does `specworth profile` measure: two that it starts, or ones that run already?"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from api.body import read_object
from api.commands.running_servers import api_key
from profiler.compatibility import default_gpu_memory_utilization
from profiler.errors import InputError
from profiler.observe.watch import server_root
from profiler.probe.environment import argument
from profiler.probe.settings import Attached, Launched
from profiler.serving.interpreter import PER_REQUEST_ARGUMENTS, Engine, ask_engine
from profiler.serving.launch import ServeCommand, serve_prefix

_MAX_CONFIG_BYTES = 2**16
_OURS = ("--host", "--port", "--speculative-config")
_NOT_REACHED = ("--uds", "--ssl-keyfile", "--ssl-certfile", "--root-path")  # we ask http://127.0.0.1:PORT


def attached_servers(options: Mapping[str, Any]) -> Attached | None:
    """Servers that run already; None where we start them. Refuses a mixture of both."""
    spec, base = options["speculative_url"], options["baseline_url"]
    if spec is None and base is None:
        for name in ("model", "api_key_env"):
            if options[name] is not None:
                remedy = "name one with --speculative-url"
                raise InputError(f"--{name.replace('_', '-')} is for servers that run already", remedy=remedy)
        return None
    if spec is None:
        raise InputError("--baseline-url without --speculative-url", expected="both, or --speculative-url alone")
    for name in ("python", "co_resident", "serve_arguments", "speculative_arguments"):
        if options[name]:
            raise InputError(f"--{name.replace('_', '-')} is for servers that are started, not for running ones")
    return Attached(
        speculative_url=server_root(spec), baseline_url=None if base is None else server_root(base),
        model=options["model"], api_key=api_key(options["api_key_env"]),
    )  # fmt: skip


def servers_to_start(
    options: Mapping[str, Any], config: dict[str, Any] | None, log_folder: Path
) -> tuple[Engine, Launched]:
    """The two servers to start."""
    target = options["target"]
    if target is None or config is None:
        missing = "--target" if target is None else "--speculative-config"
        raise InputError(
            f"{missing} is missing", expected="--target and --speculative-config, or --speculative-url",
        )  # fmt: skip
    both, more = (
        _words(options["serve_arguments"], "--serve-arguments"),
        _words(options["speculative_arguments"], "--speculative-arguments"),
    )
    prefix = serve_prefix(options["python"])
    if shutil.which(prefix[0]) is None:
        raise InputError(
            f"--python: there is no command {prefix[0]}", expected="an interpreter or command that has vLLM",
            remedy=None if options["python"] else "name one with --python PATH",
        )  # fmt: skip
    engine = ask_engine(prefix)
    if options["co_resident"]:
        version = engine.version or "0.26.0"
        given = argument(both, "--gpu-memory-utilization")
        share = float(given) if given else default_gpu_memory_utilization(version)
        both = (*both, "--gpu-memory-utilization", f"{share / 2:.3g}")
    per_request = PER_REQUEST_ARGUMENTS if engine.tells_acceptance_per_request else ()
    speculation = ("--speculative-config", json.dumps(config))
    return engine, Launched(
        baseline=ServeCommand(prefix, target, both),
        speculative=ServeCommand(prefix, target, (*both, *more, *per_request, *speculation)),
        log_folder=str(log_folder),
        co_resident=options["co_resident"],
        start_timeout_s=options["start_timeout"],
        api_key=argument((*both, *more), "--api-key") or os.environ.get("VLLM_API_KEY") or None,
    )


def _words(text: str, option: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"{option}: cannot be read", got=str(error).lower()) from None
    for word in words:
        name = word.partition("=")[0].replace("_", "-")
        if name in _OURS:
            raise InputError(f"{option}: {name} is set by specworth itself", remedy="leave it out")
        if name in _NOT_REACHED:
            remedy = "leave it out, or start the servers yourself and name them with --speculative-url"
            raise InputError(f"{option}: a server with {name} is not reached by specworth", remedy=remedy)
    return words


def speculative_config(text: str | None) -> dict[str, Any] | None:
    """vLLM's speculative config: the object itself, or a file that has it."""
    if text is None:
        return None
    if text.lstrip().startswith("{"):
        return read_object(text.encode(errors="surrogateescape"), max_depth=16, what="--speculative-config")
    path = Path(text).expanduser()
    if not path.is_file() or path.stat().st_size > _MAX_CONFIG_BYTES:
        raise InputError(
            "--speculative-config: cannot be read", expected="a JSON object, or a file that has it", got=text
        )
    return read_object(path.read_bytes(), max_depth=16, what=text)
