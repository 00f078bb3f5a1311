"""Files as people and programs leave them: read where there is one meaning, with a note, and never misread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import PromptsError
from profiler.prompts import read_prompts
from profiler.prompts.sample import PromptSample

SQL = "Write a query that lists customers without orders."


def read(tmp_path: Path, name: str, content: str | bytes, **options: Any) -> PromptSample:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_prompts(path, **options)


PYTHON = {
    "lines.jsonl": "{'prompt': 'say \"hi\"', 'max_tokens': None}\n{'prompt': \"it's\", 'stream': True}\n",
    "list.json": "[{'prompt': 'say \"hi\"'}, {'messages': [{'role': 'user', 'content': \"it's\"}]}]",
    "pretty.json": "[\n {'prompt': 'say \"hi\"'},\n {'prompt': \"it's\"},\n]\n",
    "texts.json": '[\'say "hi"\', "it\'s"]',
}


@pytest.mark.parametrize("name", PYTHON)
def test_python_notation_is_read_and_told(name: str, tmp_path: Path) -> None:
    """str() of a list or of dictionaries, in one value or one a line, has a single meaning."""
    sample = read(tmp_path, name, PYTHON[name])
    assert [p.text for p in sample.prompts] == ['say "hi"', "it's"]
    assert any("Python's notation" in note for note in sample.notes)


def test_python_notation_that_cannot_be_read_is_a_reason(tmp_path: Path) -> None:
    """What is no literal, or has a key twice, is skipped with its reason; nothing is ever evaluated."""
    rows = "{'prompt': __import__('os').getcwd()}\n{'prompt': 'a', 'prompt': 'b'}\n{'prompt': 'good'}\n"
    sample = read(tmp_path, "a.jsonl", rows)
    assert [p.text for p in sample.prompts] == ["good"]
    assert sample.skipped == {"not JSON": 1, "a key that stands twice": 1}


COMMENTED = {
    "leading.json": '// ours\n[\n {"prompt": "see http://a/b // not a comment"}, //\n /* two */ {"prompt": "b"}\n]',
    "inside.json": '{"data": [\n {"prompt": "see http://a/b // not a comment" /* ! */},\n {"prompt": "b",}]}',
    "lines.jsonl": '{"prompt": "see http://a/b // not a comment",}\n{"prompt": "b"} // second\n',
}


@pytest.mark.parametrize("name", COMMENTED)
def test_comments_in_json_are_passed_over_and_told(name: str, tmp_path: Path) -> None:
    """Comments and commas before a closing brace change nothing; text that looks like a comment stays."""
    sample = read(tmp_path, name, COMMENTED[name])
    assert [p.text for p in sample.prompts] == ["see http://a/b // not a comment", "b"]
    assert any("comments" in note for note in sample.notes)


NESTED = {
    "ids": {"p1": {"prompt": SQL}, "p2": {"prompt": "b"}, "p3": {"question": "c"}},
    "numbered texts": {"p1": SQL, "p2": "b", "p3": "c"},
    "turns by id": {key: [{"role": "user", "content": text}] for key, text in (("x", SQL), ("y", "b"), ("z", "c"))},
    "deep": {"status": "ok", "result": {"data": [{"prompt": SQL}, {"prompt": "b"}, {"prompt": "c"}]}},
    "archive": {
        "log": {
            "version": "1.2",
            "entries": [
                {"request": {"method": "POST", "postData": {"text": json.dumps({"prompt": text})}}, "response": {}}
                for text in (SQL, "b", "c")
            ],
        }
    },
}


@pytest.mark.parametrize("name", NESTED)
def test_records_under_ids_and_deeper_keys_are_found(name: str, tmp_path: Path) -> None:
    """A dictionary of records, and a list some keys deep, hold one prompt a record; where they lay is told."""
    sample = read(tmp_path, "a.json", json.dumps(NESTED[name]))
    assert [p.text for p in sample.prompts] == [SQL, "b", "c"]
    assert any("the records are those under" in note for note in sample.notes)


def test_one_record_is_no_dictionary_of_records(tmp_path: Path) -> None:
    """An object of texts whose keys are names is one record, in which no prompt is guessed at."""
    with pytest.raises(PromptsError, match="fields are 'title', 'author'"):
        read(tmp_path, "a.json", json.dumps({"title": "A book", "author": "Ana"}))


def test_a_table_of_one_column_needs_no_quotes(tmp_path: Path) -> None:
    """Its rows are texts, whatever separators they hold."""
    sample = read(tmp_path, "a.csv", "prompt\nName a bird, please\nSing; then dance\n")
    assert [p.text for p in sample.prompts] == ["Name a bird, please", "Sing; then dance"]


@pytest.mark.parametrize("name", ["user_query", "User Message", "prompt_text", "utterance", "Human"])
def test_columns_of_other_names_hold_prompts(name: str, tmp_path: Path) -> None:
    """The names that people give to what a user said."""
    assert read(tmp_path, "a.csv", f"id,{name}\n1,Name a bird\n").prompts[0].text == "Name a bird"


def test_what_stands_for_no_text_is_no_prompt(tmp_path: Path) -> None:
    """Hashes, marks of redaction and words for a missing value are skipped with the reason; like words are prompts."""
    rows = [
        "sha256:" + "9f" * 32,
        "d41d8cd98f00b204e9800998ecf8427e",
        "[MASKED]",
        "nan",
        "None",
        "Redact this: a",
        "{}",
    ]
    sample = read(tmp_path, "a.jsonl", "".join(json.dumps({"prompt": row}) + "\n" for row in rows))
    assert [p.text for p in sample.prompts] == ["Redact this: a"]
    chats = [{"messages": [{"role": "user", "content": text}]} for text in ("9f" * 32, SQL)]
    chat = read(tmp_path, "b.jsonl", "".join(json.dumps(row) + "\n" for row in chats))
    assert [p.text for p in chat.prompts] == [SQL]
    assert sample.skipped == {
        "redacted: the text was replaced when it was logged": 3,
        "no prompt: a word that stands for a missing value": 2,
        "no prompt: null or empty": 1,
    }


def test_messages_of_frameworks_are_unwrapped(tmp_path: Path) -> None:
    """LangChain's serialised messages, in both of its forms, and tool results as objects."""
    human = {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": SQL}}
    rows = [
        {"run_type": "llm", "inputs": {"messages": [[human]]}, "outputs": {}},
        {
            "messages": [
                {"type": "system", "data": {"content": "Be brief."}},
                {"type": "human", "data": {"content": "b"}},
            ]
        },
        {"messages": [{"role": "user", "content": "c"}, {"role": "tool", "content": {"degrees": 3}}]},
    ]
    sample = read(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [p.text for p in sample.prompts] == [SQL, "Be brief.\nb", 'c\n{"degrees":3}']
    assert sample.notes == ()


def test_arena_prompts_are_turns_as_json_text(tmp_path: Path) -> None:
    """Chatbot Arena's table keeps each user's turns as a JSON list; another table's JSON is a prompt as it stands."""
    row = {"model_a": "a", "model_b": "b", "prompt": json.dumps([SQL, "again"]), "response_a": "[]", "response_b": "[]"}
    assert read(tmp_path, "a.jsonl", json.dumps(row) + "\n").prompts[0].text == SQL
    assert read(tmp_path, "b.jsonl", json.dumps({"prompt": '["a", "b"]'}) + "\n").prompts[0].text == '["a", "b"]'


def test_totals_of_a_period_are_no_lengths(tmp_path: Path) -> None:
    """Token counts of a day are divided by its requests, or are no lengths at all."""
    table = "date,input_tokens,output_tokens,num_requests\n2026-01-01,12000,3000,12\n"
    with pytest.raises(PromptsError, match="median 1,000 input tokens and 250 output tokens"):
        read(tmp_path, "a.csv", table)
    with pytest.raises(PromptsError, match="token counts of a period") as caught:
        read(tmp_path, "b.csv", "date,input_tokens,output_tokens\n2026-01-01,12000,3000\n")
    assert "still worth using" not in str(caught.value)


def test_surrogates_written_as_characters_are_utf_8(tmp_path: Path) -> None:
    """A pair in six bytes is one character, a lone surrogate is replaced; neither makes the file another encoding."""
    sample = read(tmp_path, "a.txt", b"caf\xc3\xa9 \xed\xa0\xbd\xed\xb8\x80\nlone \xed\xa0\xbd\n")
    assert [p.text for p in sample.prompts] == ["caf\u00e9 \U0001f600", "lone \ufffd"]
    assert "Windows" not in sample.format
    array = b'[{"prompt": "lone \xed\xa0\xbd"}, {"prompt": "b"}]'
    assert [p.text for p in read(tmp_path, "b.json", array).prompts] == ["lone \ufffd", "b"]


def test_utf_16_without_mark_or_ascii(tmp_path: Path) -> None:
    """Chinese in UTF-16 has hardly a NUL; it is told by what it decodes to."""
    for name in ("utf-16-le", "utf-16-be"):
        text = "写一首关于大海的诗\n把下面的句子翻译成英文\n"
        sample = read(tmp_path, "a.txt", text.encode(name))
        assert [p.text for p in sample.prompts] == text.split()
        assert "UTF-16" in sample.format


def test_quotes_that_never_close_are_told(tmp_path: Path) -> None:
    """They make one prompt of the rest of a table, which must not pass for a long prompt."""
    sample = read(tmp_path, "a.csv", 'id,prompt\n1,Sing\n2,"Name a bird\n3,Dance\n')
    assert [p.text for p in sample.prompts] == ["Sing", "Name a bird\n3,Dance\n"]
    assert any("ends inside quotes" in note for note in sample.notes)
    sample = read(tmp_path, "b.csv", 'id,prompt\n1,"Name\na bird"\n')
    assert sample.notes == ()


def test_turns_of_telemetry_and_of_ultrachat(tmp_path: Path) -> None:
    """OpenTelemetry keeps the text of a part under `content`; UltraChat keeps the turns' texts by turns."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": SQL}]}]
    rows = [
        {"name": "chat", "attributes": {"gen_ai.input.messages": json.dumps(messages)}},
        {"id": "1", "data": ["b", "x"]},
    ]
    sample = read(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [p.text for p in sample.prompts] == [SQL, "b"]
    assert sample.prompts[1].output == "x"
