"""Which architecture does this model name stand for, and where do its numbers come from?

Each file of `families/` holds one family:

    models:  name, aliases, tokenizer (models that share one can draft for each other), parameters (as published, where
             `source` says; counts_mtp where that figure counts multi-token-prediction layers), date of publication,
             fidelity, config (the fields of the config.json that decide sizes), usual_drafter (a usual draft model)
    heads:   name, method, targets, trained_context (tokens; null where not published), source, date, fidelity, config

fidelity: `checked` against a stored copy of the published config; `recalled`: typed from knowledge of it, and held by
the published parameter count alone. Only the file that a name points to is parsed, so that a look-up stays quick.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from profiler.architecture import Architecture, read_architecture
from profiler.catalog.names import match_key, unknown_name
from profiler.errors import ArchitectureError

# File of families/ -> parts of the names that it may hold. A name that fits no part is sought in all of them.
_FAMILIES: dict[str, tuple[str, ...]] = {
    "deepseek": ("deepseek",),
    "gemma": ("gemma",),
    "glm": ("glm",),
    "gpt-oss": ("gptoss",),
    "llama2": ("llama2", "vicuna", "tinyllama"),
    "llama3": ("llama3", "llama4"),
    "mimo": ("mimo",),
    "mistral": ("mistral", "ministral", "mixtral"),
    "phi": ("phi",),
    "qwen2.5": ("qwen25", "qwq"),
    "qwen3": ("qwen3",),
    "smollm": ("smollm",),
}


@dataclass(frozen=True, eq=False)
class ModelEntry:
    """One model of the catalog that can serve as a target or a draft model."""

    name: str
    aliases: tuple[str, ...]
    tokenizer: str
    published_parameters: float
    counts_mtp: bool  # whether the published figure counts the multi-token-prediction layers
    usual_drafter: bool
    source: str
    date: str
    fidelity: Literal["checked", "recalled"]
    config: Mapping[str, Any]

    @functools.cached_property
    def architecture(self) -> Architecture:
        """The architecture, read when it is asked for."""
        return read_architecture(self.config, name=self.name)


@dataclass(frozen=True, eq=False)
class HeadEntry:
    """One published drafter head (EAGLE, EAGLE-3, Medusa) of the catalog."""

    name: str
    aliases: tuple[str, ...]
    method: Literal["eagle", "eagle3", "medusa"]
    targets: tuple[str, ...]
    trained_context: int | None  # tokens of the training sequences; None where not published
    source: str
    date: str
    fidelity: Literal["checked", "recalled"]
    config: Mapping[str, Any]

    @functools.cached_property
    def architecture(self) -> Architecture:
        """The head's architecture, read when it is asked for."""
        return read_architecture(self.config, name=self.name)


@functools.cache
def _family(stem: str) -> tuple[tuple[ModelEntry, ...], tuple[HeadEntry, ...]]:
    text = (Path(__file__).parent / "families" / f"{stem}.yaml").read_text(encoding="utf-8")
    loaded = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    models = tuple(
        ModelEntry(
            name=e["name"],
            aliases=tuple(e["aliases"]),
            tokenizer=e["tokenizer"],
            published_parameters=e["parameters"],
            counts_mtp=e.get("counts_mtp", False),
            usual_drafter=e.get("usual_drafter", False),
            source=e["source"],
            date=str(e["date"]),
            fidelity=e["fidelity"],
            config=e["config"],
        )
        for e in loaded["models"]
    )
    heads = tuple(
        HeadEntry(
            name=e["name"],
            aliases=tuple(e.get("aliases", ())),
            method=e["method"],
            targets=tuple(e["targets"]),
            trained_context=e["trained_context"],
            source=e["source"],
            date=str(e["date"]),
            fidelity=e["fidelity"],
            config=e["config"],
        )
        for e in loaded.get("heads", ())
    )
    return models, heads


def models() -> tuple[ModelEntry, ...]:
    """Every model of the catalog, family by family."""
    return tuple(entry for stem in _FAMILIES for entry in _family(stem)[0])


def heads() -> tuple[HeadEntry, ...]:
    """Every drafter head of the catalog, family by family."""
    return tuple(entry for stem in _FAMILIES for entry in _family(stem)[1])


def families_of(name: str) -> Iterator[str]:
    """The files that may hold `name`: those whose part of a name it contains, else all."""
    key = match_key(name)
    likely = [stem for stem, parts in _FAMILIES.items() if any(part in key for part in parts)]
    yield from likely or _FAMILIES


def entries_beside(entry: ModelEntry) -> tuple[tuple[ModelEntry, ...], tuple[HeadEntry, ...]]:
    """The models and heads of the file that holds `entry`."""
    for stem in families_of(entry.name):
        models, heads = _family(stem)
        if entry in models:
            return models, heads
    return (), ()


def _keys(name: str) -> tuple[str, str]:
    return match_key(name), match_key(name.rsplit("/", 1)[-1])


def _all(stem: str) -> Iterator[ModelEntry | HeadEntry]:
    models, heads = _family(stem)
    yield from models
    yield from heads


def names_of(entry: ModelEntry | HeadEntry) -> tuple[str, ...]:
    """All that an entry answers to: its name, that without the ending of a tuned variant, and its aliases."""
    return (entry.name, entry.name.removesuffix("-Instruct").removesuffix("-it"), *entry.aliases)


@functools.lru_cache(maxsize=1024)  # names come from requests: bounded
def find_entry(name: str) -> ModelEntry | HeadEntry | None:
    """The entry of that name or alias, with or without its organisation; None where the catalog has none."""
    whole, bare = _keys(name)
    for stem in families_of(name):
        for entry in _all(stem):
            for known_whole, known_bare in map(_keys, names_of(entry)):
                if whole == known_whole or ("/" not in name and bare == known_bare):
                    return entry
    return None


def find_model(name: str, *, field: str = "deployment.target") -> Architecture:
    """The architecture of a model or drafter head of the catalog.

    Raises UnknownNameError with the nearest known names.
    """
    entry = find_entry(name)
    if entry is None:
        known = [e.name for e in models()] + [e.name for e in heads()]
        raise unknown_name(
            "model",
            name,
            known,
            field=field,
            remedy="`specworth catalog models` (GET /v1/catalog/models) lists all; for any other give its config.json "
            "(a folder or a file; over HTTP an object with name and config), for a quantised copy the original's name "
            "with quantization",
        )
    return entry.architecture


def load_model(name_or_path: str, *, quantization: str | None = None, field: str = "deployment.target") -> Architecture:
    """The architecture of a catalog name, or of a local config.json (a file, or a folder that holds one).

    A `hf_quant_config.json` beside a config is read with it. Raises UnknownNameError or ArchitectureError.
    """
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        for name in ("config.json", "params.json"):
            if (path / name).is_file():
                return _read_local(path / name, quantization=quantization, field=field)
        raise ArchitectureError(
            f"The folder {name_or_path} holds no config", expected="config.json or params.json in it", field=field
        )
    if path.is_file():
        return _read_local(path, quantization=quantization, field=field)
    if quantization is None:
        return find_model(name_or_path, field=field)
    find_model(name_or_path, field=field)
    entry = find_entry(name_or_path)
    assert entry is not None  # find_model would have raised
    return read_architecture(entry.config, name=entry.name, quantization=quantization)


def _read_json(path: Path, *, field: str) -> Mapping[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ArchitectureError(
            f"{path} cannot be read as JSON", expected="a Hugging Face config.json", got=str(error), field=field
        ) from error
    if not isinstance(loaded, dict):
        raise ArchitectureError(
            f"{path} is no model config", expected="a JSON object", got=f"a {type(loaded).__name__}", field=field
        )
    return loaded


def _read_local(path: Path, *, quantization: str | None, field: str) -> Architecture:
    beside = path.parent / "hf_quant_config.json"
    name = path.parent.name if path.stem in ("config", "params") and path.parent.name else path.stem
    return read_architecture(
        _read_json(path, field=field),
        name=name,
        quantization=quantization,
        hf_quant_config=_read_json(beside, field=field) if beside.is_file() else None,
    )
