"""Acceptance of real weights: grids, the counting of a cell, and its rows."""

import json
from collections import Counter

import pytest

from profiler.sweep.acceptance import (
    cell_key,
    cell_rows,
    copied_share,
    main,
    measure_acceptance,
)
from profiler.sweep.acceptance_grid import read_acceptance_grid, read_asked_prompts
from profiler.sweep.closed_loop import Counters
from profiler.sweep.grid import GridError
from profiler.sweep.weights import engine_arguments

GRID = """
models: {target: big, draft: small}
prompts: {own: prompts.jsonl}
prompts_per_class: 2
output_tokens: 20
engines:
  - {name: draft, target: target, temperatures: [0, 0.7],
     speculation: {method: draft_model, draft: draft, num_speculative_tokens: 3, draft_sample_method: probabilistic}}
  - {name: suffix, target: target, speculation: {method: suffix, num_speculative_tokens: 8}}
"""
RECORDS = [
    {"class": "code", "prompt": "one"}, {"category": "qa", "turns": ["two", "three"]},
    {"class": "code", "messages": [{"role": "user", "content": "four"}]}, {"class": "code", "prompt": "five"},
    {"prompt": "no class"}, {"class": "empty"},
]  # fmt: skip


@pytest.fixture
def grid_file(tmp_path):
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_prompts_are_the_first_of_each_class(grid_file):
    """Classes by either name, conversations in three shapes, two of a class; what has neither is passed over."""
    asked = read_asked_prompts(read_acceptance_grid(grid_file), grid_file.parent)
    assert {key: [p.messages[0]["content"] for p in prompts] for key, prompts in asked.items()} == {
        ("own", "code"): ["one", "four"], ("own", "qa"): ["two"],
    }  # fmt: skip
    assert [p.number for p in asked["own", "code"]] == [0, 2]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("draft: draft,", "draft: other,", "unknown model"),
        ("num_speculative_tokens: 8", "num_speculative_tokens: 8, acceptance_length: 2.0", "imposes an acceptance"),
        ("prompts_per_class: 2", "prompts_per_class: 0", "prompts_per_class"),
        ("temperatures: [0, 0.7]", "temperatures: [3]", "temperatures"),
    ],
)
def test_a_wrong_grid_is_refused(grid_file, before, after, said):
    """Before any engine starts."""
    grid_file.write_text(GRID.replace(before, after))
    with pytest.raises(GridError, match=said):
        read_acceptance_grid(grid_file)


def test_missing_prompts_are_one_line_on_the_command_line(grid_file, tmp_path, capsys):
    """No traceback, and nothing started."""
    (tmp_path / "prompts.jsonl").unlink()
    assert main([str(grid_file), "--models", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


class ScriptedEngine:
    """Answers each request with given steps of tokens; every step after the first drafted `k` tokens."""

    def __init__(self, steps, k):
        self.steps, self.k, self.running, self.submitted = steps, k, {}, []
        self.drafts = self.accepted = self.tokens = 0

    def submit_text(self, request_id, prompt, *, output_tokens, temperature, seed, schema=None):
        self.submitted.append((tuple(prompt), output_tokens, temperature, seed, schema))
        self.running[request_id] = list(self.steps[tuple(prompt)])

    def step_tokens(self):
        outputs = []
        for name, steps in list(self.running.items()):
            tokens = steps.pop(0)
            self.tokens += len(tokens)
            if len(self.steps_of(name)) - len(steps) > 1:
                self.drafts += 1
                self.accepted += len(tokens) - 1
            if not steps:
                del self.running[name]
            outputs.append((name, tokens, not steps))
        return outputs

    def steps_of(self, name):
        return self.steps[self.submitted[int(name[1:])][0]]

    def counters(self):
        return Counters(generation_tokens=self.tokens, drafts=self.drafts, drafted_tokens=self.k * self.drafts,
                        accepted_tokens=self.accepted)  # fmt: skip


STEPS = {(1, 2, 3, 4, 5): [[9], [1, 2, 3, 4], [5, 6]], (7, 8): [[1], [2], [3, 4, 5]]}


def measured():
    engine = ScriptedEngine(STEPS, k=3)
    found = measure_acceptance(
        engine, [list(p) for p in STEPS], output_tokens=20, temperature=0.7, seed=5, schemas=[None] * 2
    )
    return engine, *found


def test_a_prompts_own_acceptance_is_in_the_lengths_of_its_steps():
    """A step that adds n + 1 tokens accepted n drafts; the prefill's token is no step. Each prompt has its own seed."""
    engine, outcomes, counted, _ = measured()
    assert [outcome.step_lengths for outcome in outcomes] == [Counter({4: 1, 2: 1}), Counter({1: 1, 3: 1})]
    assert [outcome.output for outcome in outcomes] == [[9, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5]]
    accepted = sum((length - 1) * n for o in outcomes for length, n in o.step_lengths.items())
    assert accepted == counted.accepted_tokens
    assert [seed for *_, seed, _ in engine.submitted] == [5, 6]


def test_rows_hold_the_cell_and_its_prompts(grid_file):
    """Counts add up over the prompts; lengths run from 1 to k + 1."""
    grid = read_acceptance_grid(grid_file)
    asked = read_asked_prompts(grid, grid_file.parent)["own", "code"]
    _, outcomes, counted, seconds = measured()
    cell, rows = cell_rows(
        grid.engines[0], asked, list(STEPS), outcomes, counted, key="key", temperature=0.7, seconds=seconds, facts={}
    )
    assert (cell["decode_tokens"], cell["decode_steps"], cell["drafts"], cell["accepted_tokens"]) == (10, 4, 4, 6)
    assert [row["step_lengths"] for row in rows] == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert [row["prompt"] for row in rows] == [0, 2]
    assert rows[0]["copied_share"] == pytest.approx(2 / 4)  # 1 2 3 4 and 2 3 4 5, of four runs


@pytest.mark.parametrize(("output", "share"), [([1, 2, 3], None), ([1, 2, 3, 4], 1.0), ([4, 3, 2, 1, 0], 0.0)])
def test_copied_is_a_run_of_four_tokens(output, share):
    """Shorter answers say nothing."""
    assert copied_share([0, 1, 2, 3, 4], output) == share


def test_a_cells_key_knows_its_prompts_and_temperature(grid_file):
    """Another class, temperature or length of answers is another cell; the engine's name is not."""
    grid = read_acceptance_grid(grid_file)
    engine = grid.engines[0]
    renamed = engine.model_copy(update={"name": "other"})
    assert cell_key(engine, grid, "own", "code", 0.0) == cell_key(renamed, grid, "own", "code", 0.0)
    others = [cell_key(engine, grid, "own", "qa", 0.0), cell_key(engine, grid, "own", "code", 0.7),
              cell_key(engine, grid.model_copy(update={"output_tokens": 9}), "own", "code", 0.0)]  # fmt: skip
    assert len({cell_key(engine, grid, "own", "code", 0.0), *others}) == 4


def test_suffix_decoding_remembers_no_earlier_answer(grid_file, tmp_path):
    """Its tree over all requests would make the second class look better than it is."""
    grid = read_acceptance_grid(grid_file)
    draft, suffix = (
        engine_arguments(e.target, e.speculation, models=grid.models, folder=tmp_path, settings={})[
            "speculative_config"
        ]
        for e in grid.engines
    )
    assert suffix["suffix_decoding_max_cached_requests"] == 0
    assert draft["model"] == str(tmp_path / "small")
    assert draft["draft_sample_method"] == "probabilistic"
