import pytest

from models.language import language_of, language_shares


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("What is the capital of Norway and how do I get there?", "en"),
        ("Wie lange dauert es, bis das Wasser kocht?", "de"),
        ("Quelle est la différence entre les deux et pourquoi ?", "fr"),
        ("¿Cuál es la diferencia entre los dos y por qué?", "es"),
        ("Qual è la differenza tra gli attori e come sono pagati?", "it"),
        ("Qual é a diferença e por que você não vai com uma amiga?", "pt"),
        ("Wat is het verschil en hoe werkt het met de trein?", "nl"),
        ("这两者有什么区别？", "zh"),
        ("違いは何ですか。", "ja"),
        ("차이점이 무엇입니까?", "ko"),
        ("В чём разница между ними?", "ru"),
        ("ما الفرق بينهما؟", "ar"),
        ("दोनों में क्या अंतर है?", "hi"),
        ("4711 0815", "other"),
        ("", "other"),
    ],
)
def test_languages_are_told(text: str, code: str) -> None:
    """A plain sentence of each language is recognised; what is no language is other."""
    assert language_of(text) == code


def test_a_quoted_word_of_another_script_is_no_language() -> None:
    """An English question about a Chinese word is English."""
    assert language_of("What does 你好 mean in the language that they speak in the south of the country?") == "en"


def test_shares_sum_to_one_and_the_largest_comes_first() -> None:
    """Shares over a sample."""
    shares = language_shares(["the cat is on the mat", "what is this", "der Hund ist nicht hier"])
    assert list(shares) == ["en", "de"]
    assert sum(shares.values()) == pytest.approx(1.0)
