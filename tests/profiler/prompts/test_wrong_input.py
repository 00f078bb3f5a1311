"""What cannot be read is told: what it is, what was expected, what came, what to do; bad lines do not stop a run."""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from profiler.errors import PromptsError
from profiler.prompts import container, encoding, read_prompts

BINARY = random.Random(0).randbytes(5000)
LINES = "".join(json.dumps({"prompt": f"prompt number {i} about {i * i}"}) + "\n" for i in range(2000)).encode()


def parquet() -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"prompt": ["a"] * 100}), buffer)
    return buffer.getvalue()


REFUSED = {
    "empty.jsonl": (b"", "is empty; expected JSON lines"),
    "blank.jsonl": (b"\n \n\r\n", "holds only blank lines"),
    "binary.jsonl": (BINARY, "is a binary file"),
    "pointer.jsonl": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "is a Git LFS pointer.*git lfs pull",
    ),
    "annex.jsonl": (b"/annex/objects/MD5E-s1--a.jsonl\n", "is a git-annex pointer"),
    "page.json": (b"<html><body>Sign in</body></html>", "is an HTML page"),
    "denied.jsonl": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "is an XML document"),
    "book.xlsx": (b"PK\x03\x04....", "a ZIP archive or an Office workbook.*as CSV"),
    "paper.pdf": (b"%PDF-1.7\n", "is a PDF document"),
    "base.sqlite": (b"SQLite format 3\x00", "is an SQLite database"),
    "tar.gz": (gzip.compress(b"a.txt".ljust(257, b"\0") + b"ustar\x0000" + bytes(200)), "is a tar archive"),
    "no.parquet": (parquet()[:60], "damaged or truncated Parquet"),
    "barely.jsonl.gz": (gzip.compress(LINES)[:12], "the gzip data end too early"),
    "not.gz": (b"\x1f\x8b" + BINARY, "looks like gzip but cannot be decompressed"),
    "number.json": (b"42", "neither a text nor an object: it is a number"),
    "notfound.jsonl": (b"Entry not found", "not JSON"),
    "config.yaml": (b"prompts:\n - a\n", "is a YAML file"),
    "columns.csv": (b"id,notes\n1,hello\n", "do not say which holds the prompts.*'id', 'notes'.*name the column"),
    "twice.csv": (b"prompt,prompt\na,b\n", "two columns have the same name"),
    "access.log": (
        b'10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "POST /v1/chat/completions HTTP/1.1" 200 2326\n' * 3,
        "server's log that holds no request.*--enable-log-requests",
    ),
    "deep.json": (b"[" * 100_000, "deep"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sources_without_prompts_are_refused(name: str, tmp_path: Path) -> None:
    """The message names what the file is, in one line without a traceback."""
    content, says = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(PromptsError, match=says) as caught:
        read_prompts(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1200


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    """A missing file, a folder and an address are told apart."""
    with pytest.raises(PromptsError, match="there is no file"):
        read_prompts(tmp_path / "missing.jsonl")
    with pytest.raises(PromptsError, match="is a folder"):
        read_prompts(tmp_path)
    with pytest.raises(PromptsError, match="download it first"):
        read_prompts("https://example.invalid/prompts.jsonl")


def test_a_missing_column_names_the_nearest(tmp_path: Path) -> None:
    """A mistyped column is refused with the columns there are, in tables and in Parquet."""
    table, rows = tmp_path / "a.csv", tmp_path / "a.parquet"
    table.write_text("question_text,answer\nx,y\n")
    pyarrow.parquet.write_table(pyarrow.table({"question_text": ["x"]}), rows)
    for path in (table, rows):
        with pytest.raises(PromptsError, match=r"no column 'question_txt'.*did you mean 'question_text'") as caught:
            read_prompts(path, column="question_txt")
        assert caught.value.field == "column"


def test_a_truncated_gzip_file_gives_what_came_before(tmp_path: Path) -> None:
    """What could be decompressed is read, the cut line is counted, and the cut is told."""
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(LINES)[:6000])
    sample = read_prompts(path)
    assert 100 < sample.usable < 2000
    assert sample.records == sample.usable + 1
    assert list(sample.skipped) == ["JSON that breaks off"]
    assert "the gzip data end too early: what came before was read" in sample.notes


def test_a_prompt_of_a_million_characters(tmp_path: Path) -> None:
    """It is read whole and remarked on, as a line of text, in JSON lines and in a table."""
    text = "word " * 200_000
    for name, content in {
        "a.txt": f"{text}\nb\n",
        "a.jsonl": json.dumps({"prompt": text}) + '\n{"prompt": "b"}\n',
        "a.csv": f'prompt,n\n"{text}",1\nb,2\n',
    }.items():
        path = tmp_path / name
        path.write_text(content)
        sample = read_prompts(path)
        assert [len(p.text) for p in sample.prompts] == [len(text), 1]
        assert any("longer than 400,000 characters" in note for note in sample.notes)


def test_a_line_without_end_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is one bad record, not a memory error."""
    monkeypatch.setattr(encoding, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(container, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "long.jsonl"
    path.write_text('{"prompt": "a"}\n' + json.dumps({"prompt": "x" * 5000}) + '\n{"prompt": "b"}\n')
    sample = read_prompts(path)
    assert [p.text for p in sample.prompts] == ["a", "b"]
    assert sample.skipped == {"a line longer than 64 MiB": 1}


def test_duplicate_keys_are_never_decided_silently(tmp_path: Path) -> None:
    """Parsers take one value or the other: such a record is skipped and the key named; text with quotes is no key."""
    path = tmp_path / "twice.jsonl"
    path.write_text(
        '{"prompt": "a", "prompt": "b"}\n{"messages": [{"role": "user", "content": "x", "content": "y"}]}\n'
        '{"prompt" : "c", "temperature" : 0, "temperature" : 1}\n'
        '{"prompt": "say {\\"a\\": 1, \\"a\\": 2}"}\n{"prompt": "d\\\\", "max_tokens": 1}\n'
    )
    sample = read_prompts(path)
    assert [p.text for p in sample.prompts] == ['say {"a": 1, "a": 2}', "d\\"]
    assert [item.reason for item in sample.first_skipped] == [
        "a key that stands twice: 'prompt'", "a key that stands twice: 'content'",
        "a key that stands twice: 'temperature'",
    ]  # fmt: skip
    path.write_text('[{"prompt": "a", "prompt": "b"}, {"prompt": "c"}]')
    sample = read_prompts(path, format="json")
    assert ([p.text for p in sample.prompts], sample.skipped) == (["c"], {"a key that stands twice": 1})


def test_bad_lines_do_not_stop_a_run(tmp_path: Path) -> None:
    """Lines that are no JSON are counted with line and column, the first few are told, the rest is read."""
    path = tmp_path / "some.jsonl"
    rows = ['{"prompt": "good"}', '{"prompt": bad}', '{"prompt": "cut', "nonsense", '{"prompt": "fine"}'] * 20
    path.write_text("\n".join(rows))
    sample = read_prompts(path)
    assert (sample.records, sample.usable) == (100, 40)
    assert sample.skipped == {"not JSON": 40, "JSON that breaks off": 20}
    assert sample.first_skipped[0].line == 2
    assert sample.first_skipped[0].reason == "not JSON: Expecting value in column 12"
    assert len(sample.first_skipped) == 6


def test_broken_json_is_told_with_its_place_and_read_around(tmp_path: Path) -> None:
    """In an array an unreadable record is told with line and column; reading goes on where the next one begins."""
    path = tmp_path / "broken.json"
    path.write_text('[\n {"prompt": "a"},\n {"prompt": oops},\n {"prompt": "b"}\n {"prompt": "c"}\n]')
    sample = read_prompts(path)
    assert [p.text for p in sample.prompts] == ["a", "b", "c"]
    assert [(s.line, s.reason) for s in sample.first_skipped] == [
        (3, "not JSON: Expecting value at line 3, column 13; reading goes on at line 4")
    ]
    assert any("missing comma" in note for note in sample.notes)
    path.write_text('[\n {"prompt": "a"},\n {"prompt": "cu')
    sample = read_prompts(path)
    assert sample.usable == 1
    assert "breaks off" in sample.first_skipped[0].reason
    assert "line 3" in sample.first_skipped[0].reason


def test_not_a_number_is_no_temperature(tmp_path: Path) -> None:
    """NaN and infinity, which strict JSON lacks, are read as values that cannot be right."""
    path = tmp_path / "nan.jsonl"
    path.write_text('{"prompt": "a", "temperature": NaN}\n{"prompt": "b", "temperature": Infinity}\n')
    sample = read_prompts(path)
    assert [p.temperature for p in sample.prompts] == [None, None]
    assert "temperature left out where it is not a number from 0 to 2 (2 records, first: line 1)" in sample.notes


def test_an_empty_sample_is_refused() -> None:
    """A sample size below one is no sample."""
    with pytest.raises(PromptsError, match="at least one prompt") as caught:
        read_prompts(io.BytesIO(b"a"), sample_size=0)
    assert caught.value.field == "sample_size"
