"""Acceptance of each kind of prompt alone, beside that of the mixture."""

from __future__ import annotations

import pytest

from advisor import Recommendation, RecommendationRequest, advise
from profiler.prompts.sample import Lengths, Message, Prompt, PromptSample

TEXTS = (
    *["Return the invoice below as JSON with the keys number, date and total: No. 17 of 3 May, 40 EUR."] * 6,
    *["Write a melancholy poem about a lighthouse keeper who forgets the sea."] * 6,
)


def asked(sample: PromptSample, **evidence: object) -> Recommendation:
    """EAGLE-3, k = 3, on an H200."""
    request = RecommendationRequest.model_validate(
        {
            "deployment": {
                "target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200",
                "speculation": {
                    "method": "eagle3", "num_speculative_tokens": 3, "draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
                },
            },
            "traffic": {"concurrency": 4, "temperature": 0.0, "input_tokens": 128, "output_tokens": 128},
        }
        | evidence
    )  # fmt: skip
    return advise(request, sample=sample)


@pytest.fixture(scope="module")
def sample() -> PromptSample:
    """As many JSON prompts as poems."""
    prompts = tuple(Prompt((Message("user", text),)) for text in TEXTS)
    return PromptSample(prompts=prompts, format="texts", records=len(prompts), usable=len(prompts))


def test_classes_differ_and_the_mixture_lies_between(sample):
    """JSON is accepted more than poems, and the whole is neither."""
    acceptance = asked(sample).acceptance
    json, poems = acceptance.by_structure["json"], acceptance.by_structure["creative"]
    assert poems.value < acceptance.length.value < json.value
    assert all(one.low < one.value < one.high for one in acceptance.by_structure.values())


def test_classes_that_occur_are_told_most_frequent_first(sample):
    """Shares below one per cent are left out."""
    answer = asked(sample)
    told = [name for name, share in answer.workload.structure.items() if share >= 0.01]
    assert list(answer.acceptance.by_structure) == told


def test_one_class_alone_is_the_whole(sample):
    """Where all prompts are of one kind, nearly all of the mixture is that class."""
    poems = PromptSample(prompts=sample.prompts[6:], format="texts", records=6, usable=6)
    acceptance = asked(poems).acceptance
    assert acceptance.by_structure["creative"].value == pytest.approx(acceptance.length.value, rel=0.03)


def test_counts_are_of_the_mixture_and_leave_the_classes_to_the_models(sample):
    """Evidence moves the acceptance length, not what is predicted by class."""
    counts = {"drafts": 400, "accepted_tokens": 900, "temperature": 0.0}
    plain, counted = asked(sample).acceptance, asked(sample, evidence=counts).acceptance
    assert counted.length.value == pytest.approx(3.25)
    assert counted.by_structure == plain.by_structure


def test_lengths_without_texts_have_no_classes():
    """A trace tells no task."""
    lengths = Lengths(input_tokens=(100, 200), output_tokens=(50, 60), requests=2)
    trace = PromptSample(prompts=(), format="a trace", records=2, usable=0, lengths=lengths)
    assert asked(trace).acceptance.by_structure == {}
