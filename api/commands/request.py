"""What does a command line ask? Its options as the same request that goes over HTTP, and errors in the options' names.

Files are read here and only here: a model's folder or config.json becomes its config inside the request, evidence its
counts. Over HTTP no name is ever taken for a path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from api.body import read_object
from api.findings import field_errors
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
_MAX_FILE_BYTES = 64 * 2**20  # of a config.json or evidence: the largest published config has 3 MB
_MAX_DEPTH = 64


def request_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The request's JSON object (without prompts) that the options state; what was not given is left out."""
    fields: dict[str, Any] = {"deployment": {}}
    for option, place in PLACES.items():
        value = options.get(option)
        if value is None or option == "quantization":
            continue
        if option in ("target", "draft"):
            value = _model(value, option=option)
        elif option == "gpu" and value.lstrip().startswith("{"):
            value = _json_object(value.encode(errors="surrogateescape"), what="--gpu")
        elif option == "evidence":
            value = _evidence(value)
        *above, last = place.split(".")
        parent = fields
        for step in above:
            parent = parent.setdefault(step, {})
        parent[last] = value
    if options.get("quantization") is not None:
        target = fields["deployment"]["target"]
        target = target if isinstance(target, dict) else {"name": target}
        fields["deployment"]["target"] = target | {"quantization": options["quantization"]}
    return fields


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


def in_options(error: SpecworthError) -> str:
    """An error as one line that speaks of options where it has a field of the request."""
    line = error.line().removeprefix("; ")
    field = error.field or ""
    for option, place in sorted(PLACES.items(), key=lambda item: -len(item[1])):
        if field == place or field.startswith((place + ".", place + "[")):
            inside = field[len(place) :].lstrip(".")
            return f"--{option.replace('_', '-')}{f' ({inside})' if inside else ''}: {line}"
    return f"{field}: {line}" if field and not error.what else line


def _model(name_or_path: str, *, option: str) -> str | dict[str, Any]:
    """A name as it is; a path as the config that lies there, under the path that vLLM would serve."""
    field = PLACES[option]
    path = Path(name_or_path).expanduser()
    looks_like_path = name_or_path.startswith((".", "/", "~")) or name_or_path.endswith(".json")
    if path.is_dir():
        found = next((path / name for name in ("config.json", "params.json") if (path / name).is_file()), None)
        if found is None:
            if not looks_like_path:
                return name_or_path  # a catalog's name that a folder beside us happens to have
            what = f"the folder {name_or_path} holds no model config"
            raise ArchitectureError(what, expected="config.json or params.json in it", field=field)
        folder, path = name_or_path, found
    elif path.is_file():
        folder = str(path.parent) if path.name in ("config.json", "params.json") else name_or_path
    elif looks_like_path:
        raise ArchitectureError(f"{name_or_path} does not exist", expected="a folder or config.json", field=field)
    else:
        return name_or_path
    model: dict[str, Any] = {"name": folder[-300:], "config": _config(path, field)}
    beside = path.parent / "hf_quant_config.json"
    if beside.is_file() and beside != path:
        model["hf_quant_config"] = _config(beside, field)
    return model


def _config(path: Path, field: str) -> dict[str, Any]:
    # A key that stands twice is read as transformers and vLLM read it (the last counts): published configs have that.
    try:
        loaded = json.loads(_read(path).decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        what = f"{path} cannot be read as JSON"
        got = " ".join(str(error).split())[:120]
        raise ArchitectureError(what, expected="a Hugging Face config.json", got=got, field=field) from None
    if not isinstance(loaded, dict):
        what = f"{path} is no model config"
        raise ArchitectureError(what, expected="a JSON object", got=f"a {type(loaded).__name__}", field=field)
    return loaded


def _evidence(text: str) -> dict[str, Any]:
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
