"""What is asked: prompts, a deployment, its traffic, what was measured, and the policy that decides.

The fields have vLLM's names where vLLM has one. Unknown fields, numbers out of bounds and statements that contradict
each other are refused here, with their place; names (models, GPUs) are resolved later, in `advisor.deployment`.
Nothing here reads a file: a model is a catalog name, or a config given inside the request.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from advisor.features import WorkloadFeatures
from advisor.fields import Closed, EngineVersion, Flag, number, refuse, shown, whole
from profiler.deployment import MAX_SPECULATIVE_TOKENS, METHODS, Method
from profiler.probe.profile import SCHEMA_VERSION, Profile

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
Config = Annotated[dict[str, Any], Field(description="A Hugging Face config.json, or Mistral's params.json, as it is")]
KvCacheDtype = Literal["auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"]
Objective = Literal["end_to_end", "tpot"]


class ModelSpec(Closed):
    """A model: by catalog name, or with its own config (the name is then only a label)."""

    name: Name
    config: Config | None = None
    quantization: str | None = Field(default=None, description="As vLLM's --quantization; overrides the config's")
    hf_quant_config: dict[str, Any] | None = Field(default=None, description="hf_quant_config.json, where there is one")


class GpuSpec(Closed):
    """An accelerator: by catalog name, or with its figures (each given figure overrides the catalog's)."""

    name: Name
    memory_gib: Annotated[float, number(1, 2048)] | None = Field(default=None, description="What the driver shows")
    bandwidth_gb_per_s: Annotated[float, number(50, 100_000)] | None = None
    bf16_tflops: Annotated[float, number(1, 50_000)] | None = Field(default=None, description="Dense rate")
    fp8_tflops: Annotated[float, number(1, 100_000)] | None = None


def _named(value: object) -> object:
    """A bare name is an object that has nothing but the name."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, (dict, ModelSpec, GpuSpec)):
        return value
    what = f"expected a name or an object with a name, got {shown(value)}"
    raise PydanticCustomError("name_or_object", "{what}", {"what": what})


Model = Annotated[ModelSpec, BeforeValidator(_named, json_schema_input_type=str | ModelSpec)]
GpuField = Annotated[GpuSpec, BeforeValidator(_named, json_schema_input_type=str | GpuSpec)]


def _known_method(value: object) -> object:
    """vLLM's method names; the nearest is named where the given one is not known."""
    if isinstance(value, str) and value in METHODS:
        return value
    from rapidfuzz import fuzz, process

    nearest = process.extractOne(str(value), METHODS, scorer=fuzz.WRatio, score_cutoff=50)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    what = f"unknown method: expected one of {', '.join(METHODS)}, got {shown(value)}{hint}"
    raise PydanticCustomError("unknown_method", "{what}", {"what": what})


KnownMethod = Annotated[Method, BeforeValidator(_known_method)]


class SpeculationSpec(Closed):
    """One way of speculating, in the names of vLLM's speculative config; k left out: 1 to 8 are compared.

    With nothing but k, all methods that apply are compared with that k.
    """

    method: KnownMethod | None = Field(default=None, description="Left out: what the draft is decides")
    draft: Model | None = Field(default=None, description="Left out: the drafters known for the target")
    num_speculative_tokens: Annotated[int, whole(1, MAX_SPECULATIVE_TOKENS)] | None = None
    draft_sample_method: Literal["greedy", "probabilistic"] = "greedy"
    draft_tensor_parallel_size: Annotated[int, whole(1, 64)] | None = None
    prompt_lookup_max: Annotated[int, whole(1, 64)] | None = None
    prompt_lookup_min: Annotated[int, whole(1, 64)] | None = None
    use_heterogeneous_vocab: Flag = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.method is None and self.draft is None and self.num_speculative_tokens is None:
            raise refuse("expected a method, a draft or both, or num_speculative_tokens; got none of them", "method")
        if self.method in ("ngram", "suffix") and self.draft is not None:
            raise refuse(f"{self.method} drafts from the text itself and takes no draft model", "draft")
        low, high = self.prompt_lookup_min, self.prompt_lookup_max
        if low is not None and high is not None and low > high:
            raise refuse(f"expected at most prompt_lookup_max ({high}), got {low}", "prompt_lookup_min", got=low)
        return self


class DeploymentSpec(Closed):
    """What is served, on what, and how; a setting left out has vLLM's default for that version."""

    target: Model
    gpu: GpuField
    tensor_parallel_size: Annotated[int, whole(1, 64)] = 1
    gpu_memory_utilization: Annotated[float, number(0.05, 1.0)] | None = None
    max_model_len: Annotated[int, whole(16, 20_000_000)] | None = None
    max_num_seqs: Annotated[int, whole(1, 65_536)] | None = None
    max_num_batched_tokens: Annotated[int, whole(16, 4_194_304)] | None = None
    enable_prefix_caching: Flag = True
    enforce_eager: Flag = False
    kv_cache_dtype: KvCacheDtype = "auto"
    engine_version: EngineVersion = "0.26.0"
    speculation: SpeculationSpec | None = Field(default=None, description="Left out: all that apply are compared")


class TrafficSpec(Closed):
    """What the server is under; each field left out is estimated from the prompts, and the answer says so."""

    concurrency: Annotated[int, whole(1, 65_536)] | None = Field(default=None, description="Requests running at once")
    request_rate: Annotated[float, number(0, 100_000, above=True)] | None = Field(
        default=None, description="Requests per second; solved for concurrency by Little's law"
    )
    temperature: Annotated[float, number(0, 2)] | None = None
    input_tokens: Annotated[float, number(1, 20_000_000)] | None = Field(default=None, description="Mean prompt length")
    output_tokens: Annotated[float, number(1, 2_000_000)] | None = Field(default=None, description="Mean answer length")
    cached_prefix_share: Annotated[float, number(0, 1)] | None = Field(
        default=None, description="Share of the prompt tokens that prefix caching serves"
    )

    @model_validator(mode="after")
    def _one_load(self) -> Self:
        if self.concurrency is not None and self.request_rate is not None:
            raise refuse("expected concurrency or request_rate, got both", "request_rate", got=self.request_rate)
        return self


_COUNT = whole(0, 10**15)
_COUNTED = ("drafts", "accepted_per_position", "accepted_tokens", "drafted_tokens", "decode_tokens", "temperature")


def _this_version(value: object) -> object:
    """A profile of another schema is refused as such, not field by field."""
    version = value.get("schema_version", SCHEMA_VERSION) if isinstance(value, dict) else SCHEMA_VERSION
    if version != SCHEMA_VERSION:
        what = f"expected a profile of schema version {SCHEMA_VERSION}, got {shown(version)}"
        raise PydanticCustomError("profile_version", "{what}", {"what": what})
    return value


GivenProfile = Annotated[Profile, BeforeValidator(_this_version)]


class EvidenceSpec(Closed):
    """What a run with speculation on counted (vLLM's spec_decode counters), or the id of a stored profile."""

    drafts: Annotated[int, _COUNT] | None = Field(default=None, description="Steps in which a draft was made")
    accepted_per_position: list[Annotated[int, _COUNT]] | None = Field(default=None, min_length=1)
    accepted_tokens: Annotated[int, _COUNT] | None = None
    drafted_tokens: Annotated[int, _COUNT] | None = None
    decode_tokens: Annotated[int, _COUNT] | None = Field(
        default=None, description="Generated after each request's first; tells how many steps drafted nothing"
    )
    temperature: Annotated[float, number(0, 2)] | None = None
    profile_id: Name | None = None
    profile: GivenProfile | None = Field(
        default=None, description="profile.json of `specworth profile`, whole, instead of counts"
    )

    @classmethod
    def of(cls, profile: Profile) -> Self:
        """A profile as evidence."""
        return cls.model_validate({"profile": profile})

    @property
    def accepted(self) -> int:
        """Accepted draft tokens over all positions."""
        if self.accepted_per_position is not None:
            return sum(self.accepted_per_position)
        return self.accepted_tokens or 0

    @model_validator(mode="after")
    def _complete(self) -> Self:
        counts = [name for name in _COUNTED if getattr(self, name) is not None]
        if self.profile is not None and (counts or self.profile_id is not None):
            raise refuse(f"expected a profile or counts, got both ({', '.join(counts) or 'profile_id'})", "profile")
        if self.profile_id is not None or self.profile is not None:
            return self
        if self.drafts is None:
            raise refuse("expected drafts (the number of drafts made) or a profile_id; got neither", "drafts")
        if self.accepted_per_position is None and self.accepted_tokens is None:
            raise refuse("expected accepted_per_position or accepted_tokens; got neither", "accepted_tokens")
        self._agrees(self.drafts)
        return self

    def _agrees(self, drafts: int) -> None:
        positions = self.accepted_per_position
        if positions is not None:
            previous = drafts
            for position, accepted in enumerate(positions):
                if accepted > previous:
                    before = f"position {position}" if position else "drafts"
                    what = f"position {position + 1} accepted {accepted}, more than {before} with {previous}"
                    raise refuse(what, "accepted_per_position", got=positions)
                previous = accepted
            if self.accepted_tokens is not None and self.accepted_tokens != sum(positions):
                what = f"accepted_per_position sums to {sum(positions)}, but accepted_tokens is {self.accepted_tokens}"
                raise refuse(what, "accepted_tokens", got=self.accepted_tokens)
        accepted = self.accepted
        if self.drafted_tokens is not None and accepted > self.drafted_tokens:
            what = f"{accepted} tokens accepted of {self.drafted_tokens} drafted: more accepted than drafted"
            raise refuse(what, "accepted_tokens", got=accepted)
        if self.drafted_tokens is not None and self.drafted_tokens < drafts:
            what = f"expected at least one drafted token in each of {drafts} drafts, got {self.drafted_tokens}"
            raise refuse(what, "drafted_tokens", got=self.drafted_tokens)
        if self.decode_tokens is not None and self.decode_tokens < accepted:
            what = f"expected at least the {accepted} accepted tokens, got {self.decode_tokens}"
            raise refuse(what, "decode_tokens", got=self.decode_tokens)

    def check_against(self, k: int, *, at: tuple[str, ...] = ("evidence",)) -> None:
        """Refuse counts that k draft tokens a step cannot have given; at: where the evidence stands in the request."""
        if self.drafts is None:
            return
        if self.accepted_per_position is not None and len(self.accepted_per_position) != k:
            what = f"expected k = {k} counts, one for each position, got {len(self.accepted_per_position)}"
            raise refuse(what, *at, "accepted_per_position", got=self.accepted_per_position)
        if self.accepted > k * self.drafts:
            what = (
                f"{self.accepted} accepted of {self.drafts} drafts of k = {k} tokens: at most {k * self.drafts} can be"
            )
            raise refuse(what, *at, "accepted_tokens", got=self.accepted)
        if self.drafted_tokens is not None and self.drafted_tokens > k * self.drafts:
            what = f"expected at most drafts x k = {k * self.drafts}, got {self.drafted_tokens}"
            raise refuse(what, *at, "drafted_tokens", got=self.drafted_tokens)


def check_evidence(
    evidence: EvidenceSpec, speculation: SpeculationSpec | None, *, at: tuple[str, ...] = ("evidence",)
) -> None:  # fmt: skip
    """Refuse counts of nobody knows what, and those that the stated k cannot have given; at: where they stand."""
    if evidence.drafts is None:
        return  # a profile, here or stored, says itself of what it is
    if speculation is None or speculation.method is None or speculation.num_speculative_tokens is None:
        what = (
            "expected the method and the k that were measured; got evidence alone; name both in "
            "deployment.speculation (--method and -k)"
        )
        missing = "num_speculative_tokens" if speculation is not None and speculation.method else "method"
        path = ("deployment", "speculation") if speculation is None else ("deployment", "speculation", missing)
        raise refuse(what, *path, kind="evidence_without_method")
    evidence.check_against(speculation.num_speculative_tokens, at=at)


class PolicySpec(Closed):
    """What counts as worth it: which speedup decides, how large it must be, and how sure is sure."""

    objective: Objective = "end_to_end"
    min_speedup: Annotated[float, number(0.1, 100)] = 1.05
    confidence: Annotated[float, number(0.5, 0.9999)] = Field(
        default=0.8, description="Below this probability the verdict is not decisive"
    )


def _a_list(value: object) -> object:
    if not isinstance(value, (list, tuple)):
        what = f"expected a list of prompts, got {shown(value)}"
        raise PydanticCustomError("prompts", "{what}", {"what": what})
    return list(value)


_PROMPT_SCHEMA = {
    "description": "Strings, lists of chat messages, or objects with messages or prompt, and optionally max_tokens, "
    "temperature, response_format, tools, output (a past answer)",
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": ["object", "string"]}},
            {"type": "object"},
        ]
    },
}
# What a prompt may look like is read by profiler.prompts (one bad record must not refuse all), so pydantic takes any.
Prompts = Annotated[list[Any], BeforeValidator(_a_list), WithJsonSchema(_PROMPT_SCHEMA)]


class RecommendationRequest(Closed):
    """One question: is speculative decoding worth it for these prompts, on this deployment, under this traffic?"""

    prompts: Prompts = Field(default_factory=list)  # empty only where `advise` is handed a sample that is already read
    workload: WorkloadFeatures | None = Field(
        default=None, description="What POST /v1/workloads told of the prompts, instead of them"
    )
    deployment: DeploymentSpec
    traffic: TrafficSpec = TrafficSpec()
    evidence: EvidenceSpec | None = Field(
        default=None, description="Measured counts of the method and k that deployment.speculation names"
    )
    policy: PolicySpec = PolicySpec()

    @model_validator(mode="after")
    def _prompts_or_features(self) -> Self:
        if self.workload is not None and self.prompts:
            raise refuse(f"expected prompts or their features, got both ({len(self.prompts)} prompts)", "workload")
        return self

    @model_validator(mode="after")
    def _evidence_is_of_something(self) -> Self:
        if self.evidence is not None:
            check_evidence(self.evidence, self.deployment.speculation)
        return self
