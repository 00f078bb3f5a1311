import random

import pytest

from models.structure import STRUCTURES
from models.structure.corpus import generate_corpus, load_families, load_fillers
from models.structure.corpus.documents import KINDS, document
from models.structure.corpus.grammar import expand
from models.structure.train import group_folds


def test_a_template_expands_to_its_alternatives_only() -> None:
    """Alternatives nest, plain and escaped parentheses stay, slots fall back to English."""
    fillers = {"en": {"fruit": ["fig"]}, "de": {}}
    texts = {expand("(a|(b|c)) {fruit} f(x)", "de", fillers, random.Random(seed)) for seed in range(40)}
    assert texts == {"a fig f(x)", "b fig f(x)", "c fig f(x)"}


def test_fillers_without_end_are_refused() -> None:
    """Fillers that refer to each other for ever are an error, not a hang."""
    with pytest.raises(ValueError, match="without end"):
        expand("{a}", "en", {"en": {"a": ["{b}"], "b": ["{a} x"]}}, random.Random(0))


def test_every_template_expands() -> None:
    """No template names a slot that does not exist, in any language; nothing is left unexpanded."""
    for example in generate_corpus(STRUCTURES, per_class=400, seed=3):
        assert example.prompt.messages[-1].text is not None
        assert "{any_" not in example.prompt.text


def test_every_document_kind_is_made_in_every_language() -> None:
    """Whatever is pasted exists in each language, in that language or in English."""
    fillers = {**load_fillers(), "any": {"word": ["word"]}}
    for language in {family.language for family in load_families(STRUCTURES)}:
        for kind in KINDS:
            assert document(kind, language, fillers, random.Random(1)).strip()


def test_the_corpus_is_the_same_for_the_same_seed() -> None:
    """Same seed, same prompts; another seed, others."""
    first, second, other = (generate_corpus(STRUCTURES[:2], per_class=30, seed=seed) for seed in (5, 5, 6))
    assert first == second
    assert first != other


def test_the_corpus_is_balanced_and_in_many_languages() -> None:
    """Every class has the same number of prompts and at least eight languages."""
    examples = generate_corpus(STRUCTURES, per_class=300, seed=2)
    for structure in STRUCTURES:
        inside = [example for example in examples if example.structure == structure]
        assert len(inside) == 300
        assert len({example.language for example in inside}) >= 8


def test_no_group_is_on_both_sides_of_a_split() -> None:
    """A group lies in one fold only, so no held-out prompt has a template that was learned."""
    examples = generate_corpus(STRUCTURES, per_class=200, seed=2)
    folds: dict[str, set[int]] = {}
    for example, fold in zip(examples, group_folds(examples, 3), strict=True):
        folds.setdefault(example.group, set()).add(fold)
    assert all(len(inside) == 1 for inside in folds.values())
    assert len({fold for inside in folds.values() for fold in inside}) == 3
