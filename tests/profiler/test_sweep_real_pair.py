"""Real traffic end to end: grids, the order of prompts, whole passes, rows, and what the command refuses."""

import json
from pathlib import Path

import pytest

from profiler.sweep.closed_loop import Counters, Finished, measure_traffic
from profiler.sweep.grid import GridError
from profiler.sweep.real_grid import RealCell, read_real_grid
from profiler.sweep.real_pair import CELLS, cell_limits, main
from profiler.sweep.real_rows import real_row
from profiler.sweep.traffic import PromptCycle, answer_digest

GRID = """
models: {Big: big, Small: small}
prompts: {own: prompts.jsonl}
prompts_per_class: 2
output_tokens: 20
settings: {max_model_len: 512}
traffic:
  main:
    - {classes: [code, qa], temperatures: [0, 0.7], concurrency: [1, 4]}
engines:
  - {name: base, target: Big, traffic: [main]}
  - {name: draft, target: Big, traffic: [main],
     speculation: {method: draft_model, draft: Small, num_speculative_tokens: 3}}
  - {name: suffix, target: Big, traffic: [main], speculation: {method: suffix, num_speculative_tokens: 8}}
"""
RECORDS = [{"class": "code", "prompt": f"code {i}"} for i in range(4)] + [{"category": "qa", "turns": ["one", "two"]}]


@pytest.fixture
def grid_file(tmp_path):
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_every_arm_asks_the_same_cells_in_one_order(grid_file):
    """Temperature by temperature and concurrency by concurrency, all classes; baseline first, as the file says."""
    grid = read_real_grid(grid_file)
    assert [engine.name for engine in grid.engines] == ["base", "draft", "suffix"]
    assert len({engine.cells for engine in grid.engines}) == 1
    assert [cell.label() for cell in grid.engines[0].cells][:5] == [
        "code x1 T0", "qa x1 T0", "code x4 T0", "qa x4 T0", "code x1 T0.7",
    ]  # fmt: skip


def test_prompts_are_taken_from_the_whole_of_a_class(grid_file):
    """Two of four: the first and the third, since neighbours are variations of one text."""
    grid = read_real_grid(grid_file)
    assert grid.numbers(RealCell(prompt_set="own", structure="code", concurrency=1)) == [0, 2]
    assert grid.numbers(RealCell(prompt_set="own", structure="qa", concurrency=1)) == [4]


def test_a_cells_key_knows_its_prompts_and_load_and_not_its_engines_name(grid_file):
    """Speculation, temperature, concurrency, class and prompts make another cell; a name does not."""
    grid = read_real_grid(grid_file)
    base, draft, _ = grid.engines
    cell = base.cells[0]
    renamed = base.model_copy(update={"name": "other"})
    assert grid.key(base, cell) == grid.key(renamed, cell)
    grid_file.write_text(GRID.replace("prompts_per_class: 2", "prompts_per_class: 3"))
    others = [grid.key(draft, cell), *(grid.key(base, other) for other in base.cells[1:]),
              read_real_grid(grid_file).key(base, cell)]  # fmt: skip
    assert len({grid.key(base, cell), *others}) == 1 + len(others)


def test_no_engine_remembers_a_prompt(grid_file, tmp_path):
    """Prompts are asked again and again: neither the prefix cache nor suffix decoding's tree may answer from memory."""
    grid = read_real_grid(grid_file)
    arguments = [grid.arguments(engine, tmp_path) for engine in grid.engines]
    assert all(given["enable_prefix_caching"] is False for given in arguments)
    assert "speculative_config" not in arguments[0]
    assert arguments[1]["speculative_config"]["model"] == str(tmp_path / "small")
    assert arguments[2]["speculative_config"]["suffix_decoding_max_cached_requests"] == 0


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("draft: Small", "draft: Other", "unknown model"),
        ("num_speculative_tokens: 8", "num_speculative_tokens: 8, acceptance_length: 2.0", "imposes an acceptance"),
        ("classes: [code, qa]", "classes: [code, poems]", "class without prompts"),
        ("concurrency: [1, 4]", "concurrency: [1, 1]", "a cell twice"),
        ("concurrency: [1, 4]", "concurrency: [0]", "concurrency"),
        ("name: draft", "name: base", "one name"),
        ("max_model_len: 512", "enable_prefix_caching: true", "cached"),
        ("prompts.jsonl", "none.jsonl", "cannot read"),
    ],
)
def test_a_wrong_grid_is_one_line_on_the_command_line(grid_file, tmp_path, capsys, before, after, said):
    """Nothing starts, no traceback."""
    grid_file.write_text(GRID.replace(before, after, 1))
    with pytest.raises(GridError, match=said):
        read_real_grid(grid_file)
    assert main([str(grid_file), "--models", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_cannot_be_measured_is_refused_before_an_engine_starts(grid_file, tmp_path, capsys, monkeypatch):
    """Sampling on a host without a GPU, an engine that the grid lacks, rows of an earlier run without --resume."""
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    out = tmp_path / "out"
    command = [str(grid_file), "--models", str(tmp_path), "--out", str(out)]
    assert main(command) == 2
    assert "temperature 0" in capsys.readouterr().err
    assert main([*command, "--only", "eagle"]) == 2
    assert "no such engine" in capsys.readouterr().err
    out.mkdir()
    (out / CELLS).write_text("")
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err


def test_nothing_is_left_where_all_is_measured(grid_file, tmp_path, capsys, monkeypatch):
    """A second run with --resume starts no engine; a cell that the deadline cut is left to it."""
    monkeypatch.setenv("PATH", "")
    grid = read_real_grid(grid_file)
    rows = [{"key": grid.key(e, cell), "ended_by": "enough"} for e in grid.engines for cell in e.cells]
    out = tmp_path / "out"
    out.mkdir()
    (out / CELLS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [str(grid_file), "--models", str(tmp_path), "--out", str(out), "--resume"]
    assert main(command) == 0
    assert "nothing is left" in capsys.readouterr().out
    (out / CELLS).write_text("".join(json.dumps(row | {"ended_by": "deadline"}) + "\n" for row in rows))
    assert main(command) == 2  # goes on, to find that sampling needs a GPU


def test_the_projects_own_grid_can_be_measured():
    """Its classes have their prompts, all arms the same cells, and the six classes of the plan are in it."""
    grid = read_real_grid(Path(__file__).parents[2] / "data" / "grids" / "real-pair-1.yaml")
    assert len({engine.cells for engine in grid.engines}) == 1
    assert [engine.speculation.method for engine in grid.engines[1:]].count("draft_model") == 2
    cells = grid.engines[0].cells
    assert {c.structure for c in cells} > {"code", "edit", "json", "summarisation", "retrieval", "creative"}
    assert {c.concurrency for c in cells} == {1, 4, 16, 64, 128}
    assert all(len(grid.numbers(cell)) == (4 if cell.structure == "retrieval_long" else 8) for cell in cells)


class TalkingEngine:
    """Each prompt has an answer of its own length; a step of 10 ms writes up to `tokens_per_step` of each request."""

    def __init__(self, lengths, *, tokens_per_step=1):
        self.lengths, self.tokens_per_step, self.now = lengths, tokens_per_step, 0.0
        self.running, self.asked = {}, []
        self.tokens = self.first = self.decode_steps = 0

    def clock(self):
        return self.now

    def submit(self, request_id, prompt, *, output_tokens, temperature):
        self.asked.append(prompt[0])
        self.running[request_id] = [0, min(self.lengths[prompt[0]], output_tokens), prompt[0], self.now, None]

    def step(self):
        self.now += 0.01
        ended = []
        for request_id, state in list(self.running.items()):
            written, most, prompt, since, first = state
            if first is None:
                state[4] = self.now
                self.first += 1
            else:
                self.decode_steps += 1
            new = min(1 if first is None else self.tokens_per_step, most - written)
            state[0] += new
            self.tokens += new
            if state[0] == most:
                del self.running[request_id]
                ended.append(Finished(request_id, most, state[4] - since, self.now - state[4], [prompt] * most))
        return ended

    def running_ttft_s(self):
        return {name: first - since for name, (*_, since, first) in self.running.items() if first is not None}

    def abort_all(self):
        self.running.clear()

    def counters(self):
        return Counters(generation_tokens=self.tokens, first_tokens=self.first, decode_steps=self.decode_steps)


LENGTHS = [30, 60, 10, 80, 45, 25, 70, 55]


def measured(concurrency, *, temperature=0.0, most_tokens=75, **engine):
    engine = TalkingEngine(LENGTHS, **engine)
    traffic = PromptCycle([[place] for place in range(len(LENGTHS))], concurrency=concurrency, most_tokens=most_tokens,
                          temperature=temperature)  # fmt: skip
    return engine, traffic, measure_traffic(engine, traffic, limits=cell_limits(concurrency), clock=engine.clock)


@pytest.mark.parametrize("concurrency", [1, 4, 16, 12])
def test_windows_are_whole_passes_over_the_prompts(concurrency):
    """Any concurrency measures each prompt equally often: mean length and rate are those of the class."""
    engine, _, cell = measured(concurrency)
    passes = {1: 8, 4: 8, 16: 16, 12: 16}[concurrency]
    assert cell.ended_by == "enough"
    assert cell.completions // passes >= (1 if concurrency == 1 else 2)
    # Two requests may end in one step, so that a window may hold a few requests of the next.
    assert cell.completions % passes < concurrency
    written = [min(length, 75) for length in LENGTHS]
    assert cell.answer_tokens / cell.completions == pytest.approx(sum(written) / 8, rel=0.04)
    assert cell.counters.generation_tokens / cell.measured_s == pytest.approx(concurrency / 0.01, rel=0.01)
    assert engine.asked == [place % 8 for place in range(len(engine.asked))]


def test_the_loop_starts_spread_over_what_answers_come_to():
    """Natural ends are shorter than the limit: the fill takes what the answers so far ask for, not the limit."""
    _, _, blind = measured(8, most_tokens=75)
    assert blind.fill_s < 0.8  # ages spread over 75 tokens would take 0.66 s, over answers of 46 tokens less
    engine = TalkingEngine(LENGTHS)
    told = PromptCycle(
        [[p] for p in range(8)], concurrency=8, most_tokens=10_000, temperature=0.0, expected_tokens=46.0
    )
    assert measure_traffic(engine, told, limits=cell_limits(8), clock=engine.clock).fill_s < 0.6


def test_greedy_answers_leave_digests_and_sampled_ones_none():
    """By prompt, equal for equal answers; those of another arm can be compared, their text is not kept."""
    _, traffic, cell = measured(4)
    assert traffic.digests == [answer_digest([p] * min(n, 75)) for p, n in enumerate(LENGTHS)]
    assert traffic.alike == traffic.answers >= cell.completions
    assert traffic.cut == pytest.approx(traffic.answers / 8, abs=1)
    assert measured(4, temperature=1.0)[1].digests == [None] * 8
    again = PromptCycle([[0]], concurrency=1, most_tokens=5, temperature=0.0)
    for answer in ([1, 2], [1, 2], [2, 1]):
        again.ended(again.next_request(0), answer, len(answer))
    assert (again.answers, again.alike, again.digests) == (3, 2, [answer_digest([1, 2])])


def test_a_row_counts_decode_steps_by_request(grid_file):
    """τ rests on them: three tokens a step, but for answers' ends."""
    grid = read_real_grid(grid_file)
    _, traffic, cell = measured(4, tokens_per_step=3)
    row = real_row(grid.engines[1], grid.engines[1].cells[0], cell, traffic, [[p] for p in range(8)], key="key",
                   most_output_tokens=75, facts={"gpu": None})  # fmt: skip
    assert row["decode_tokens"] / row["decode_steps"] == pytest.approx(3.0, rel=0.05)
    assert (row["method"], row["num_speculative_tokens"], row["prompts"]) == ("draft_model", 3, 8)
    assert row["output_tokens_mean"] == pytest.approx(46, rel=0.05)
    assert len(row["repeat_output_tokens_per_s"]) == row["repeats"] >= 2
    assert all(digest != "-" for digest in row["answer_digests"])
    json.dumps(row)
