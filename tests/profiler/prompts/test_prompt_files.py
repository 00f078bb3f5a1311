"""Prompt files in shapes that people have are read as files/expected.json says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import PromptsError
from profiler.prompts import PromptSample, read_prompts

FILES = Path(__file__).parent / "files"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
READABLE = {name: case for name, case in EXPECTED.items() if case["usable"]}

# What each file must make the reader say; the reasons by line, the notes in part.
SAID: dict[str, tuple[dict[int, str], tuple[str, ...]]] = {
    "01_openai_batch_crlf.jsonl": (
        {4: "embeddings endpoint", 9: "null content"},
        ("image, audio or file parts left out", "blank lines ignored", "several answers (n > 1)"),
    ),
    "03_sharegpt.json": (
        {40: "no turns", 86: "blank prompt"},
        ("start with an answer", "an id that stood before", "later turns are not read"),
    ),
    "05_sonnet_pool.txt": ({5: "blank"}, ("one prompt a line", "sonnet data set, it has no prompts of its own")),
    "07_guidellm_multiturn_semicolon.csv": ({5: "prompt_0 is empty"}, ("later turns are not read",)),
    "09_aiperf_single_turn.jsonl": (
        {6: "only image, audio", 7: "only image, audio"},
        ("several texts", "image, audio or file parts left out"),
    ),
    "11_mooncake_trace.jsonl": (
        {1: "no texts"},
        ("no structure can be read from it", "timestamps that are no number", "15 records state a length"),
    ),
    "13_langfuse_observations.jsonl": (
        {2: "no generation: span", 6: "no input", 7: "breaks off", 8: "no generation: event"},
        (),
    ),
    "17_alpaca_trailing_comma.json": ({22: "no instruction"}, ("trailing comma", "stood before, word for word")),
    "19_hf_messages.parquet": ({3: "null or empty"}, ("later turns are not read",)),
    "21_lmsys_chat.jsonl": ({4: "blank prompt"}, ("names redacted", "later turns are not read")),
    "29_vllm_request_log.txt": ({2: "holds no request", 3: "holds no request", 5: "without its text"}, ()),
    "35_truncated_last_line.jsonl": ({7: "breaks off"}, ()),
}
FORMATS = {
    "01_openai_batch_crlf.jsonl": "OpenAI batch input, JSON lines",
    "03_sharegpt.json": "ShareGPT conversations, JSON",
    "05_sonnet_pool.txt": "plain text",
    "07_guidellm_multiturn_semicolon.csv": "GuideLLM multi-turn columns, CSV separated by semicolons",
    "13_langfuse_observations.jsonl": "Langfuse export, JSON lines",
    "17_alpaca_trailing_comma.json": "Alpaca instructions, JSON",
    "21_lmsys_chat.jsonl": "conversations (LMSYS-Chat-1M, WildChat), JSON lines",
    "25_utf16_tab.txt": "prompts, tab separated table, UTF-16",
    "27_prompts.jsonl.gz": "prompts, JSON lines, gzip",
    "29_vllm_request_log.txt": "server log, log lines",
}


def read(name: str) -> PromptSample:
    return read_prompts(FILES / name)


@pytest.mark.parametrize("name", READABLE)
def test_counts_and_first_prompt(name: str) -> None:
    """Records, usable ones and the first prompt are as expected, and every record is accounted for."""
    case, sample = EXPECTED[name], read(name)
    assert (sample.records, sample.usable, len(sample.prompts)) == (case["records"], case["usable"], case["usable"])
    assert sample.usable + sum(sample.skipped.values()) == sample.records
    if "first_prompt" in case:
        assert sample.prompts[0].instruction == case["first_prompt"]
    for part in case.get("first_prompt_contains", []):
        assert part in sample.prompts[0].text
    assert name in (sample.source or "")


@pytest.mark.parametrize("name", SAID)
def test_what_is_skipped_and_remarked_on_is_told(name: str) -> None:
    """Each skipped record is told with line and reason, each reservation as a note."""
    skipped, notes = SAID[name]
    sample = read(name)
    told = {item.line: item.reason for item in sample.first_skipped}
    for line, reason in skipped.items():
        assert reason in told[line]
    for note in notes:
        assert any(note in said for said in sample.notes), (note, sample.notes)


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_said_in_words(name: str) -> None:
    """The sample says what was recognised: shape, packing, compression, encoding."""
    assert read(name).format == FORMATS[name]


def test_settings_of_a_batch_file() -> None:
    """Temperatures, limits, formats and past answers stand with their own prompt."""
    by_line = {prompt.line: prompt for prompt in read("01_openai_batch_crlf.jsonl").prompts}
    assert {line: p.temperature for line, p in by_line.items()} == {1: 0, 2: None, 3: 0.2, 5: None, 6: None, 8: 1.0}
    assert {line: p.max_tokens for line, p in by_line.items()} == {1: 400, 2: 128, 3: 64, 5: 60, 6: None, 8: None}
    assert by_line[2].response_format == "json_object"
    assert by_line[6].other_parts == 1
    assert by_line[8].sampling == {"n": 2}
    assert by_line[8].messages[2].text == ""
    assert by_line[5].system == "Answer in French."


def test_settings_as_text_inside_text() -> None:
    """Langfuse writes parameters as JSON text of texts: they are numbers all the same."""
    sample = read("13_langfuse_observations.jsonl")
    assert {prompt.temperature for prompt in sample.prompts} == {0.0}
    assert sample.prompts[3].text.startswith("twice encoded:")
    assert {(prompt.input_tokens, prompt.output_tokens) for prompt in sample.prompts} == {(40, 12)}


def test_answers_and_lengths_of_conversations_and_tables() -> None:
    """The answer to the first turn is the past output; token counts of columns are kept."""
    assert (
        read("03_sharegpt.json").prompts[0].output == "I took them gently, one by one, the black ones and the striped."
    )
    guide = read("07_guidellm_multiturn_semicolon.csv").prompts
    assert [(p.system, p.output_tokens) for p in guide] == [
        ("You plan trips.", 150), ("", 90), ("You plan trips.", 80),
    ]  # fmt: skip
    assert [p.max_tokens for p in read("33_dict_of_columns.json").prompts] == [10, 20, 30]
    assert [p.max_tokens for p in read("25_utf16_tab.txt").prompts] == [20, 12, 30]


def test_lengths_of_a_trace_are_kept() -> None:
    """A length trace gives the lengths of its records without text."""
    lengths = read("11_mooncake_trace.jsonl").lengths
    assert lengths is not None
    case = EXPECTED["11_mooncake_trace.jsonl"]
    assert lengths.requests == len(lengths.input_tokens) == case["lengths_usable"]
    assert sorted(lengths.input_tokens)[7] == case["derived"]["median_input_length"]


def test_turns_of_a_server_log_are_told_apart() -> None:
    """The chat template's marks are undone, and the sampling parameters of the log line kept."""
    first, second = read("29_vllm_request_log.txt").prompts
    assert [(m.role, m.text[:5]) for m in first.messages] == [("user", "Write")]
    assert (first.temperature, first.max_tokens) == (0.0, 512)
    assert second.text == "it's \"quoted\" 'both' ways"
    assert (second.temperature, second.max_tokens, second.input_tokens) == (0.7, 16, 3)


def test_a_usage_table_holds_no_prompts() -> None:
    """It is refused for what it is, with its median lengths; as lengths it can be had."""
    path = FILES / "15_openrouter_activity.csv"
    with pytest.raises(PromptsError, match="no prompt text: only token counts") as caught:
        read_prompts(path)
    assert "median 385 input tokens and 75 output tokens" in str(caught.value)
    lengths = read_prompts(path, lengths_suffice=True).lengths
    assert lengths is not None
    assert lengths.requests == EXPECTED[path.name]["lengths_usable"]


def test_an_html_page_is_named() -> None:
    """The error page of a download is no prompt file."""
    with pytest.raises(PromptsError, match="is an HTML page"):
        read("31_html_error_page.jsonl")
