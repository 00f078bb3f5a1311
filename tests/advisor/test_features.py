"""Features in the prompts' place: the same answer, no text, and a refusal of what cannot be."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from advisor import RecommendationRequest, advise
from advisor.described import describe_sample, features_of
from advisor.features import WorkloadFeatures
from profiler.prompts import prompts_from_objects
from tests.advisor.deployments import body

CHATS = [
    "Return the invoice below as JSON: No. 17 of 3 May, 40 EUR.",
    {"messages": [{"role": "user", "content": "Write a poem about snow."}], "temperature": 0.7, "max_tokens": 60},
    {"prompt": "Translate into German: the door is open, and the key is lost.", "output": "Die Tür ist offen."},
    {"prompt": "Write a Python function that merges intervals.", "min_p": 0.1},
] * 7
ESTIMATED = {"temperature": None, "input_tokens": None, "output_tokens": None}


@pytest.fixture(scope="module")
def features() -> dict:
    """Those of the chats, as they come over HTTP."""
    told = features_of(describe_sample(prompts_from_objects(CHATS)))
    return json.loads(told.model_dump_json())


def request(**parts) -> RecommendationRequest:
    return RecommendationRequest.model_validate(parts)


def close(one, other, path=""):
    """Equal but for what rounding the features does."""
    if isinstance(one, float) and isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-4), path
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for key in one:
            close(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), path
        for index, pair in enumerate(zip(one, other, strict=True)):
            close(*pair, f"{path}[{index}]")
    else:
        assert one == other, path


@pytest.mark.parametrize("deployment", [{}, {"enable_prefix_caching": False, "max_model_len": 128}])
def test_features_lead_to_the_answer_of_their_prompts(features, deployment):
    """Everything but the id: lengths, warnings about the prompts, what was skipped and estimated."""
    whole = body(prompts=CHATS, traffic=ESTIMATED, **deployment)
    without = {name: part for name, part in whole.items() if name != "prompts"}
    one = advise(request(**whole)).model_dump(mode="json")
    other = advise(request(**without, workload=features)).model_dump(mode="json")
    assert one.pop("id") != other.pop("id")
    assert one["workload"]["prompts"] == len(CHATS)
    assert "sampling_ignored" in {warning["code"] for warning in other["warnings"]}
    texts = [part.pop("reasons") for part in (one, other)]  # with numbers in them
    assert [reason["factor"] for reason in texts[0]] == [reason["factor"] for reason in texts[1]]
    close(one, other)


def test_no_text_is_among_the_features(features):
    """Not one word of a prompt or an answer."""
    told = json.dumps(features, ensure_ascii=False)
    assert not [word for word in ("invoice", "snow", "door", "Tür", "intervals") if word in told]


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"structure": {"code": 0.4}}, "workload.structure", "shares that sum to 1, got 0.400"),
        ({"token_structure": {"poetry": 1.0}}, "workload.token_structure", "got 'poetry'"),
        ({"output_tokens": [1.0]}, "workload.output_tokens", "expected as many lengths as input_tokens"),
        ({"input_tokens": [0.0]}, "workload.input_tokens.0", "expected a number from 1"),
        ({"overlap": 1.5}, "workload.overlap", "expected a number from 0 to 1, got 1.5"),
        ({"text": "hello"}, "workload.text", "unknown field 'text'"),
    ],
)
def test_features_that_cannot_be_are_refused(features, change, field, said):
    """With their place and what was expected."""
    without = {name: part for name, part in body().items() if name != "prompts"}
    with pytest.raises(ValidationError) as caught:
        request(**without, workload=features | change)
    (error,) = caught.value.errors()
    assert ".".join(map(str, error["loc"])) == field
    assert said in error["msg"]


def test_prompts_and_features_at_once_are_refused(features):
    """One of them would not count."""
    with pytest.raises(ValidationError, match="expected prompts or their features, got both"):
        request(**body(), workload=features)


def test_the_schema_tells_each_field():
    """Clients read from OpenAPI what the features mean."""
    properties = WorkloadFeatures.model_json_schema()["properties"]
    assert {"structure", "input_tokens", "overlap"} <= set(properties)


def test_k_alone_compares_all_methods_with_it():
    """Every candidate has that k, and there are as many as without it, where each can have it."""
    llama = "meta-llama/Llama-3.1-8B-Instruct"
    free = advise(request(**body(target=llama)))
    fixed = advise(request(**body(target=llama, speculation={"num_speculative_tokens": 5})))
    listed = [fixed.candidate, *fixed.alternatives]
    assert {one.num_speculative_tokens for one in listed} == {5}
    assert {(one.method, one.draft) for one in listed} == {
        (one.method, one.draft) for one in (free.candidate, *free.alternatives)
    }
