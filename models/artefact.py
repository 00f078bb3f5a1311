"""Is a trained file what it claims to be? Artefacts are written with an entry in a manifest and read only against it.

`models/artifacts/manifest.json` has for each file its SHA-256, the names of the features or constants that it was made
for, in their order, the data it was made from, and the versions of the libraries without which it cannot be read. What
is missing, changed, made for other features or pickled by another library is refused with one message: a model must
never answer with numbers of another. The environment variable SPECWORTH_MODELS names another folder, that of
`specworth train --out`; it is an environment variable so that each process of a service reads the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from profiler.errors import ArtefactError

FOLDER = Path(__file__).parent / "artifacts"
VARIABLE = "SPECWORTH_MODELS"
MANIFEST = "manifest.json"
_FORMAT = 1
_REMEDY = "reinstall specworth, or rebuild with `specworth train`"


def folder_in_use() -> Path:
    """The folder that answers are given from: SPECWORTH_MODELS, or what ships with this version."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else FOLDER


def read_artefact(name: str, *, features: Sequence[str], folder: Path | None = None) -> bytes:
    """The content of one artefact of `folder` (the one in use where left out), checked against the manifest.

    features: the names that the reader is made for; ArtefactError where the file was made for others.
    """
    where = folder_in_use() if folder is None else folder
    entry = _entry(name, where)
    path = where / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"the artefact {path} cannot be read", got=error.strerror, remedy=_REMEDY) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != entry["sha256"]:
        raise ArtefactError(
            f"the artefact {path} is damaged", expected=f"SHA-256 {entry['sha256']}", got=digest, remedy=_REMEDY
        )
    if list(features) != entry["features"]:
        odd = sorted(set(features) ^ set(entry["features"])) or ["the same in another order"]
        raise ArtefactError(
            f"the artefact {path} was made for other features", expected=f"{len(features)} of this version",
            got=f"{len(entry['features'])}; different: {', '.join(odd)}", remedy=_REMEDY,
        )  # fmt: skip
    for library, made_with in entry["versions"].items():
        if (here := version(library)) != made_with:
            raise ArtefactError(
                f"the artefact {path} was written by another {library}", expected=made_with, got=here, remedy=_REMEDY
            )
    return content


def read_numbers(name: str, *, features: Sequence[str], folder: Path | None = None) -> dict[str, Any]:
    """The same for a file of JSON numbers, as a mapping."""
    found = json.loads(read_artefact(name, features=features, folder=folder))
    if not isinstance(found, dict):
        raise ArtefactError(f"the artefact {name} is no mapping", remedy=_REMEDY)
    return found


def write_artefact(
    name: str, content: bytes, *, features: Sequence[str], folder: Path, data_sha256: str, libraries: Sequence[str] = ()
) -> None:
    """Write one artefact and its entry in the manifest of `folder`.

    libraries: distributions whose pickles it holds, so that another version of them is refused; none for numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    files = _read_manifest(folder)["files"] if (folder / MANIFEST).exists() else {}
    files[name] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "features": list(features),
        "versions": {library: version(library) for library in libraries},
        "data_sha256": data_sha256,
    }
    manifest = {"format": _FORMAT, "files": dict(sorted(files.items()))}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def write_numbers(
    name: str, numbers: Mapping[str, Any], *, features: Sequence[str], folder: Path, data_sha256: str
) -> None:
    """The same for a mapping of numbers, as JSON."""
    content = (json.dumps(numbers, indent=1, ensure_ascii=False) + "\n").encode()
    write_artefact(name, content, features=features, folder=folder, data_sha256=data_sha256)


def read_manifest(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Name of each artefact -> its entry; ArtefactError where the manifest cannot be read."""
    files: dict[str, dict[str, Any]] = _read_manifest(folder_in_use() if folder is None else folder)["files"]
    return files


def _entry(name: str, folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] | None = _read_manifest(folder)["files"].get(name)
    if entry is None or not {"sha256", "features", "versions"} <= set(entry):
        raise ArtefactError(
            f"the manifest {folder / MANIFEST} says nothing of {name}", expected="an entry", remedy=_REMEDY
        )
    return entry


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        got = error.strerror if isinstance(error, OSError) else str(error)
        remedy = _REMEDY if folder == FOLDER else f"name what `specworth train --out` wrote in {VARIABLE}, or unset it"
        raise ArtefactError(f"the manifest {path} cannot be read", got=got, remedy=remedy) from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT or not isinstance(found.get("files"), dict):
        raise ArtefactError(
            f"the manifest {path} is of another version", expected=f"format {_FORMAT}",
            got=str(found.get("format")) if isinstance(found, dict) else "no mapping", remedy=_REMEDY,
        )  # fmt: skip
    return found
