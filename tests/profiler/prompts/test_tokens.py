"""Tokens are counted with a tokenizer where one is given, and estimated otherwise."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from profiler.errors import InputError
from profiler.prompts.tokens import FEATURES, PRICES, count_tokens, features


def test_a_tokenizer_counts_exactly(tmp_path: Path) -> None:
    """With a tokenizer.json its own count is given, truncation and special tokens of its settings aside."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=50)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    assert count_tokens(["a b a b", "", "c"], path).tolist() == [4, 0, 1]


def test_a_bad_tokenizer_is_told(tmp_path: Path) -> None:
    """A missing or damaged tokenizer.json is refused with its name."""
    with pytest.raises(InputError, match=r"tokenizer.*cannot be read.*leave it out for an estimate"):
        count_tokens(["a"], tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    ("text", "true"),
    [
        # Counts by Qwen's tokenizer (151,643 tokens), taken once.
        ("Summarise the minutes below in five bullet points, and name who is responsible for each decision.", 20),
        ("def area(radius):\n    return 3.14159 * radius ** 2\n\n\nfor item in items:\n    print(area(item))\n", 30),
        ('{"vendor": "Quillmark Ltd", "total": 412.50, "currency": "EUR", "paid": false}', 31),
        ("SELECT town, COUNT(*) FROM depots WHERE grams > 500 GROUP BY town ORDER BY 2 DESC;", 24),
    ],
)
def test_english_and_code_are_estimated_within_a_fifth(text: str, true: int) -> None:
    """The stated error of English and code (90 % within 16 %) holds on texts of no fit."""
    estimate = int(count_tokens([text])[0])
    assert abs(estimate / true - 1) <= 0.2


def test_scripts_have_prices_of_their_own() -> None:
    """A Chinese character costs more than a Latin letter, and no class of characters is free."""
    assert set(PRICES) == set(FEATURES)
    assert all(price > 0 for price in PRICES.values())
    latin, han = count_tokens(["abcdefgh" * 20, "灯塔看守人的故事" * 20])
    assert han > 4 * latin


def test_edges_of_the_estimate() -> None:
    """Empty is zero, anything else at least one; a lone surrogate and a million characters do no harm."""
    assert count_tokens(["", " ", "a", "\ud83d"]).tolist() == [0, 1, 1, 1]
    assert count_tokens([]).tolist() == []
    assert 180_000 < count_tokens(["word " * 200_000])[0] < 260_000


def test_features_count_runs_and_characters() -> None:
    """Words, camelCase humps, runs of digits and punctuation, indents, and characters by class."""
    found = dict(zip(FEATURES, features(["getName  = 42; // né\n"])[0], strict=True))
    assert {name: count for name, count in found.items() if count} == {
        "words": 2, "humps": 1, "digit_runs": 1, "punctuation_runs": 3, "indents": 1, "punctuation": 4, "digit": 2,
        "letter": 8, "accented": 1,
    }  # fmt: skip
    assert not np.any(features([""]))


def test_a_text_counts_alike_among_others() -> None:
    """Texts are counted many at once: no run goes on from one to the next, whatever stands beside it, however long."""
    texts = ["12", "3 ", "  a", "", "bC", "x" * 600_000, "y" * 600_000, "!", "?"]
    alone = np.concatenate([features([text]) for text in texts])
    assert np.array_equal(features(texts), alone)
    assert np.array_equal(features(texts[::-1]), alone[::-1])


def test_a_long_text_is_counted_as_if_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is cut: within runs of letters, figures, blanks and humps of names."""
    text = "camelCase Words12  34, --x\n\t\tÄhm  … 漢字 🎈🎈 aB  " * 3
    whole = features([text])
    for size in range(2, 40):
        monkeypatch.setattr("profiler.prompts.tokens._CHARACTERS_AT_ONCE", size)
        assert features([text]).tolist() == whole.tolist()


def test_a_long_text_takes_no_multiple_of_its_size() -> None:
    """A prompt of 30 MB took 1.2 GB, more than a service's pod has."""
    text = "hello " * 1_000_000
    tracemalloc.start()
    features([text])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80_000_000
