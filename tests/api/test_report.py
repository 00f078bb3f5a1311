"""Reports: the same content in a terminal of any width and in Markdown, and nothing that could steer either."""

from __future__ import annotations

import io
import re
import shlex

import pytest

from advisor import RecommendationRequest, advise
from api.report.content import (
    Chart,
    Report,
    Section,
    Table,
    build_report,
    command_lines,
    crossover_sentence,
    pays_up_to,
)
from api.report.markdown import markdown
from api.report.terminal import print_report, print_table, printable
from api.report.wording import as_sentence, chance
from profiler.prompts.sample import Message, Prompt, PromptSample, Skipped

EVIL = "evil\x1b[31m\x07\u202e|name`<b>\r.jsonl"


def report_of(**settings: object) -> Report:
    """The report of an answer at 16 concurrent requests, from a file with a hostile name."""
    request = RecommendationRequest.model_validate(
        {
            "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"} | settings,
            "traffic": {"concurrency": 16, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
        }
    )
    sample = PromptSample(
        prompts=(Prompt((Message("user", "Return the invoice as JSON."),)),),
        format="chat messages",
        records=3,
        usable=1,
        skipped={"no messages": 2},
        first_skipped=(Skipped(2, "no messages"),),
        source=EVIL,
    )
    return build_report(advise(request, sample=sample), request, sample)


@pytest.fixture(scope="module")
def report() -> Report:
    """With the deployment's defaults."""
    return report_of()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def shown(report: Report, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    print_report(report, stream)
    return stream.getvalue()


def test_colours_are_for_terminals_that_want_them(report, monkeypatch):
    """A terminal gets colours; NO_COLOR, or a stream that is no terminal, none."""
    assert "\x1b[32m" in shown(report, monkeypatch)
    assert not re.search(r"\x1b\[3\d", shown(report, monkeypatch, NO_COLOR="1"))
    piped = io.StringIO()
    print_report(report, piped)
    assert "\x1b" not in piped.getvalue()


@pytest.mark.parametrize("width", [10, 24, 40, 60, 80, 200])
def test_nothing_but_the_command_is_wider_than_the_terminal(report, monkeypatch, width):
    """Lines are wrapped, and kept short enough to read on wide terminals; the command is there to be copied."""
    text = re.sub(r"\x1b\[[\d;]*m", "", shown(report, monkeypatch, COLUMNS=str(width)))
    before, _, command = text.partition("\nRun it\n")
    assert max(map(len, before.splitlines())) <= min(max(width, 20), 100)
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:3] == ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"]
    assert words[3] == "--speculative-config"


def test_control_characters_of_a_file_are_shown_and_not_sent(report, monkeypatch):
    """A file's name cannot colour, ring or turn round the text."""
    for text in (shown(report, monkeypatch, NO_COLOR="1"), markdown(report)):
        assert "\x1b[31m" not in text
        assert not {"\x07", "\u202e", "\r"} & set(text)
    assert printable("a\x1bb\nc") == "a\\x1bb\nc"


def test_the_chart_marks_traffic_and_crossover():
    """The bar of the traffic is named; the crossover stands between bars that pay and bars that do not.

    Up to 96 sequences: beyond, speculation pays again, and there is no one crossover to mark.
    """
    report = report_of(max_num_seqs=96)
    chart = next(section.body for section in report.sections if isinstance(section.body, Chart))
    assert [bar.concurrency for bar in chart.bars if bar.note] == [16]
    crossed = [index for index in range(len(chart.bars)) if chart.crosses_before(index)]
    assert len(crossed) == 1
    assert chart.bars[crossed[0] - 1].pays
    assert not chart.bars[crossed[0]].pays
    text = io.StringIO()
    print_report(report, text)
    assert f"pays up to {chart.crossover:,}" in text.getvalue()


def test_up_to_is_said_of_what_pays_without_a_gap():
    """Where speculation pays again beyond a gap, the mark stands before the gap and the sentence tells both ranges."""
    request = RecommendationRequest.model_validate(
        {
            "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"},
            "traffic": {"concurrency": 16, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
        }
    )
    sample = PromptSample(
        prompts=(Prompt((Message("user", "Return the invoice as JSON."),)),), format="texts", records=1, usable=1
    )
    answer = advise(request, sample=sample)
    for ranges, reason, marked, said in (
        ([(1, 138), (490, 490)], "found", 138, "at 1 to 138, 490 concurrent"),
        ([(1, 138), (505, 1024)], "beyond_capacity", 138, "at 1 to 138, 505 to 1,024 concurrent"),
        ([(1, 97)], "found", 97, "up to 97 concurrent"),
        ([(1, 1024)], "beyond_capacity", None, "at every concurrency"),
        ([(4, 97)], "found", None, "at 4 to 97 concurrent"),
    ):
        told = {"enable_ranges": ranges, "crossover_reason": reason, "crossover_concurrency": ranges[-1][1]}
        so = answer.model_copy(update=told)
        assert pays_up_to(so) == marked
        assert said in crossover_sentence(so, 1.05)


def test_markdown_has_every_section_and_no_markup_of_the_file(report):
    """Names stay text: no HTML, no cell border, no code."""
    text = markdown(report)
    for section in report.sections:
        assert f"\n## {section.title}" in text
    assert "<b>" not in text.replace("\\<b\\>", "")
    assert "\\|name\\`" in text


def test_what_was_skipped_is_told_with_lines_and_reasons(report):
    """Two of three records gave no prompt, and the first of them is named."""
    text = markdown(report)
    assert "1 of 3 records usable" in text
    assert "Skipped 2: no messages." in text
    assert "Line 2: no messages." in text


def test_the_command_is_quoted_for_a_shell():
    """JSON and spaces come through a shell as they are."""
    arguments = [
        "my model",
        "--max-model-len",
        "8192",
        "--enforce-eager",
        "--speculative-config",
        '{"method": "ngram"}',
    ]
    lines = command_lines(arguments)
    assert shlex.split(" ".join(lines)) == ["vllm", "serve", *arguments]
    assert len(lines) == 4


def test_sections_are_the_same_for_every_rendering(report):
    """What a terminal shows stands in Markdown, too."""
    terminal = io.StringIO()
    print_report(report, terminal)
    titles = [section.title for section in report.sections if isinstance(section, Section)]
    assert titles[0] == "Numbers"
    assert titles[-1] == "Run it"
    assert all(title in terminal.getvalue() for title in titles)


def test_heads_that_are_predicted_alike_are_told(report):
    """Published heads of one method get the same numbers: the table says that only a probe tells them apart."""
    table = next(section.body for section in report.sections if section.title == "Alternatives")
    assert isinstance(table, Table)
    assert any("only a probe tells them apart" in note for note in table.notes)
    assert table.notes[0] in markdown(report).replace("\\", "")
    terminal = io.StringIO()
    print_report(report, terminal)
    assert table.notes[0] in " ".join(terminal.getvalue().split())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("vLLM does it", "vLLM does it."), ("a step.", "A step."), ("max_num_seqs admits 4", "max_num_seqs admits 4.")],
)
def test_sentences_begin_with_a_capital_unless_a_name_comes_first(text, sentence):
    """Names keep their letters."""
    assert as_sentence(text) == sentence


@pytest.mark.parametrize(("probability", "told"), [(0.9999, ">99%"), (0.6, "60%"), (0.0, "<1%"), (0.99, "99%")])
def test_no_prediction_is_certain(probability, told):
    """A predicted probability is never shown as 0 or 100 per cent."""
    assert chance(probability) == told


def test_a_pipe_gets_names_in_one_piece(monkeypatch, capsys):
    """What is listed can be found with grep: only a terminal folds names."""
    name = "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"
    table = Table(("name", *("a number's name",) * 6), ((name, *("1.00",) * 6),))
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table("names", table)
    assert name in capsys.readouterr().out
