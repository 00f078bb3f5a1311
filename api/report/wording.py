"""How are numbers, methods and sentences told? One wording for every report."""

from __future__ import annotations

GIB = 2**30
_SPOKEN = {
    "ngram": "n-gram",
    "suffix": "suffix decoding",
    "draft_model": "a draft model",
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "mtp": "multi-token prediction",
    "medusa": "Medusa",
}


def times(value: float) -> str:
    """A speedup as people say it."""
    return f"{value:.2f}x"


def gib(size_bytes: float) -> str:
    """Bytes in GiB."""
    return f"{size_bytes / GIB:,.2f}"


def chance(probability: float) -> str:
    """A probability in per cent; a predicted one is never certain."""
    return ">99%" if probability > 0.99 else "<1%" if probability < 0.01 else f"{probability:.0%}"


def method_with(method: str, k: int | None, draft: str | None) -> str:
    """A method in a sentence: its drafter in full, its number of draft tokens."""
    spoken = _SPOKEN.get(method, method)
    if draft and method == "draft_model":
        spoken = f"the draft model {draft}"
    elif draft:
        spoken = f"{spoken} ({draft})"
    return spoken if k is None else f"{spoken} with {draft_tokens(k)}"


def draft_tokens(k: int) -> str:
    """So many draft tokens."""
    return f"{k} draft token{'s' if k != 1 else ''}"


def method_brief(method: str, k: int | None, draft: str | None) -> str:
    """A method as a table has it: its drafter without the organisation."""
    named = f" {draft.rsplit('/', 1)[-1]}" if draft else ""
    return f"{_SPOKEN.get(method, method).removeprefix('a ')}{named}{f', k {k}' if k is not None else ''}"


def as_sentence(text: str) -> str:
    """With a capital (names of models, fields and of vLLM keep theirs) and a full stop."""
    first = text.split(" ", 1)[0]
    opening = text[:1].upper() if first.isalpha() and first.islower() else text[:1]
    return f"{opening}{text[1:].rstrip('.')}."
