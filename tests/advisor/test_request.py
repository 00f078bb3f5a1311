"""What a request may say, and how what it may not say is refused."""

import json

import pytest
from pydantic import ValidationError

from advisor.request import RecommendationRequest
from tests.advisor.deployments import EAGLE3_K3, body, counts

SPECULATION = "deployment.speculation"
SERVED = {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"}


def refusals(request):
    """Locations and messages of the refusals of one request, the same from Python objects as from JSON text."""
    with pytest.raises(ValidationError) as refused:
        RecommendationRequest.model_validate(request)
    told = [(".".join(map(str, error["loc"])), error["msg"]) for error in refused.value.errors()]
    with pytest.raises(ValidationError) as refused:
        RecommendationRequest.model_validate_json(json.dumps(request))
    assert [(".".join(map(str, e["loc"])), e["msg"]) for e in refused.value.errors()] == told
    return told


def with_deployment(**changes):
    return {"prompts": ["a"], "deployment": SERVED | changes}


def with_speculation(**changes):
    return with_deployment(speculation={"method": "eagle3"} | changes)


def with_traffic(**changes):
    return {"prompts": ["a"], "deployment": SERVED, "traffic": changes}


def with_evidence(**changes):
    return body(speculation=EAGLE3_K3, evidence=counts(2.5) | changes)


WRONG = [
    (with_traffic(concurrency=-3), "traffic.concurrency", "whole number from 1 to 65,536, got -3"),
    (with_traffic(concurrency=0), "traffic.concurrency", "got 0"),
    (with_traffic(concurrency=2.5), "traffic.concurrency", "whole number"),
    (with_traffic(concurrency="16"), "traffic.concurrency", "got '16'"),
    (with_traffic(concurrency=True), "traffic.concurrency", "got True"),
    (with_traffic(concurrency=10**9), "traffic.concurrency", "got 1000000000"),
    (with_traffic(concurrency=4, request_rate=2.0), "traffic.request_rate", "got both"),
    (with_traffic(request_rate=0), "traffic.request_rate", "above 0"),
    (with_traffic(temperature=-0.1), "traffic.temperature", "from 0 to 2"),
    (with_traffic(temperature=float("nan")), "traffic.temperature", "got nan"),
    (with_traffic(input_tokens=float("inf")), "traffic.input_tokens", "got inf"),
    (with_traffic(cached_prefix_share=1.5), "traffic.cached_prefix_share", "from 0 to 1"),
    (with_traffic(concurency=4), "traffic.concurency", "did you mean 'concurrency'?"),
    (with_deployment(tensor_paralel=2), "deployment.tensor_paralel", "did you mean 'tensor_parallel_size'?"),
    (with_deployment(gpu_memory_utilization=1.2), "deployment.gpu_memory_utilization", "to 1"),
    (with_deployment(max_model_len=-1), "deployment.max_model_len", "got -1"),
    (with_deployment(engine_version="latest"), "deployment.engine_version", "such as '0.26.0'"),
    (with_deployment(gpu=3), "deployment.gpu", "a name or an object"),
    (with_deployment(target=""), "deployment.target.name", "at least 1 character"),
    (with_deployment(kv_cache_dtype="fp4"), "deployment.kv_cache_dtype", "fp8"),
    (with_deployment(enforce_eager="no"), "deployment.enforce_eager", "true or false"),
    (with_speculation(num_speculative_tokens=0), f"{SPECULATION}.num_speculative_tokens", "from 1 to 16, got 0"),
    (with_speculation(num_speculative_tokens=50), f"{SPECULATION}.num_speculative_tokens", "from 1 to 16, got 50"),
    (with_speculation(method="eagel3"), "deployment.speculation.method", "did you mean 'eagle3'?"),
    (with_speculation(method="ngram", draft="x"), "deployment.speculation.draft", "takes no draft"),
    (with_deployment(speculation={}), "deployment.speculation.method", "a method, a draft or both"),
    (with_evidence(drafts=float("nan")), "evidence.drafts", "got nan"),
    (with_evidence(accepted_tokens=-1), "evidence.accepted_tokens", "got -1"),
    (with_evidence(accepted_tokens=3500), "evidence.accepted_tokens", "more accepted than drafted"),
    (with_evidence(accepted_tokens=3500, drafted_tokens=None, decode_tokens=None), "evidence.accepted_tokens", "3000"),
    (with_evidence(drafted_tokens=4000), "evidence.drafted_tokens", "3000"),
    (with_evidence(decode_tokens=10), "evidence.decode_tokens", "1500"),
    (with_evidence(accepted_per_position=[900, 950], accepted_tokens=1850), "evidence.accepted_per_position", "2"),
    (with_evidence(accepted_per_position=[900, 400, 100]), "evidence.accepted_tokens", "1400"),
    (with_evidence(drafts=None), "evidence.drafts", "expected drafts"),
    ({"prompts": "a", "deployment": SERVED}, "prompts", "a list of prompts"),
    ({"prompts": ["a"]}, "deployment", "required"),
    (with_traffic(concurrency=4) | {"policy": {"min_speedup": -1}}, "policy.min_speedup", "from 0.1"),
    (with_traffic(concurrency=4) | {"policy": {"confidence": 0.2}}, "policy.confidence", "from 0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "place", "words"), WRONG)
def test_wrong_requests_are_refused_where_they_are_wrong(request_, place, words):
    """One refusal, at the field that is wrong, saying what was expected and what came."""
    told = refusals(request_)
    assert [where for where, _ in told] == [place]
    assert words in told[0][1]


def test_a_request_that_is_no_object():
    """A list is refused as a whole."""
    with pytest.raises(ValidationError, match="object"):
        RecommendationRequest.model_validate_json("[1, 2]")


def test_evidence_without_a_method_points_at_speculation():
    """Counts are of one method and k: the refusal is at deployment.speculation."""
    (place, message), *_ = refusals(body(evidence=counts(2.5)))
    assert place == "deployment.speculation"
    assert "the method and the k that were measured" in message
    (place, _), *_ = refusals(body(speculation={"method": "ngram"}, evidence=counts(2.5)))
    assert place == f"{SPECULATION}.num_speculative_tokens"


def test_names_and_objects_are_the_same():
    """A bare name is short for an object with a name, for target, GPU and draft."""
    short = RecommendationRequest.model_validate(with_deployment(speculation={"draft": "d"}))
    long = RecommendationRequest.model_validate(
        with_deployment(target={"name": SERVED["target"]}, gpu={"name": "H200"}, speculation={"draft": {"name": "d"}})
    )
    assert short == long


def test_defaults_are_those_of_the_contract():
    """What a request may leave out has the documented value, and traffic has none at all."""
    request = RecommendationRequest.model_validate({"prompts": ["a"], "deployment": SERVED})
    assert (request.policy.objective, request.policy.min_speedup, request.policy.confidence) == (
        "end_to_end",
        1.05,
        0.8,
    )
    assert request.deployment.engine_version == "0.26.0"
    assert all(value is None for value in request.traffic.model_dump().values())


def test_a_request_is_frozen():
    """Nobody changes a request on its way."""
    request = RecommendationRequest.model_validate({"prompts": ["a"], "deployment": SERVED})
    with pytest.raises(ValidationError):
        request.deployment.tensor_parallel_size = 2
