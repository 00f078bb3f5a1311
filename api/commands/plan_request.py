"""What does the command line ask of a plan? A TOML file and options as the request that goes over HTTP.

The file states the request field by field (docs/plan.md). Here, and only here, a class may name files beside the TOML
file (`prompts_file`, `evidence_file`, `profile_file`) and the curve comes from a file. Errors are told in the file's or
the options' words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.plan import PlanRequest
from api.commands.profiled import filled_in, read_profile
from api.commands.request import PLACES, read_evidence, request_fields, validated
from api.commands.toml_file import line_of, read_toml
from profiler.errors import InputError
from profiler.prompts import read_prompts
from profiler.prompts.sample import PromptSample

ONE = "requests"  # the class of those who state one by options
_MAX_BYTES = 2**22
_ONE_CLASS = ("input_tokens", "input_tokens_p95", "output_tokens", "temperature", "cached_prefix_share")
_OPTIONS = {
    "growth": "demand.growth",
    "peak_to_mean": "demand.peak_to_mean",
    "ttft_p95_ms": "slo.ttft_p95_ms",
    "tpot_p95_ms": "slo.tpot_p95_ms",
    "min_saving": "policy.min_saving",
    "confidence": "policy.confidence",
    "min_replicas": "policy.min_replicas",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The request, prompts that were read for it, and where it was read from."""

    request: PlanRequest
    samples: dict[str, PromptSample]
    file: Path | None
    text: str
    demand: Path | None


def asked_plan(options: Mapping[str, Any]) -> Asked:
    """The request of a command line. Raises InputError."""
    file: Path | None = options["file"]
    fields: dict[str, Any] = {}
    text = ""
    if file is not None:
        expected = "a TOML file with [slo], [classes.NAME], [[gpus]] and [deployment]"
        fields, text = read_toml(file, name="the plan", expected=expected, max_bytes=_MAX_BYTES)
    samples = _samples(fields, file)
    _evidence_files(fields, file)
    filled, profile = filled_in(options)
    options = filled | {"gpu": options["gpu"], "profile": profile}  # its GPU has no price
    for option, place in _OPTIONS.items():
        if options[option] is not None:
            group, name = place.split(".")
            _table(fields, group)[name] = options[option]
    _served(fields, options)
    _gpus(fields, options)
    _one_class(fields, options, samples)
    _demand(fields, options)
    missing = [f"{how} ({name})" for name, how in (
        ("deployment.target", "--target"), ("gpus", "--gpu NAME=PRICE"), ("demand", "--demand or --request-rate"),
        ("slo", "--ttft-p95-ms or --tpot-p95-ms"), ("classes", "--prompts, or --input-tokens and --output-tokens"),
    ) if not _has(fields, name)]  # fmt: skip
    if missing:
        raise InputError(
            "the plan is not complete", expected=", ".join(missing), got="none", remedy="docs/plan.md has all"
        )
    asked = Asked(PlanRequest.model_construct(), samples, file, text, options["demand"])
    stand_in = dict.fromkeys(samples, "")  # prompts that are read are no part of the request
    for name in stand_in:
        fields["classes"][name] = {**fields["classes"][name], "prompts": []}
    try:
        request = validated(PlanRequest, fields)
    except InputError as error:
        raise in_words(error, asked) from None
    return Asked(request, samples, file, text, options["demand"])


def in_words(error: InputError, asked: Asked) -> InputError:
    """The error in the words of who asked: the option or the file's line where it stands."""
    field = error.field or ""
    where = next((f"--{name.replace('_', '-')}" for name, place in _OPTIONS.items() if place == field), None)
    if field.startswith("demand.csv") and asked.demand is not None:
        where = f"--demand: {asked.demand}"
    elif asked.file is not None:
        where = f"{asked.file}{line_of(asked.text, field)}: {field}" if field else str(asked.file)
    elif field.startswith("gpus["):
        where = "--gpu"
    elif field.startswith(f"classes.{ONE}."):
        where = f"--{field.rpartition('.')[2].replace('_', '-')}"
    elif field in PLACES.values():
        return error
    what = ": ".join(part for part in (where or field, error.what) if part)
    return type(error)(what, expected=error.expected, got=error.got, remedy=error.remedy)


def _has(fields: Mapping[str, Any], place: str) -> bool:
    value: Any = fields
    for step in place.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return bool(value)


def _table(fields: dict[str, Any], name: str) -> dict[str, Any]:
    table = fields.setdefault(name, {})
    if not isinstance(table, dict):
        raise InputError(f"the plan: {name}", expected="a table", got=type(table).__name__)
    return table


def _samples(fields: dict[str, Any], file: Path | None) -> dict[str, PromptSample]:
    """Prompts of classes that name a file of them."""
    found: dict[str, PromptSample] = {}
    for name, spec in _table(fields, "classes").items():
        if isinstance(spec, dict) and "prompts_file" in spec:
            found[name] = read_prompts(
                str(_beside(spec.pop("prompts_file"), file, named=f"classes.{name}.prompts_file"))
            )
    return found


def _evidence_files(fields: dict[str, Any], file: Path | None) -> None:
    """Counts and profiles of classes that name a file of them."""
    for name, spec in _table(fields, "classes").items():
        for key in ("evidence_file", "profile_file"):
            if not isinstance(spec, dict) or key not in spec:
                continue
            if "evidence" in spec:
                raise InputError(f"classes.{name}.{key}", expected="evidence once", got="it beside another")
            place = _beside(spec.pop(key), file, named=f"classes.{name}.{key}")
            if key == "profile_file":
                spec["evidence"] = {"profile": read_profile(place, named=f"classes.{name}.{key}")[0]}
            else:
                spec["evidence"] = read_evidence(str(place))


def _beside(given: object, file: Path | None, *, named: str) -> Path:
    """A path as the TOML file means it."""
    if not isinstance(given, str):
        raise InputError(named, expected="a path", got=repr(given)[:60])
    place = Path(given)
    return place if place.is_absolute() or file is None else file.parent / place


def _served(fields: dict[str, Any], options: Mapping[str, Any]) -> None:
    """The deployment's options, as advise reads them, over what the file says."""
    stated, _ = request_fields({**options, "gpu": None, "evidence": None, "temperature": None, "input_tokens": None,
                                "output_tokens": None, "cached_prefix_share": None, "request_rate": None,
                                "confidence": None})  # fmt: skip
    _table(fields, "deployment").update(stated["deployment"])
    target = fields["deployment"].get("target")
    if target is None and options.get("quantization") is not None:
        raise InputError("--quantization", expected="a target with it", got="none")


def _gpus(fields: dict[str, Any], options: Mapping[str, Any]) -> None:
    if not options["gpu"]:
        return
    found = []
    for text in options["gpu"]:
        name, mark, price = text.rpartition("=")
        try:
            found.append({"gpu": name.strip(), "price_per_hour": float(price)})
        except ValueError:
            mark = ""
        if not mark or not name.strip():
            raise InputError("--gpu", expected="NAME=PRICE, as H200=3.60", got=repr(text[:60]))
    fields["gpus"] = found


def _one_class(fields: dict[str, Any], options: Mapping[str, Any], samples: dict[str, PromptSample]) -> None:
    """The class that options state; beside a file with classes they contradict it."""
    stated = {name: options[name] for name in _ONE_CLASS if options[name] is not None}
    if options["structure"]:
        stated["structure"] = dict(map(_share, options["structure"]))
    if options["profile"] is not None:
        stated["evidence"] = {"profile": options["profile"]}
    elif options["evidence"] is not None:
        stated["evidence"] = read_evidence(options["evidence"])
    if not stated and options["prompts"] is None:
        return
    if fields["classes"]:
        first = next(name for name in ("prompts", "profile", *stated) if options[name] is not None).replace("_", "-")
        raise InputError(f"--{first}", expected="the classes of the file alone, or of options alone", got="both")
    fields["classes"] = {ONE: stated}
    if options["prompts"] is not None:
        samples[ONE] = read_prompts(options["prompts"])


def _share(text: str) -> tuple[str, float]:
    kind, mark, share = text.partition("=")
    try:
        return kind.strip(), float(share) if mark else 1.0
    except ValueError:
        raise InputError("--structure", expected="KIND=SHARE, as code=0.7", got=repr(text[:60])) from None


def _demand(fields: dict[str, Any], options: Mapping[str, Any]) -> None:
    path, rate = options["demand"], options["request_rate"]
    if path is not None and rate is not None:
        raise InputError("--request-rate", expected="a rate or a curve (--demand)", got="both")
    if rate is not None:
        names = list(fields["classes"]) or [ONE]
        if len(names) > 1:
            raise InputError(
                "--request-rate", expected="one class; several have rates in the file", got=f"{len(names)}"
            )
        demand = _table(fields, "demand")
        demand.pop("csv", None)
        demand["requests_per_s"] = {names[0]: rate}
    if path is not None:
        expected = "a CSV file with hour and requests per second"
        try:
            with path.open("rb") as opened:
                content = opened.read(2**20 + 1)
        except OSError as error:
            got = (error.strerror or "an error").lower()
            raise InputError(f"--demand: {path} cannot be read", expected=expected, got=got) from None
        demand = _table(fields, "demand")
        demand.pop("requests_per_s", None)
        try:
            demand["csv"] = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"--demand: {path} is no text", expected="UTF-8", got=f"other bytes at {error.start}"
            ) from None
