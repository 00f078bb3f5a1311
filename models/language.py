"""In which languages are the prompts written?

Scripts tell most; among languages of the Latin and Cyrillic scripts their commonest function words tell the rest. A
text whose words belong to none of them, or are too few, counts as "other", code and tables mostly as English or other.
Good for shares over a sample, not for single short prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

READ_CHARACTERS = 400  # of each prompt
_WORD = re.compile(r"[^\W\d_]+")
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u3400-\u9fff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
)
_SCRIPT_SHARE = 0.15  # of the letters: a quoted word is no language, a language with Latin names in it is one
# Common function words (articles, pronouns, prepositions) of each language, chosen to be rare in the others.
_FUNCTION_WORDS = {
    code: frozenset(words.split())
    for code, words in (
        (
            "en",
            "the of and is to that this with for what how write are you it my please from can your which who does "
            "explain give was has have not an be on at or by i me if all many much",
        ),
        ("de", "der die und ist nicht ein eine mit für wie was ich das den von auf bitte sich auch zu wird"),
        ("fr", "le les des est une et pour dans que qui sur avec ce pas vous du comment quel la je au"),
        ("es", "el los las es una y para que en con por cómo qué del se un cuál lo su la como"),
        ("it", "il gli è una e per che con di come cosa della del non sono un qual lo nel la"),
        ("pt", "o os as é uma e para que em com como não do da um qual por você são no na"),
        ("nl", "de het een en is niet van voor met wat hoe dat ik je zijn op te deze"),
    )
}

_LANGUAGES_OF = {
    word: tuple(code for code, common in _FUNCTION_WORDS.items() if word in common)
    for word in frozenset().union(*_FUNCTION_WORDS.values())
}


def language_of(text: str) -> str:
    """ISO 639-1 code of a text's likely language, or "other"."""
    text = text[:READ_CHARACTERS]
    if not text.isascii():
        letters = sum(map(str.isalpha, text)) or 1
        for code, script in _SCRIPTS:
            if len(script.findall(text)) / letters >= _SCRIPT_SHARE:
                return code
    hits = dict.fromkeys(_FUNCTION_WORDS, 0)
    for word in _WORD.findall(text.lower()):
        for code in _LANGUAGES_OF.get(word, ()):
            hits[code] += 1
    best = max(hits, key=hits.__getitem__)
    return best if hits[best] else "other"


def language_shares(texts: Iterable[str]) -> dict[str, float]:
    """Share of the texts in each language, largest first."""
    counts: dict[str, int] = {}
    for text in texts:
        code = language_of(text)
        counts[code] = counts.get(code, 0) + 1
    total = sum(counts.values())
    return {code: count / total for code, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))}
