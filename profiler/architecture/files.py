"""What stands in a model folder? config.json, params.json and hf_quant_config.json, read as vLLM would read them.

vLLM takes config.json where there is one, else Mistral's params.json, and ModelOpt's hf_quant_config.json beside it. A
key that stands twice is told: the last one counts, for json and vLLM alike. Refused with what was found: missing and
empty files, Git LFS pointers, web pages, text that is no JSON, JSON that is no object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from profiler.architecture.architecture import Architecture
from profiler.architecture.read import read_architecture
from profiler.errors import ArchitectureError

_NAMES: Final = ("config.json", "params.json")
_QUANTISED: Final = "hf_quant_config.json"
_MOST_BYTES: Final = 32 * 2**20  # the longest published configs (per-layer quantisation tables) stay under 1 MiB


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """The config of one model, the quantisation file beside it, and what was odd in reading them."""

    path: Path
    config: dict[str, Any]
    hf_quant_config: dict[str, Any] | None
    notes: tuple[str, ...]


def read_config_file(path: str | Path) -> dict[str, Any]:
    """The config in a file or folder, as an object; raises ArchitectureError for what is none."""
    return read_config_files(path).config


def read_config_files(path: str | Path) -> ConfigFiles:
    """The config in a file or folder and the hf_quant_config.json beside it, with notes on keys that stand twice."""
    chosen = _chosen(Path(path))
    config, notes = _read(chosen)
    beside = chosen.with_name(_QUANTISED)
    if not beside.is_file() and chosen.name.endswith(".json") and chosen.name not in _NAMES:
        beside = chosen.with_name(chosen.name.removesuffix(".json") + "." + _QUANTISED)
    quantised, more = _read(beside) if beside.is_file() and beside != chosen else (None, ())
    return ConfigFiles(chosen, config, quantised, notes + more)


def load_architecture(path: str | Path, *, name: str | None = None, quantization: str | None = None) -> Architecture:
    """Read the model in a file or folder; what was odd in its files joins the architecture's notes."""
    files = read_config_files(path)
    folder = files.path.parent.name if files.path.name in _NAMES else files.path.stem
    found = read_architecture(
        files.config, name=name or folder or str(path), quantization=quantization, hf_quant_config=files.hf_quant_config
    )
    return replace(found, notes=found.notes + files.notes) if files.notes else found


def _chosen(path: Path) -> Path:
    if path.is_dir():
        for name in _NAMES:
            if (path / name).is_file():
                return path / name
        held = sorted(entry.name for entry in path.iterdir())[:5]
        raise ArchitectureError(
            f"No model config in {path}",
            expected=" or ".join(_NAMES),
            got=", ".join(held) or "an empty folder",
            field="config",
        )
    if not path.is_file():
        raise ArchitectureError(
            f"No such file: {path}", expected="a config.json, params.json or a folder with one", field="config"
        )
    if path.name == _QUANTISED:
        raise ArchitectureError(
            f"{path} describes a quantisation, not a model",
            expected="the config.json beside it",
            got=_QUANTISED,
            field="config",
        )
    return path


def _read(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise _error(path, f"at most {_MOST_BYTES // 2**20} MiB", f"{path.stat().st_size // 2**20} MiB")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(path, "JSON in UTF-8", f"bytes that are none (at {error.start})") from None
    except OSError as error:
        raise _error(path, "a readable file", error.strerror or str(error)) from None
    if not text.strip():
        raise _error(path, "a JSON object", "an empty file")
    if text.startswith("version https://git-lfs"):
        raise _error(path, "a JSON object", "a Git LFS pointer", "fetch the file itself: git lfs pull")
    if text.lstrip().startswith("<"):
        raise _error(path, "a JSON object", "a web page (perhaps an error page saved as the file)")
    twice: list[str] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                twice.append(_twice(path, key, found[key], value))
            found[key] = value
        return found

    try:
        value = json.loads(text, object_pairs_hook=object_of)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _error(path, "a JSON object", f"text that is no JSON ({error})") from None
    if not isinstance(value, Mapping):
        raise _error(path, "a JSON object", f"a JSON {_kind(value)}")
    return dict(value), tuple(twice)


def _twice(path: Path, key: str, first: object, last: object) -> str:
    same = "with the same value" if first == last else f"the last one counts ({_short(last)}, not {_short(first)})"
    return f"{path.name} has the key {key} twice, {same}"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _kind(value: object) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")


def _error(path: Path, expected: str, got: str, remedy: str | None = None) -> ArchitectureError:
    return ArchitectureError(f"{path} cannot be read", expected=expected, got=got, remedy=remedy, field="config")
