"""Files in encodings that people have are read, and what was found is told."""

from __future__ import annotations

import io

import pytest

from profiler.prompts import PromptSample, read_prompts

GERMAN = "Wie schön ist die Straße?\nÜbersetze „Mädchen“ – bitte\n"
RUSSIAN = (
    "Напиши стихотворение о море и кораблях\nСколько будет дважды два\nПереведи на английский язык это предложение\n"
)
JAPANESE = "日本語で自己紹介文を三行で書いてください。\n東京の天気を教えてください。\n"


def read(content: bytes) -> PromptSample:
    return read_prompts(io.BytesIO(content))


@pytest.mark.parametrize(
    ("text", "encoding", "words"),
    [
        (GERMAN, "utf-8", "plain text"),
        (GERMAN, "utf-8-sig", "plain text"),
        (GERMAN, "cp1252", "plain text, Windows-1252"),
        (GERMAN, "utf-16", "plain text, UTF-16"),
        (GERMAN, "utf-16-le", "plain text, UTF-16"),
        (GERMAN, "utf-16-be", "plain text, UTF-16"),
        (GERMAN, "utf-32", "plain text, UTF-32"),
        (RUSSIAN, "cp1251", "plain text, cp1251"),
        (JAPANESE, "shift_jis", "plain text, cp932"),
    ],
)
def test_text_in_each_encoding(text: str, encoding: str, words: str) -> None:
    """The same text comes out of each encoding, and its name is in the format."""
    sample = read(text.encode(encoding))
    assert [prompt.text for prompt in sample.prompts] == text.splitlines()
    assert sample.format == words


def test_a_table_and_json_in_a_western_encoding() -> None:
    """Windows-1252 in a table; one such line among lines of UTF-8 is read and told with its line."""
    sample = read("prompt;max_tokens\nCafé à Paris;30\n".encode("cp1252"))
    assert (sample.prompts[0].text, sample.prompts[0].max_tokens) == ("Café à Paris", 30)
    late = b'{"prompt": "plain"}\n' * 10_000 + '{"prompt": "Straße"}\n'.encode("cp1252")
    sample = read(late)
    assert sample.usable == 10_001
    assert "lines that are not UTF-8 read as Windows-1252 (1 record, line 10001)" in sample.notes


def test_utf16_json() -> None:
    """JSON lines and an array in UTF-16."""
    for text in ('{"prompt": "ä"}\n{"prompt": "😀"}\n', '[{"prompt": "ä"}, {"prompt": "😀"}]'):
        assert [p.text for p in read(text.encode("utf-16")).prompts] == ["ä", "😀"]


def test_byte_order_marks_of_joined_files() -> None:
    """Files joined end to end carry a mark in the middle."""
    mark = b"\xef\xbb\xbf"
    sample = read(mark + b'{"prompt": "a"}\n' + mark + b'{"prompt": "b"}\n')
    assert [p.text for p in sample.prompts] == ["a", "b"]
    assert [p.text for p in read(mark + b"prompt,n\r\nhello,1\r\n").prompts] == ["hello"]


def test_lone_surrogates_are_replaced() -> None:
    """Half a pair cannot be encoded, so it cannot have been sent; whole pairs stay; in lines and in arrays."""
    lines = rb'{"prompt": "bad \ud83d end"}' + b"\n" + rb'{"prompt": "ok \ud83d\ude00"}' + b"\n"
    for content in (lines, b"[" + lines.strip().replace(b"\n", b",") + b"]"):
        sample = read(content)
        assert [p.text for p in sample.prompts] == ["bad \ufffd end", "ok 😀"]
        assert any("lone surrogates" in note and "1 record" in note for note in sample.notes)
        for prompt in sample.prompts:
            prompt.text.encode()


def test_nul_characters_are_dropped() -> None:
    """NULs come from holes in files and from escapes; none of them reaches a prompt, and they are told."""
    sample = read(b'{"prompt": "esc\\u0000aped"}\n{"prompt": "r\x00aw"}\n\x00\x00\x00\x00\n{"prompt": "z"}\n')
    assert [p.text for p in sample.prompts] == ["escaped", "raw", "z"]
    assert sample.skipped == {"a line of NUL bytes": 1}
    assert any("NUL characters dropped" in note for note in sample.notes)
    assert [p.text for p in read(b"one\x00\ntwo\n").prompts] == ["one", "two"]


def test_damaged_utf8_stays_utf8() -> None:
    """A few broken bytes among well-formed letters do not turn the file into another encoding."""
    sample = read("Überall schöne Mädchen und Bäume, größer als früher\n".encode() * 3 + b"br\xffken\n")
    assert sample.prompts[0].text.startswith("Überall schöne")
    assert sample.prompts[-1].text == "br\ufffdken"
