import math
import random

import pytest

from models.overlap import replayed_overlap


def test_a_copy_is_accepted_but_for_the_verifiers_own_tokens() -> None:
    """Copying a long text gives about 10 of each 11 tokens to the lookup."""
    words = [f"w{i}x" for i in range(400)]
    rng = random.Random(0)
    rng.shuffle(words)
    text = " ".join(words)
    assert replayed_overlap(prompt=text, output=text) == pytest.approx(10 / 11, abs=0.03)


def test_words_of_its_own_have_no_overlap() -> None:
    """Nothing in common, nothing accepted."""
    assert replayed_overlap(prompt="alpha beta gamma", output="one two three four") == 0


def test_an_answer_that_repeats_itself_overlaps_with_itself() -> None:
    """Lookup also copies from the answer so far, as engines do."""
    assert replayed_overlap(prompt="go", output="left right up down " * 20) > 0.7


def test_overlap_grows_with_what_is_copied() -> None:
    """Half copied lies between nothing and all."""
    source = " ".join(f"term{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(100))
    fresh = " ".join(f"other{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(100))
    half = replayed_overlap(prompt=source, output=source[: len(source) // 2] + " " + fresh[: len(fresh) // 2])
    assert 0.3 < half < 0.6 < replayed_overlap(prompt=source, output=source)


def test_an_empty_answer_has_no_overlap_to_tell() -> None:
    """Nothing can be measured on nothing."""
    assert math.isnan(replayed_overlap(prompt="x", output=""))
