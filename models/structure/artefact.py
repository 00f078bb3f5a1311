"""The trained pipeline on disk: written with its card, and read only if the card says that it is what it claims to be.

Four files: `structure.joblib`, the scikit-learn pipeline (CountVectorizer over `features.analyze`, logistic
regression); `structure.npz`, the same coefficients as bare arrays, for predicting without importing scikit-learn, which
costs seconds at start-up; `structure.json`, the card: what it was trained on, how well it does, and the hashes of both;
`structure.md`, the same card to be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.structure import STRUCTURES, features
from profiler.errors import ArtefactError

FOLDER = Path(__file__).parent.parent / "artifacts"
PIPELINE, NUMBERS, CARD, TEXT = "structure.joblib", "structure.npz", "structure.json", "structure.md"
_REMEDY = "reinstall specworth, or rebuild with `python -m models.structure.train`"


def read_card(folder: Path = FOLDER) -> dict[str, Any]:
    """The card, checked against the classes and features of this code; raises ArtefactError."""
    path = folder / CARD
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArtefactError(f"the structure classifier's card {path} is missing", remedy=_REMEDY) from error
    except (OSError, ValueError) as error:
        raise ArtefactError(f"the structure classifier's card {path} is not readable", remedy=_REMEDY) from error
    if not isinstance(card, dict):
        raise ArtefactError(f"the structure classifier's card {path} is not an object", remedy=_REMEDY)
    for key, expected in (("classes", list(STRUCTURES)), ("features_version", features.VERSION)):
        if card.get(key) != expected:
            raise ArtefactError(
                f"the structure classifier was trained for other {key.replace('_', ' ')}",
                expected=str(expected),
                got=str(card.get(key)),
                remedy=_REMEDY,
            )
    return card


def write_card(card: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Write the card, for programs and for people."""
    (folder / CARD).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / TEXT).write_text(_card_text(card), encoding="utf-8")


def _card_text(card: Mapping[str, Any]) -> str:
    corpus, judged = card["corpus"], card["judged"]
    times = {0: "not judged yet", 1: "judged once"}.get(len(judged), f"judged {len(judged)} times")
    lines = [
        "# Structure classifier", "", str(card["description"]), "",
        f"- Trained with `{card['trained_with']}` under scikit-learn {card['sklearn_version']}.",
        f"- {card['features']:,} features (version {card['features_version']}), {len(card['classes'])} classes.",
        f"- Corpus: {corpus['prompts']:,} generated prompts of {corpus['families']} families in "
        f"{len(corpus['languages'])} languages, SHA-256 {corpus['sha256']}.",
        f"- {card['tuned_on']}", "", f"On prompts that played no part in making it ({times}):", "",
    ]  # fmt: skip
    for entry in judged:
        lines += [
            f"## {entry['name']}",
            "",
            f"Macro recall {entry['macro_recall']}.",
            "",
            "| class | prompts | recall |",
        ]
        lines += ["| --- | --- | --- |"]
        lines += [f"| {name} | {entry['counts'][name]} | {recall} |" for name, recall in entry["recall"].items()]
        lines += ["", "By category: " + ", ".join(f"{k} {v}" for k, v in entry["recall_by_category"].items()) + ".", ""]
        lines += ["Mistakes: " + ", ".join(f"{k} ({v})" for k, v in entry["confusions"].items()) + ".", ""]
    lines += ["## Ways of asking that were held out of training (a pessimistic view)", "", "| class | recall |"]
    lines += ["| --- | --- |"]
    lines += [f"| {name} | {recall} |" for name, recall in card["recall_on_held_out_families"].items()]
    return "\n".join(lines) + "\n"


def checked_bytes(name: str, card: dict[str, Any], folder: Path = FOLDER) -> bytes:
    """The content of one artefact file whose SHA-256 is the card's; raises ArtefactError."""
    path = folder / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"the structure classifier's {path} cannot be read", remedy=_REMEDY) from error
    expected = card.get("sha256", {}).get(name)
    got = hashlib.sha256(content).hexdigest()
    if got != expected:
        raise ArtefactError(
            f"the structure classifier's {path} is damaged or belongs to another card",
            expected=f"SHA-256 {expected}",
            got=got,
            remedy=_REMEDY,
        )
    return content


def load_pipeline(folder: Path = FOLDER) -> Any:  # noqa: ANN401  (a scikit-learn Pipeline, which has no types)
    """The scikit-learn pipeline; refused under another scikit-learn than it was trained with. Raises ArtefactError."""
    import io

    import joblib
    import sklearn

    card = read_card(folder)
    content = checked_bytes(PIPELINE, card, folder)
    if sklearn.__version__ != card.get("sklearn_version"):
        raise ArtefactError(
            "the structure classifier's pipeline was written by another scikit-learn",
            expected=str(card.get("sklearn_version")),
            got=sklearn.__version__,
            remedy=_REMEDY,
        )
    return joblib.load(io.BytesIO(content))
