"""What an operator may set about the service, all of it, by environment variables named SPECWORTH_*.

Built once, by whoever starts the service, and passed on; nothing else reads the environment. A value that cannot be
used is refused with the variable's name and the value. A SPECWORTH_ variable that is no setting is told at the start of
the service, since a typing mistake would otherwise be a silent default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ByteSize, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from api.access.loopback import is_loopback
from api.access.rate import checked_rate
from api.jobs.destinations import check_hosts
from api.jobs.launching import FLAGS, check_flags, check_words
from profiler.errors import InputError

PREFIX = "SPECWORTH_"
# Read elsewhere: where tests keep their vLLM (tests/real_vllm/install.py); a sweep's revision on a host without git;
# the trained models (models/artefact.py).
NOT_OURS = ("CACHE", "REVISION", "MODELS")


class Settings(BaseSettings):
    """The service's settings; each field `x` is the variable SPECWORTH_X."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on; the default is this machine alone")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    processes: int = Field(1, ge=1, le=64, description="processes that answer; each takes a core and 150 MB")
    max_body_bytes: Annotated[ByteSize, Field(ge=1024)] = Field(
        ByteSize(32 * 2**20), description="largest request body, in bytes or written like 32MiB"
    )
    max_prompts: int = Field(10_000, ge=1, description="most prompts in one request")
    max_json_depth: int = Field(64, ge=8, le=500, description="deepest nesting of a request body")
    body_timeout_s: float = Field(60.0, gt=0, le=3600, description="seconds in which a body must have arrived")
    max_waiting: int = Field(64, ge=1, description="requests that may wait for the one worker thread before a 503")
    store: bool = Field(True, description="keep every recommendation and profile in the database")
    database_url: str | None = Field(
        None,
        min_length=1,
        description="sqlite:////path or postgresql://...; left out, a file of this user",
    )
    database_wait_s: float = Field(5.0, gt=0, le=120, description="seconds to wait for the database before a 503")
    api_keys_file: Path | None = Field(None, description="YAML file with the API keys' hashes, scopes and limits")
    api_keys: SecretStr | None = Field(None, description="what would stand in that file, where there is none")
    no_keys: bool = Field(False, description="ask for no keys although there are some; on loopback only")
    rate_limit: Annotated[str, AfterValidator(checked_rate)] = Field(
        "600/minute", description="requests that one key may send, or none for no limit"
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="json lines, or text for people; auto is text on a terminal"
    )
    attach_hosts: Annotated[str, AfterValidator(check_hosts)] = Field(
        "", description="names, addresses and networks that profile jobs may attach to"
    )
    attach_api_key: SecretStr | None = Field(None, description="key that attached servers ask for, if they are listed")
    launch_models: str = Field("", description="models, drafters among them, that profile jobs may start; none: none")
    launch_flags: Annotated[str, AfterValidator(check_flags)] = Field(
        FLAGS, description="vLLM's flags that profile jobs may set"
    )
    launch_arguments: Annotated[str, AfterValidator(check_words)] = Field(
        "", description="arguments of every server that profile jobs start"
    )
    launch_python: str | None = Field(None, min_length=1, description="interpreter that has vLLM, or words that run it")
    launch_timeout_s: float = Field(900.0, ge=1, le=86_400, description="seconds that such a server may take to start")
    max_queued_jobs: int = Field(64, ge=1, description="profile jobs that may wait before a 429")
    max_job_budget_s: float = Field(600.0, ge=1, le=86_400, description="largest budget_s of a profile job")
    max_event_streams: int = Field(64, ge=1, description="streams of jobs' events that may be open before a 429")
    job_lease_s: float = Field(30.0, ge=1, le=3600, description="seconds after which a silent worker's job is given up")
    job_executor: Literal["local", "ray"] = Field(
        "local", description="where servers that profile jobs start run: local, or ray for a cluster's nodes"
    )
    ray_address: str | None = Field(None, min_length=1, description="HOST:PORT of the cluster's head; left out, here")
    ray_gpus: int | None = Field(None, ge=0, le=64, description="GPUs of one job; its parallel sizes if left out")
    ray_cpus: int = Field(2, ge=1, le=1024, description="CPU cores of one job")
    ray_accelerator: str | None = Field(None, min_length=1, description="Ray's name of the kind of GPU for jobs")
    shutdown_s: int = Field(30, ge=1, le=3600, description="seconds that requests under way have when it stops")

    @property
    def on_loopback(self) -> bool:
        """Can only this machine reach the address that is listened on?"""
        return is_loopback(self.host)


def load_settings(**overrides: str | int | bool | None) -> Settings:
    """Read the settings from the environment; `overrides` that are not None come before it.

    Raises InputError naming the variable, what was expected and the value that was found.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]  # pydantic checks and converts them
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]).lower() if first["loc"] else "?"
        label = f"--{name.replace('_', '-')}" if name in given else PREFIX + name.upper()
        known = Settings.model_fields.get(name)
        raise InputError(
            f"{label} cannot be used",
            expected=f"{_expected(first['msg'])} ({known.description if known else 'a setting'})",
            got="something else" if name == "api_keys" else repr(str(first["input"])[:80]),
            field=label,
        ) from None


def _expected(message: str) -> str:
    """What pydantic wants, without its opening."""
    message = message.removeprefix("Input should be ").removeprefix("Value error, ")
    return "a number " * message.startswith(("less ", "greater ")) + message[0].lower() + message[1:]


def unknown_settings(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Names of SPECWORTH_ variables that are no setting, each with the nearest name that is one."""
    from rapidfuzz import process

    known = [*(name.upper() for name in Settings.model_fields), *NOT_OURS]
    found = []
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and name not in known:
            near = process.extractOne(name, known, score_cutoff=70)
            found.append(f"{variable} (nearest: {PREFIX}{near[0]})" if near else variable)
    return found
