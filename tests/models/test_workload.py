import numpy as np
import pytest

from models.acceptance.model import read_coefficients
from models.structure import STRUCTURES
from models.workload import describe_workload, repetition
from profiler.errors import PromptsError
from profiler.prompts.sample import Lengths, Message, Prompt, PromptSample


def user(text: str, **fields: object) -> Prompt:
    return Prompt((Message("user", text),), **fields)


def sample(*prompts: Prompt, lengths: Lengths | None = None) -> PromptSample:
    return PromptSample(prompts=prompts, format="list", records=len(prompts), usable=len(prompts), lengths=lengths)


def test_a_mixed_sample_has_mixed_shares() -> None:
    """Shares are means over the prompts and sum to 1."""
    workload = describe_workload(
        sample(user("Write a Python function that sorts a list"), user("Write a poem about rain"))
    )
    assert workload.prompt_structure.shape == (2, len(STRUCTURES))
    assert workload.structure.sum() == pytest.approx(1.0)
    assert workload.structure_shares["code"] == pytest.approx(workload.prompt_structure[:, 0].mean())
    assert workload.structure_shares["code"] > 0.3
    assert workload.structure_shares["creative"] > 0.3


def test_tokens_of_classes_weigh_by_answer_length() -> None:
    """A class with long answers has more of the tokens than of the prompts."""
    workload = describe_workload(
        sample(
            user("Write a Python function that sorts a list", output_tokens=900),
            user("Write a poem about rain", output_tokens=100),
        )
    )
    assert workload.token_structure[STRUCTURES.index("code")] > workload.structure_shares["code"]
    assert workload.token_structure.sum() == pytest.approx(1.0)


def test_stated_lengths_are_taken_as_stated() -> None:
    """Lengths and temperatures that records state are not estimated, and are not listed so."""
    prompts = [
        user("hi", input_tokens=50, output_tokens=n, temperature=t) for n, t in ((10, 0.0), (30, 0.2), (20, 1.0))
    ]
    workload = describe_workload(sample(*prompts))
    assert workload.input_tokens.mean == 50
    assert workload.output_tokens.mean == 20
    assert workload.output_tokens.log_sd == 0
    assert workload.temperature == pytest.approx(0.2)
    assert not [text for text in workload.estimated if text.startswith(("input", "output", "temperature"))]


def test_past_outputs_are_counted_and_their_overlap_measured() -> None:
    """A past answer that copies its prompt has a high overlap, one of its own words has none."""
    text = "The harbour office opens at nine and closes at five, except on Sundays when it stays shut all day long."
    copied = describe_workload(sample(user("Correct the spelling: " + text, output=text)))
    fresh = describe_workload(
        sample(user("Correct the spelling: " + text, output="Blue whales sing beneath polar ice"))
    )
    assert copied.overlap.mean > 0.7
    assert fresh.overlap.mean == 0
    assert copied.output_tokens.mean > fresh.output_tokens.mean
    assert not [note for note in copied.estimated if note.startswith("overlap")]


def test_without_outputs_overlap_is_what_the_classes_let_expect() -> None:
    """Predicted overlap lies on the acceptance model's scale, so that it shifts nothing by itself."""
    workload = describe_workload(sample(user("Summarize: The bridge was closed on Monday. It opens in May.")))
    expected = read_coefficients().copying.of(workload.prompt_structure, workload.input_tokens.per_prompt)
    np.testing.assert_allclose(workload.overlap.per_prompt, expected)
    assert any(note.startswith("overlap: predicted") for note in workload.estimated)


def test_some_known_answers_inform_the_unknown_ones() -> None:
    """Where some outputs are known, the others are predicted from them, not from the published means."""
    known = [user("Write a poem about rain", output="word " * 40) for _ in range(3)]
    workload = describe_workload(sample(*known, user("Write a poem about snow")))
    assert workload.output_tokens.per_prompt[-1] == pytest.approx(workload.output_tokens.per_prompt[0], rel=0.3)
    assert "where known" in workload.output_tokens.basis


def test_max_tokens_is_a_ceiling() -> None:
    """No answer is predicted to be longer than its max_tokens, and a large max_tokens changes nothing."""
    low, high, none = (
        describe_workload(sample(user("Write a poem about rain", max_tokens=limit))).output_tokens.mean
        for limit in (5, 100_000, None)
    )
    assert low == 5
    assert high == none > 5


def test_a_translation_is_as_long_as_its_source() -> None:
    """A translation's predicted length follows its prompt's."""
    text = "The committee discussed the new timetable for an hour and then went home. "
    short, long = (
        describe_workload(sample(user("Translate into French: " + text * n))).output_tokens.mean for n in (1, 30)
    )
    assert long > 10 * short


def test_a_trace_of_lengths_has_lengths_and_claims_no_structure() -> None:
    """Without any text every class is alike, and that is said."""
    workload = describe_workload(sample(lengths=Lengths(input_tokens=[100, 300], output_tokens=[10, 30])))
    assert workload.input_tokens.mean == 200
    assert workload.output_tokens.mean == 20
    np.testing.assert_allclose(workload.structure, 0.1)
    assert any("structure" in note for note in workload.estimated)


def test_token_id_prompts_are_described() -> None:
    """Prompts without messages but with a length go through: nothing is read, nothing is claimed."""
    workload = describe_workload(sample(Prompt((), input_tokens=40)))
    assert workload.input_tokens.mean == 40
    np.testing.assert_allclose(workload.structure, 0.1)


def test_an_empty_sample_is_refused() -> None:
    """Nothing to describe is an error that says what was expected."""
    with pytest.raises(PromptsError, match="neither prompts nor request lengths"):
        describe_workload(sample())


def test_repetition_tells_repeated_lines_from_prose() -> None:
    """One line again and again compresses to nearly nothing, a sentence does not."""
    assert repetition("GET /items 200\n" * 200) > 0.9
    assert repetition("Why is the sky blue?") < 0.3
    assert repetition("") == 0
    described = describe_workload(sample(Prompt((Message("user", "GET /items 200\n" * 200),))))
    assert described.repetition.mean > 0.9
