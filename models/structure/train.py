"""Training of the structure classifier: `python -m models.structure.train`, deterministic, minutes on one core at most.

The corpus is made anew from its templates, a vocabulary is chosen (features that several families share, so that no
single template is learned by heart), a multinomial logistic regression is fitted, and its sharpness is calibrated on
families that it has not seen: one temperature, folded into the coefficients. The score in the card is of families and,
apart from that, of languages that were held out.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from models.estimate import Floats
from models.structure import STRUCTURES, features
from models.structure.artefact import FOLDER, NUMBERS, PIPELINE, read_card, write_card
from models.structure.corpus import Example, corpus_hash, generate_corpus
from models.structure.features import analyze
from profiler.errors import ArtefactError

PER_CLASS = 4000
SEED = 7
STRENGTH = 0.3  # C of the logistic regression, chosen on held-out families
MIN_FAMILIES = 2  # a feature must occur in this many families ...
MIN_PROMPTS = 8  # ... and prompts
FOLDS = 3
DESCRIPTION = (
    "Says what kind of work a prompt asks for: a multinomial logistic regression over words, their places, the look of "
    "the text and what stands beside it (response format, tools, system prompt, earlier turns). Made from generated "
    "prompts only; no public benchmark prompt was used."
)
TUNED_ON = (
    "Constants were chosen on held-out families and on dev_prompts.jsonl and more_prompts.jsonl "
    "(tests/models/structure), written for it; templates were added after reading mistakes on those, so scores on them "
    "are no evidence."
)
COMMAND = "python -m models.structure.train"


def choose_vocabulary(documents: Sequence[set[str]], examples: Sequence[Example]) -> list[str]:
    """Features that occur often enough and in several families, sorted."""
    prompts: dict[str, int] = defaultdict(int)
    families: dict[str, set[str]] = defaultdict(set)
    for document, example in zip(documents, examples, strict=True):
        for feature in document:
            prompts[feature] += 1
            families[feature].add(example.family)
    return sorted(
        feature
        for feature, count in prompts.items()
        if count >= MIN_PROMPTS and len(families[feature]) >= MIN_FAMILIES and "\n" not in feature
    )


def make_pipeline(vocabulary: list[str]) -> Pipeline:
    """The unfitted pipeline over prompts."""
    return Pipeline(
        [
            ("features", CountVectorizer(analyzer=analyze, vocabulary=vocabulary, binary=True, dtype=np.float64)),
            ("classifier", LogisticRegression(C=STRENGTH, max_iter=300, tol=1e-3)),
        ]
    )


def fit(examples: Sequence[Example]) -> Pipeline:
    """A pipeline fitted to the examples."""
    vocabulary = choose_vocabulary([analyze(example.prompt) for example in examples], examples)
    pipeline = make_pipeline(vocabulary)
    pipeline.fit([example.prompt for example in examples], [STRUCTURES.index(e.structure) for e in examples])
    return pipeline


def held_out_logits(examples: Sequence[Example], groups: Sequence[int]) -> Floats:
    """Logits of each example from a pipeline that saw no example of its group."""
    logits = np.full((len(examples), len(STRUCTURES)), np.nan)
    for group in sorted(set(groups)):
        inside = [i for i, g in enumerate(groups) if g == group]
        pipeline = fit([e for e, g in zip(examples, groups, strict=True) if g != group])
        logits[inside] = pipeline.decision_function([examples[i].prompt for i in inside])
    return logits


def temperature_of(logits: Floats, labels: NDArray[np.int64]) -> float:
    """The divisor of the logits that makes held-out log loss least (Guo et al. 2017, temperature scaling)."""

    def loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        scaled = scaled - scaled.max(axis=1, keepdims=True)
        chosen = scaled[np.arange(len(labels)), labels]
        return float(np.mean(np.log(np.exp(scaled).sum(axis=1)) - chosen))

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 3.0), method="bounded").x))


def group_folds(examples: Sequence[Example], count: int) -> list[int]:
    """A fold for each example: a group lies in one fold, each class and language spreads over all."""
    groups = sorted({(e.structure, e.language, e.group) for e in examples})
    fold = {group: index % count for index, (_, _, group) in enumerate(groups)}
    return [fold[e.group] for e in examples]


def recalls(logits: Floats, labels: NDArray[np.int64]) -> dict[str, float]:
    """Share of each class's prompts that the largest logit names, and their mean."""
    guesses = logits.argmax(axis=1)
    scores = {
        name: float(np.mean(guesses[labels == i] == i)) for i, name in enumerate(STRUCTURES) if (labels == i).any()
    }
    return {**scores, "macro": float(np.mean(list(scores.values())))}


def calibrate(pipeline: Pipeline, temperature: float) -> None:
    """Fold the temperature into the fitted coefficients, so that predict_proba is calibrated."""
    classifier = pipeline.named_steps["classifier"]
    classifier.coef_ = classifier.coef_ / temperature
    classifier.intercept_ = classifier.intercept_ / temperature


def write(pipeline: Pipeline, card: dict[str, Any], folder: Path = FOLDER) -> None:
    """All files. Judgements of an earlier card are kept if its numbers were these; else they were another model's."""
    folder.mkdir(exist_ok=True)
    classifier = pipeline.named_steps["classifier"]
    # Rounded to float32 on both sides, so that pipeline and bare numbers say the same.
    classifier.coef_ = classifier.coef_.astype(np.float32)
    names = pipeline.named_steps["features"].get_feature_names_out()
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        coefficients=np.ascontiguousarray(classifier.coef_.T),
        intercept=classifier.intercept_,
        vocabulary=np.frombuffer("\n".join(names).encode("utf-8"), dtype=np.uint8),
    )
    (folder / NUMBERS).write_bytes(buffer.getvalue())
    joblib.dump(pipeline, folder / PIPELINE, compress=3)
    card["sha256"] = {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in (PIPELINE, NUMBERS)}
    try:
        earlier = read_card(folder)
    except ArtefactError:
        earlier = {}
    if earlier.get("sha256", {}).get(NUMBERS) == card["sha256"][NUMBERS]:
        card["judged"] = earlier.get("judged", [])
    write_card(card, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, score on held-out families and languages, write the artefact; the last line of output is JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dry-run", action="store_true", help="score only, write nothing")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    examples = generate_corpus(STRUCTURES, per_class=PER_CLASS, seed=SEED)
    labels = np.array([STRUCTURES.index(e.structure) for e in examples])
    by_family = held_out_logits(examples, group_folds(examples, FOLDS))
    temperature = temperature_of(by_family, labels)
    if options.dry_run:
        print(json.dumps({"held_out_families": recalls(by_family, labels), "temperature": temperature}))
        return 0
    pipeline = fit(examples)
    calibrate(pipeline, temperature)
    names = pipeline.named_steps["features"].get_feature_names_out()
    card = {
        "name": "structure",
        "description": DESCRIPTION,
        "tuned_on": TUNED_ON,
        "classes": list(STRUCTURES),
        "features_version": features.VERSION,
        "features": len(names),
        "features_sha256": hashlib.sha256("\n".join(names).encode()).hexdigest(),
        "trained_with": COMMAND,
        "sklearn_version": sklearn.__version__,
        "numpy_version": np.__version__,
        "corpus": {
            "sha256": corpus_hash(),
            "prompts": len(examples),
            "per_class": PER_CLASS,
            "seed": SEED,
            "families": len({e.family for e in examples}),
            "languages": sorted({e.language for e in examples}),
        },
        "regularisation_c": STRENGTH,
        "temperature": round(temperature, 4),
        "recall_on_held_out_families": {k: round(v, 3) for k, v in recalls(by_family, labels).items()},
        "judged": [],
    }
    write(pipeline, card)
    print(
        json.dumps(
            {
                **{k: card[k] for k in ("features", "temperature", "recall_on_held_out_families")},
                "seconds": round(time.monotonic() - started, 1),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
