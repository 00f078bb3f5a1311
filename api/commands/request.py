"""What does a command line ask? Its options as the same request that goes over HTTP, and errors in the options' names.

A model's folder or config.json becomes its config inside the request, evidence its counts. That happens here and only
here: over HTTP no name is ever taken for a path.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from api.body import read_object
from api.findings import field_errors
from profiler.architecture.files import read_config_files
from profiler.errors import ArchitectureError, EvidenceError, InputError, SpecworthError

Asked = TypeVar("Asked", bound=BaseModel)

# Option (a parameter of the command) -> where it stands in the request.
PLACES: dict[str, str] = {
    "target": "deployment.target",
    "gpu": "deployment.gpu",
    "quantization": "deployment.target.quantization",
    "tensor_parallel_size": "deployment.tensor_parallel_size",
    "gpu_memory_utilization": "deployment.gpu_memory_utilization",
    "max_model_len": "deployment.max_model_len",
    "max_num_seqs": "deployment.max_num_seqs",
    "max_num_batched_tokens": "deployment.max_num_batched_tokens",
    "enable_prefix_caching": "deployment.enable_prefix_caching",
    "enforce_eager": "deployment.enforce_eager",
    "kv_cache_dtype": "deployment.kv_cache_dtype",
    "engine_version": "deployment.engine_version",
    "method": "deployment.speculation.method",
    "draft": "deployment.speculation.draft",
    "num_speculative_tokens": "deployment.speculation.num_speculative_tokens",
    "draft_sample_method": "deployment.speculation.draft_sample_method",
    "concurrency": "traffic.concurrency",
    "request_rate": "traffic.request_rate",
    "temperature": "traffic.temperature",
    "input_tokens": "traffic.input_tokens",
    "output_tokens": "traffic.output_tokens",
    "cached_prefix_share": "traffic.cached_prefix_share",
    "evidence": "evidence",
    "objective": "policy.objective",
    "min_speedup": "policy.min_speedup",
    "confidence": "policy.confidence",
}
_CONFIGS = ("config.json", "params.json")
_LONGEST_NAME = 300  # of a model, in a request
_MAX_FILE_BYTES = 2**20  # of a file with counts
_MAX_DEPTH = 64


def request_fields(options: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The request's JSON object (without prompts) that the options state, and what was odd in the files they name.

    What was not given is left out. Raises InputError with the place in the request.
    """
    fields: dict[str, Any] = {"deployment": {}}
    notes: tuple[str, ...] = ()
    for option, place in PLACES.items():
        value = options.get(option)
        if value is None or option == "quantization":
            continue
        if option in ("target", "draft"):
            value, odd = _model(value, option=option)
            notes += odd
        elif option == "gpu" and value.lstrip().startswith("{"):
            value = _json_object(value.encode(errors="surrogateescape"), what="--gpu")
        elif option == "evidence":
            value = read_evidence(value)
        *above, last = place.split(".")
        parent = fields
        for step in above:
            parent = parent.setdefault(step, {})
        parent[last] = value
    if options.get("quantization") is not None:
        target = fields["deployment"]["target"]
        target = target if isinstance(target, dict) else {"name": target}
        fields["deployment"]["target"] = target | {"quantization": options["quantization"]}
    return fields, notes


def validated(model: type[Asked], fields: Mapping[str, Any], *, below: str = "") -> Asked:
    """`fields` as a frozen request; raises InputError whose field is the first thing wrong."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        found = field_errors(error.errors())
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        place = ".".join(part for part in (below, first.field) if part)
        raise InputError("", expected=first.expected, got=first.got + more, remedy=first.remedy, field=place) from None


def print_notes(notes: Iterable[str]) -> None:
    """Say on standard error what was odd in the files that were read."""
    for note in notes:
        print(f"specworth: note: {note}", file=sys.stderr)


def in_options(error: SpecworthError) -> str:
    """An error as one line that speaks of options where it has a field of the request."""
    line = error.line().removeprefix("; ")
    field = error.field or ""
    if field == "deployment.speculation":  # as a whole it is no option: a method is what it begins with
        field += ".method"
    for option, place in sorted(PLACES.items(), key=lambda item: -len(item[1])):
        if field == place or field.startswith((place + ".", place + "[")):
            inside = field[len(place) :].lstrip(".")
            return f"--{option.replace('_', '-')}{f' ({inside})' if inside else ''}: {line}"
    return f"{field}: {line}" if field and not error.what else line


def _model(name_or_path: str, *, option: str) -> tuple[str | dict[str, Any], tuple[str, ...]]:
    """A name as it is; a path as the config there, under the path that vLLM would serve; and what was odd in it."""
    path = Path(name_or_path).expanduser()
    looks_like_path = name_or_path.startswith((".", "/", "~")) or name_or_path.endswith(".json")
    holds_config = path.is_dir() and any((path / name).is_file() for name in _CONFIGS)
    if not (holds_config or path.is_file() or looks_like_path):
        return name_or_path, ()  # a catalog's name, even where a folder of that name happens to stand here
    try:
        files = read_config_files(path)
    except ArchitectureError as error:
        raise ArchitectureError(
            error.what, expected=error.expected, got=error.got, remedy=error.remedy, field=PLACES[option]
        ) from None
    served = str(Path(name_or_path).parent) if path.is_file() and path.name in _CONFIGS else name_or_path
    model: dict[str, Any] = {"name": served[-_LONGEST_NAME:], "config": files.config}
    if files.hf_quant_config is not None:
        model["hf_quant_config"] = files.hf_quant_config
    return model, files.notes


def read_evidence(text: str) -> dict[str, Any]:
    """Counts from a file, or from JSON itself. Raises EvidenceError."""
    if text.lstrip().startswith("{"):
        return _json_object(text.encode(errors="surrogateescape"), what="--evidence")
    path = Path(text).expanduser()
    if not path.is_file():
        what = f"{text} is no file"
        raise EvidenceError(what, expected="a JSON file with counts, or a JSON object", field="evidence")
    return _json_object(_read(path), what=text)


def _json_object(text: bytes, *, what: str) -> dict[str, Any]:
    return read_object(text, max_depth=_MAX_DEPTH, what=what)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read", got=(error.strerror or "an error").lower()) from None
    if len(text) > _MAX_FILE_BYTES:
        raise InputError(f"{path} is too large", expected=f"at most {_MAX_FILE_BYTES:,} bytes", got="more")
    return text
