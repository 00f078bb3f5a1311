"""What of a prompt tells which kind of work it asks for?

The instruction of a prompt stands at its head or at its end; what is pasted lies between. So words (characters in
scripts without spaces) are read from the head and the tail only, and at the very ends also their pairs, their
beginnings (for inflected languages) and their place; the pasted middle counts by its surface: digits, code symbols,
line lengths, tables. What stands beside the text is evidence too: a response format, offered tools, a system prompt,
earlier turns.

Every feature is a string that is present or absent, so that one vocabulary holds them all. At most `WINDOW` characters
of a prompt are read. Nothing here is learned; a change of this file needs a new `VERSION` and a new training.
"""

from __future__ import annotations

import re
from itertools import pairwise

from profiler.prompts.sample import Prompt

VERSION = 1
WINDOW = 2000  # characters read in all: the first 1,400 and the last 600 of a longer instruction
_WINDOW_TAIL = 600
_HEAD, _TAIL = 480, 280  # of the window, what is read word by word
_ENDING = 200  # characters in which the last sentence is sought
_EDGE = 14  # tokens at either end that count once more, by where they stand
_SYSTEM = 300  # characters of a system prompt, and of the first of several user turns

# Scripts written without spaces give one token a character; kana, CJK, hangul, Thai.
_UNSPACED_RANGES = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]")
_UNSPACED_TOKEN = re.compile(rf"[{_UNSPACED_RANGES}]|[^\s{_UNSPACED_RANGES}]+")
# Splitting bytes is far quicker than any pattern: ASCII marks become spaces, digits 0, all else stays as it is.
_PLAIN = bytes(
    byte if byte > 127 or chr(byte).isalpha() else ord("0") if chr(byte).isdigit() else ord(" ") for byte in range(256)
)
_WIDE_MARKS = tuple("“”‘’«»„…–—¿¡।،؛؟。，、：；？！（）「」《》")
_SYMBOLS = tuple("{}()[];=<>|`#*/\"+%$:!_&@\\^'-√∑∫«")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE_END = re.compile(r"[.!?。？！؟।]\s+|[。？！]|\n+")
_DIGITS = b"0123456789"
_CODE_SYMBOLS = b"{};()<>=[]_"
_QUESTION_MARKS = "?？؟"


def analyze(prompt: Prompt) -> set[str]:
    """The features of one prompt, without repetition; empty for one whose text is not known (a token-id prompt)."""
    features: set[str] = set()
    if not prompt.messages:
        return set()
    text = prompt.instruction
    size = len(text)
    budget = WINDOW
    system = prompt.system
    users = [m.text for m in prompt.messages if m.role == "user"]
    context = system[:_SYSTEM].strip()
    if context:
        features.add("#system")
        features.update(["s:" + token for token in _grams(_tokens(context))])
        budget -= len(context)
    if len(users) > 1:
        opening = users[0][:_SYSTEM]
        features.add(f"#turns:{min(len(users), 4)}")
        features.update(["f:" + token for token in _tokens(opening)])
        budget -= len(opening)
    if size > budget:
        tail = min(_WINDOW_TAIL, budget // 3)
        text = text[: budget - tail] + "\n" + text[-tail:]
    _surface(text, size, features)
    _beside(prompt, features)
    _words(text, features)
    return features


def _words(text: str, features: set[str]) -> None:
    """Words of head and tail, once as such and once by their place, and how the prompt and its last sentence begin."""
    text = text.strip()
    if len(text) <= _HEAD + _TAIL:
        head = tail = _tokens(text)
        features.update(head)
        ending = text[-_ENDING:]
    else:
        head = _tokens(text[:_HEAD])
        ending = text[-_TAIL:]
        tail = _tokens(ending)
        features.update(head)
        features.update(tail)
        ending = ending[-_ENDING:]
    features.update(["h:" + token for token in _grams(head[:_EDGE])])
    if tail is not head or len(head) > _EDGE:
        features.update(["t:" + token for token in _grams(tail[-_EDGE:])])
    for name, start in zip(("^", "^^"), _openings(head), strict=False):
        features.add(name + start)
    last = [part for part in _SENTENCE_END.split(ending) if part and len(part) > 2]
    if last:
        for name, start in zip(("$", "$$"), _openings(_tokens(last[-1][:60])), strict=False):
            features.add(name + start)


def _openings(tokens: list[str]) -> list[str]:
    """The first token and the first two."""
    return [" ".join(tokens[:size]) for size in (1, 2) if len(tokens) >= size]


def _tokens(text: str) -> list[str]:
    """Lower-case words, and numbers as so many zeros; single characters in scripts without spaces."""
    text = text.lower()
    if text.isascii():
        return text.encode("ascii").translate(_PLAIN).decode("ascii").split()
    for mark in _WIDE_MARKS:
        if mark in text:
            text = text.replace(mark, " ")
    text = text.encode("utf-8", "replace").translate(_PLAIN).decode("utf-8")
    return _UNSPACED_TOKEN.findall(text) if _UNSPACED.search(text) else text.split()


def _grams(tokens: list[str]) -> list[str]:
    """Tokens, the beginnings of long ones, and pairs of neighbours."""
    grams = [token[:5] + "~" for token in tokens if len(token) > 6]
    grams += tokens
    grams += [first + " " + second for first, second in pairwise(tokens)]
    return grams


def _surface(text: str, size: int, features: set[str]) -> None:
    """How the text looks: length, digits, symbols, lines, tables, questions."""
    shown = len(text) or 1
    features.add(f"#size:{min(size.bit_length(), 13)}")
    encoded = text.encode("utf-8", "replace")
    digits = len(encoded) - len(encoded.translate(None, _DIGITS))
    features.add(f"#digits:{_bucket(digits / shown, (0.001, 0.01, 0.03, 0.08, 0.2))}")
    symbols = len(encoded) - len(encoded.translate(None, _CODE_SYMBOLS))
    features.add(f"#symbols:{_bucket(symbols / shown, (0.002, 0.01, 0.025, 0.05, 0.1))}")
    lines = text.count("\n")
    features.add(f"#lines:{_bucket(lines, (1, 3, 7, 20))}")
    features.add(f"#line_length:{_bucket(shown / (lines + 1), (30, 60, 120, 400))}")
    if size <= 900:
        numbers = len(_NUMBER.findall(text)) if digits else 0
        features.add(f"#numbers:{_bucket(numbers, (1, 2, 3, 5, 9))}")
    features.update(["#has:" + symbol for symbol in _SYMBOLS if symbol in text])
    for name, mark in (
        ("fence", "```"),
        ("object", '{"'),
        ("pipes", " | "),
        ("tab", "\t"),
        ("url", "http"),
        ("tag", "</"),
    ):
        if mark in text:
            features.add("#" + name)
    if text.count('":') > 2:
        features.add("#keys")
    if any(mark in text for mark in _QUESTION_MARKS):
        features.add("#question")
        ending = text.rstrip().rstrip("\"')*` ")
        if ending and ending[-1] in _QUESTION_MARKS:
            features.add("#question_last")
    elif text.islower():
        features.add("#lower")


def _beside(prompt: Prompt, features: set[str]) -> None:
    """What the request says beside its text."""
    if prompt.response_format and prompt.response_format != "text":
        features.update(("#format", f"#format:{prompt.response_format}"))
    if prompt.tools:
        features.update(("#tools", f"#tools:{_bucket(prompt.tools, (2, 4, 9))}"))
    if prompt.messages[-1].role == "tool":
        features.add("#tool_result")
    if any(message.role == "assistant" for message in prompt.messages):
        features.add("#answered")
    if prompt.other_parts:
        features.add("#parts")


def _bucket(value: float, edges: tuple[float, ...]) -> int:
    """How many of the ascending edges the value reaches."""
    reached = 0
    for edge in edges:
        if value < edge:
            break
        reached += 1
    return reached
