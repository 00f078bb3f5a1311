"""How records are packed in a file is told from its beginning: JSON in its forms, tables, text, compression."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from profiler.prompts import PromptSample, read_prompts


def read(content: bytes | str, name: str, folder: Path, **how: str) -> PromptSample:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_prompts(path, **how)  # type: ignore[arg-type]


def texts(sample: PromptSample) -> list[str]:
    return [prompt.text for prompt in sample.prompts]


ROWS = [{"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
PACKINGS = {
    "lines.jsonl": LINES,
    "lines_named.json": LINES,
    "lines_named.txt": LINES,
    "array.json": json.dumps(ROWS),
    "array_indented.json": json.dumps(ROWS, indent=2),
    "array_of_lines.json": "[" + ",\n".join(json.dumps(row) for row in ROWS) + "]\n",
    "indented_objects.json": "\n".join(json.dumps(row, indent=4) for row in ROWS),
    "objects_on_one_line.json": "".join(json.dumps(row) for row in ROWS),
    "lines_with_commas.jsonl": LINES.replace("}\n", "},\n"),
    "sequence.json": "".join("\x1e" + json.dumps(row) + "\n" for row in ROWS),
    "columns.json": json.dumps({"prompt": ["a", "b", "c"]}),
    "columns_by_index.json": json.dumps({"prompt": {"0": "a", "1": "b", "2": "c"}}),
    "under_a_key.json": json.dumps({"version": 1, "data": ROWS}, indent=1),
    "texts.json": json.dumps(["a", "b", "c"]),
    "texts.jsonl": '"a"\n"b"\n"c"\n',
    "two_arrays.json": json.dumps(ROWS[:2]) + "\n" + json.dumps(ROWS[2:]),
    "table.csv": "prompt,max_tokens\na,1\nb,2\nc,3\n",
    "table.tsv": "prompt\tmax_tokens\na\t1\nb\t2\nc\t3\n",
    "bars.txt": "id|prompt\n1|a\n2|b\n3|c\n",
    "one_column.csv": "prompt\na\nb\nc\n",
    "with_sep.csv": "sep=;\nprompt;n\na;1\nb;1\nc;1\n",
    "old_mac.csv": "prompt,max_tokens\ra,1\rb,2\rc,3\r",
    "text.txt": "a\nb\nc",
    "crlf.txt": "a\r\nb\r\nc\r\n",
    "old_mac.txt": "a\rb\rc",
}


@pytest.mark.parametrize("name", PACKINGS)
def test_each_packing_gives_the_same_prompts(name: str, tmp_path: Path) -> None:
    """The same three prompts come out of every packing, whatever the file is called."""
    sample = read(PACKINGS[name], name, tmp_path)
    assert texts(sample) == ["a", "b", "c"]
    assert (sample.records, sample.usable, dict(sample.skipped)) == (3, 3, {})


@pytest.mark.parametrize(
    ("compress", "words"),
    [
        (gzip.compress, "gzip"), (zstandard.compress, "zstd"), (bz2.compress, "bzip2"), (lzma.compress, "xz"),
        (lambda data: gzip.compress(data[:20]) + gzip.compress(data[20:]), "gzip"),
        (lambda data: zstandard.compress(data[:20]) + zstandard.compress(data[20:]), "zstd"),
        (lambda data: zstandard.compress(gzip.compress(data)), "zstd, gzip"),
    ],
)  # fmt: skip
def test_compressed_files_are_read_and_said(compress, words: str, tmp_path: Path) -> None:
    """Compression is told from the bytes, members joined together included."""
    sample = read(compress(LINES.encode()), "some.file", tmp_path)
    assert texts(sample) == ["a", "b", "c"]
    assert sample.format == f"prompts, JSON lines, {words}"


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash stands for standard input, which can be read once only."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(LINES.encode()))))
    sample = read_prompts("-")
    assert texts(sample) == ["a", "b", "c"]
    assert sample.source == "standard input"


def test_parquet_with_a_named_column(tmp_path: Path) -> None:
    """Parquet is read by its own signature, compressed or not; a column can be named; bytes are passed over."""
    table = pyarrow.table({"ask": ["a", None, "c"], "picture": [b"\xff", b"\x00", None], "max_tokens": [1, 2, 3]})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    for content in (buffer.getvalue(), gzip.compress(buffer.getvalue())):
        sample = read(content, "x.parquet", tmp_path, column="ask")
        assert texts(sample) == ["a", "c"]
        assert sample.prompts[1].max_tokens == 3
        assert [(item.line, item.reason) for item in sample.first_skipped] == [(2, "no prompt: null or empty")]


def test_cells_may_hold_lines_and_messages(tmp_path: Path) -> None:
    """Quoted cells span lines, and messages in cells are read as JSON or as pandas writes them."""
    content = (
        'id,messages\n1,"[{""role"": ""user"", ""content"": ""as JSON""}]"\n'
        "2,\"[{'role': 'user', 'content': 'as Python\\nwrites it'}]\"\n"
    )
    assert texts(read(content, "m.csv", tmp_path)) == ["as JSON", "as Python\nwrites it"]
    sample = read('prompt,n\n"two\nlines",1\nnext,1\n', "l.csv", tmp_path)
    assert texts(sample) == ["two\nlines", "next"]
    assert [prompt.line for prompt in sample.prompts] == [2, 4]


def test_text_that_only_looks_like_something_else(tmp_path: Path) -> None:
    """Commas, braces and brackets do not make a table or JSON of plain text; a table's rows are not lines."""
    for content in ("Write, please, in C\nTranslate: a, b\n", "{name} is a name\n[INST] do [/INST]\n", "1. a\n2. b\n"):
        sample = read(content, "t.txt", tmp_path)
        assert sample.format == "plain text"
        assert texts(sample) == content.splitlines()


def test_one_conversation_as_an_array(tmp_path: Path) -> None:
    """An array of messages is one conversation, not three prompts."""
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]
    sample = read(json.dumps(turns, indent=1), "c.json", tmp_path)
    assert texts(sample) == ["x\ny\nz"]
    assert any("one conversation" in note for note in sample.notes)


def test_a_single_object_is_one_record(tmp_path: Path) -> None:
    """One object, on one line or on several, is one prompt; lists in it are its messages."""
    body = {"model": "m", "messages": [{"role": "user", "content": "only one"}]}
    for indent in (None, 2):
        assert texts(read(json.dumps(body, indent=indent), "one.json", tmp_path)) == ["only one"]


def test_large_arrays_are_read_in_pieces(tmp_path: Path) -> None:
    """An array far larger than the pieces in which it is read, on one line and on many, gives all its records."""
    rows = [{"prompt": f"prompt {i} " + "é" * 300, "nested": [[i], {"k": "]}"}]} for i in range(3000)]
    for indent in (None, 1):
        sample = read(json.dumps(rows, indent=indent, ensure_ascii=False), "big.json", tmp_path)
        assert (sample.records, sample.usable, len(sample.prompts)) == (3000, 3000, 500)
    assert sample.prompts[-1].line is not None
    assert sample.prompts[-1].line > 1


def test_a_sample_is_seeded_and_in_order(tmp_path: Path) -> None:
    """Equal seeds give equal samples, others other ones; prompts stand in the order of the file."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(f"prompt {i}" for i in range(5000)))
    one, again, other = (read_prompts(path, sample_size=50, seed=seed) for seed in (1, 1, 2))
    assert one.prompts == again.prompts != other.prompts
    assert [p.line for p in one.prompts] == sorted(p.line or 0 for p in one.prompts)
    assert (one.usable, len(one.prompts)) == (5000, 50)
