"""What a client asks for with POST /v1/profiles: prompts, servers, load, and what is to be decided."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from advisor.fields import Closed, Flag, number, refuse, whole
from advisor.request import Name, Objective, Prompts
from api.jobs.destinations import AllowList, read_address
from api.jobs.launching import LaunchPolicy, names_between_commas
from api.settings import Settings
from profiler.errors import InputError
from profiler.probe.settings import DEFAULT_BUDGET_S, DEFAULT_CONFIDENCE, DEFAULT_MIN_SPEEDUP

Url = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Temperature = Annotated[float, number(0, 2)]


class AttachSpec(Closed):
    """Servers that run already; without a baseline, acceptance alone is measured."""

    speculative_url: Url
    baseline_url: Url | None = None
    model: Name | None = Field(default=None, description="Which of the models that they serve; left out: the first")


class LaunchSpec(Closed):
    """Servers that the worker starts, one after the other; flags as vLLM has them, each with its value or true."""

    arguments: dict[str, Any] = Field(default_factory=dict, max_length=40, description="Of both servers")
    speculative_arguments: dict[str, Any] = Field(
        default_factory=dict, max_length=40, description="Further ones of the speculative server alone"
    )
    co_resident: Flag = Field(default=False, description="Both at once, half the memory each")


class LoadSpec(Closed):
    """Under which the servers are measured."""

    concurrency: Annotated[int, whole(1, 65_536)] = 16
    temperature: Temperature | None = Field(default=None, description="Left out: each prompt's own")
    also_temperatures: Annotated[list[Temperature], Field(max_length=4)] = Field(default_factory=list)
    max_tokens: Annotated[int, whole(1, 1_000_000)] | None = Field(default=None, description="Longest answer")


class QuestionSpec(Closed):
    """What is to be decided; the probe stops once it is."""

    objective: Objective = "end_to_end"
    min_speedup: Annotated[float, number(0.1, 100)] = DEFAULT_MIN_SPEEDUP
    confidence: Annotated[float, number(0.55, 0.9999)] = DEFAULT_CONFIDENCE


class ProfileRequest(Closed):
    """One profile to be measured: servers to attach to, or to launch."""

    prompts: Prompts
    target: Name | None = Field(default=None, description="The model; needed where it is launched")
    gpu: Name | None = Field(default=None, description="For predicting where to look besides; as found if left out")
    speculative_config: dict[str, Any] | None = Field(
        default=None, max_length=40, description="vLLM's; needed for launching, and told of servers that run already"
    )
    attach: AttachSpec | None = None
    launch: LaunchSpec | None = None
    traffic: LoadSpec = LoadSpec()
    policy: QuestionSpec = QuestionSpec()
    budget_s: Annotated[float, number(1, 86_400)] = Field(
        default=DEFAULT_BUDGET_S, description="Seconds for each server, start-up not counted"
    )
    look_around: Flag = Field(default=True, description="Spend what is left of the budget on other concurrencies")
    seed: Annotated[int, whole(0, 2**31)] = 0

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.attach is None) == (self.launch is None):
            got = "neither" if self.attach is None else "both"
            raise refuse(f"expected attach or launch, got {got}", "attach")
        if self.launch is not None and self.target is None:
            raise refuse("expected the model to launch, got nothing", "target")
        if self.launch is not None and not self.speculative_config:
            raise refuse("expected vLLM's speculative config, got nothing", "speculative_config")
        return self

    @property
    def told_target(self) -> str:
        """What a profile calls the model."""
        return self.target or (self.attach.model if self.attach else None) or "(as served)"


def attachable(settings: Settings) -> AllowList:
    """The operator's allow-list."""
    return AllowList.parse(settings.attach_hosts)


def launchable(settings: Settings) -> LaunchPolicy:
    """The operator's models and flags."""
    return LaunchPolicy(
        frozenset(names_between_commas(settings.launch_models)), frozenset(names_between_commas(settings.launch_flags))
    )


def check_allowed(request: ProfileRequest, settings: Settings) -> None:
    """Refuse what the operator has not allowed, as far as it can be told without resolving names.

    Asked by the service when a job is posted, and again by the worker, whose settings decide. Raises InputError.
    """
    if request.budget_s > settings.max_job_budget_s:
        raise InputError(
            "budget_s: more than this service gives", expected=f"at most {settings.max_job_budget_s:g} s",
            got=f"{request.budget_s:g}", field="budget_s",
        )  # fmt: skip
    if request.attach is not None:
        allowed = attachable(settings)
        for name, url in (
            ("attach.speculative_url", request.attach.speculative_url),
            ("attach.baseline_url", request.attach.baseline_url),
        ):
            if url is not None:
                allowed.check(read_address(url, field=name), field=name)
    if request.launch is not None:
        policy = launchable(settings)
        policy.check_model(request.target or "", field="target")
        policy.check_config(request.speculative_config or {})
        policy.words(request.launch.arguments, field="launch.arguments")
        policy.words(request.launch.speculative_arguments, field="launch.speculative_arguments")
