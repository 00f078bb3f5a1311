"""How many tokens a text is: counted with the target's own tokenizer, else estimated by script and kind of content.

The estimate is a sum over what stands in the text: words and letters, digits, punctuation and letters of each script,
each at its own price in tokens. Prices were fitted to four tokenizers with vocabularies of 100,000 to 200,000 tokens
(Qwen's, Mistral's Tekken, OpenAI's cl100k, of which Llama 3's vocabulary is an extension, and o200k), and the error was
measured on texts that took no part in the fit, by benchmarks/measure_token_estimate.py. Texts alone are counted: what a
chat template adds is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from profiler.errors import InputError

# Relative error of one text's estimate over the four tokenizers, on the held-out half of the texts of
# benchmarks/measure_token_estimate.py. The sum over all texts is off by 1 % on average, by -15 to +21 % for each
# tokenizer (they differ that much in scripts other than Latin). A small vocabulary for English (SmolLM2's 49,152) is
# outside: median error 0.24, always too few tokens outside of English.
MEDIAN_ERROR, P90_ERROR = 0.10, 0.42  # all kinds of text
ENGLISH_AND_CODE_MEDIAN_ERROR, ENGLISH_AND_CODE_P90_ERROR = 0.05, 0.16  # English, code, JSON, tables of numbers
OTHER_LANGUAGES_MEDIAN_ERROR, OTHER_LANGUAGES_P90_ERROR = 0.25, 0.71

# First code point of each range and the class of its characters; a range ends where the next one begins.
_RANGES: tuple[tuple[int, str], ...] = (
    (0x0000, "space"), (0x0021, "punctuation"), (0x0030, "digit"), (0x003A, "punctuation"), (0x0041, "letter"),
    (0x005B, "punctuation"), (0x0061, "letter"), (0x007B, "punctuation"), (0x007F, "space"), (0x00A1, "symbol"),
    (0x00C0, "accented"), (0x0250, "symbol"), (0x0370, "greek"), (0x0400, "cyrillic"), (0x0530, "other"),
    (0x0590, "hebrew"), (0x0600, "arabic"), (0x0780, "other"), (0x0900, "indic"), (0x0E00, "thai"), (0x0F00, "other"),
    (0x1E00, "accented"), (0x1F00, "greek"), (0x2000, "symbol"), (0x3000, "cjk_mark"), (0x3040, "kana"),
    (0x3100, "other"), (0x3400, "han"), (0xA000, "other"), (0xAC00, "hangul"), (0xD7B0, "other"), (0xF900, "han"),
    (0xFB00, "other"), (0xFF00, "cjk_mark"), (0xFFF0, "other"), (0x1F000, "emoji"), (0x1FB00, "other"),
    (0x20000, "han"), (0x30000, "other"),
)  # fmt: skip
_CLASSES = tuple(dict.fromkeys(name for _, name in _RANGES))
# The class of each code point; the last range goes on to the end.
_CLASS_OF_CODE = np.repeat(
    np.array([_CLASSES.index(name) for _, name in _RANGES], dtype=np.int8),
    np.diff([start for start, _ in _RANGES], append=_RANGES[-1][0] + 1),
)
_SPACE, _LETTER, _DIGIT, _PUNCTUATION, _ACCENTED = map(
    _CLASSES.index, ("space", "letter", "digit", "punctuation", "accented")
)

# What is counted in a text, in the order of features(): runs first, then characters by class.
FEATURES = (
    "words", "humps", "digit_runs", "punctuation_runs", "indents",
    *(name for name in _CLASSES if name != "space"),
)  # fmt: skip

_CHARACTERS_AT_ONCE = 1_000_000  # some 30 MB of arrays

# Tokens for each, from benchmarks/measure_token_estimate.py (non-negative least squares of relative errors).
PRICES: dict[str, float] = {
    "words": 0.72, "humps": 0.093, "digit_runs": 0.532, "punctuation_runs": 0.453, "indents": 1.033, "punctuation":
    0.23, "digit": 0.758, "letter": 0.082, "symbol": 2.406, "accented": 1.974, "greek": 0.767, "cyrillic": 0.352,
    "other": 1.054, "hebrew": 0.643, "arabic": 0.497, "indic": 0.833, "thai": 0.603, "cjk_mark": 0.671, "kana":
    0.718, "han": 0.97, "hangul": 0.907, "emoji": 2.761,
}  # fmt: skip


def count_tokens(texts: Sequence[str], tokenizer: Path | None = None) -> npt.NDArray[np.int64]:
    """Tokens of each text, without any special tokens.

    Args:
        texts: the texts.
        tokenizer: the target's tokenizer.json; None for the estimate, whose error stands above.

    Raises:
        InputError: the tokenizer cannot be read.
    """
    if tokenizer is None:
        return estimate_tokens(texts)
    import tokenizers

    try:
        loaded = tokenizers.Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # the library raises bare Exception for everything
        raise InputError(
            f"the tokenizer {str(tokenizer)!r} cannot be read", expected="the target's tokenizer.json",
            got=str(error).split("\n")[0], remedy="leave it out for an estimate", field="tokenizer",
        ) from None  # fmt: skip
    loaded.no_truncation()
    loaded.no_padding()
    encoded = loaded.encode_batch_fast(list(texts), add_special_tokens=False)
    return np.array([len(one.ids) for one in encoded], dtype=np.int64)


def estimate_tokens(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """The estimate for each text: 0 for an empty one, else at least 1."""
    estimates = features(texts) @ np.array([PRICES[name] for name in FEATURES])
    least = np.array([1.0 if text else 0.0 for text in texts])
    tokens: npt.NDArray[np.int64] = np.rint(np.maximum(estimates, least)).astype(np.int64)
    return tokens


def features(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """How often each of FEATURES stands in each text, shape (texts, features)."""
    counts = np.zeros((len(texts), len(FEATURES)))
    first = 0
    while first < len(texts):  # many short texts at once, so that each costs little; a long one alone
        last, characters = first + 1, len(texts[first])
        while last < len(texts) and characters + len(texts[last]) <= _CHARACTERS_AT_ONCE:
            characters += len(texts[last])
            last += 1
        alone = texts[first] if last == first + 1 else ""
        counts[first:last] = _long(alone) if len(alone) > _CHARACTERS_AT_ONCE else _counted(texts[first:last])
        first = last
    return counts


def _long(text: str) -> npt.NDArray[np.float64]:
    """The features of one long text, piece by piece: the arrays of a whole one take 40 times its bytes.

    No feature looks back further than two characters, so that a piece is read with the two before it, and what those
    alone have is taken off again.
    """
    found = _counted([text[:_CHARACTERS_AT_ONCE]])
    for start in range(_CHARACTERS_AT_ONCE, len(text), _CHARACTERS_AT_ONCE):
        before = text[start - 2 : start]
        with_it, alone = _counted([before + text[start : start + _CHARACTERS_AT_ONCE], before])
        found = found + (with_it - alone)
    return found


def _counted(texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """The features of texts, all read as one: a NUL between them, so that no run goes on into the next one."""
    joined = "\0".join(texts) + "\0"
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kinds = _CLASS_OF_CODE[np.minimum(codes, _CLASS_OF_CODE.size - 1)]
    lengths = np.array([len(text) + 1 for text in texts])
    ends = np.cumsum(lengths)
    text_of = np.repeat(np.arange(len(texts)), lengths)
    by_class = np.bincount(text_of * len(_CLASSES) + kinds, minlength=len(texts) * len(_CLASSES))

    is_latin = (kinds == _LETTER) | (kinds == _ACCENTED)
    is_upper = (codes >= 65) & (codes <= 90)
    is_blank = (codes == 32) | (codes == 9)
    starts = (
        _starts(is_latin),
        is_upper[1:] & ~is_upper[:-1] & is_latin[:-1],  # camelCase
        _starts(kinds == _DIGIT),
        _starts(kinds == _PUNCTUATION),
        _starts(is_blank[1:] & is_blank[:-1]),  # two blanks or more
    )
    runs = [np.diff(np.searchsorted(np.flatnonzero(start), ends), prepend=0) for start in starts]
    return np.column_stack([*runs, np.delete(by_class.reshape(len(texts), -1), _SPACE, axis=1)]).astype(np.float64)


def _starts(inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where runs of True begin."""
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    return begins
