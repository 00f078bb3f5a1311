"""One answer and one profile, and the reviews of both; hostile ones besides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from advisor import Recommendation, RecommendationRequest, advise
from api.report.review.advice import review_advice
from api.report.review.document import Code, Review
from api.report.review.measured import review_profile
from api.report.review.provenance import Provenance, Source, sha256_of_prompts
from profiler.probe.profile import Profile
from profiler.prompts.sample import Message, Prompt, PromptSample, Skipped
from tests.advisor import profiles

SECRET_TEXT = "Return the invoice of Frobnicate Ltd as JSON"  # of a prompt: in no report
EVIL = (
    '"><script>alert(1)</script><img src=//evil.example/x onerror=alert(2)>{{7*7}}$\\frac{1}{2}$\x1b[31m\u202e&amp;|`'
)
WHEN = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Reviewed:
    """An answer with its review."""

    request: RecommendationRequest
    sample: PromptSample
    answer: Recommendation
    review: Review


def provenance(sample: PromptSample, answer: Recommendation | None = None) -> Provenance:
    """How it came about."""
    return Provenance(
        asked=Code("Command", "specworth advise prompts.jsonl"),
        source=Source(sample.source, len(sample.prompts), sha256_of_prompts(sample.prompts), "the prompts"),
        answered_at=WHEN,
        made_at=WHEN,
        answer_id=answer.id if answer is not None else None,
        model_version=answer.model_version if answer is not None else None,
    )


def sample_of(*texts: str, **changes: Any) -> PromptSample:
    """These prompts, at temperature 0."""
    prompts = tuple(Prompt((Message("user", text),), temperature=0.0) for text in texts)
    known = {"format": "texts", "records": len(texts), "usable": len(texts), "source": "prompts.jsonl"}
    return PromptSample(prompts=prompts, **(known | changes))


def reviewed(sample: PromptSample, **fields: Any) -> Reviewed:
    """The review of an answer about this sample."""
    known: dict[str, Any] = {
        "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"},
        "traffic": {"concurrency": 16, "input_tokens": 128, "output_tokens": 128},
    }
    request = RecommendationRequest.model_validate(known | fields)
    answer = advise(request, sample=sample)
    return Reviewed(request, sample, answer, review_advice(answer, request, provenance(sample, answer), sample=sample))


@pytest.fixture(scope="session")
def advice() -> Reviewed:
    """All methods compared for JSON, code and poems."""
    texts = [f"{SECRET_TEXT}, number {i}." for i in range(10)]
    texts += [f"Write a Python function that merges {i} overlapping intervals." for i in range(10)]
    texts += [f"Write a melancholy poem about lighthouse {i}." for i in range(10)]
    return reviewed(sample_of(*texts))


@pytest.fixture(scope="session")
def hostile() -> Reviewed:
    """Names from outside that hold markup, templates, mathematics and control characters."""
    from tests.advisor.deployments import LLAMA_8B

    sample = sample_of(
        "Return the invoice as JSON.", source=EVIL, format=EVIL, records=3, skipped={EVIL: 2},
        first_skipped=(Skipped(2, EVIL),), notes=(EVIL,),
    )  # fmt: skip
    gpu = {"name": EVIL, "memory_gib": 48, "bandwidth_gb_per_s": 1200, "bf16_tflops": 300}
    return reviewed(sample, deployment={"target": {"name": EVIL, "config": dict(LLAMA_8B)}, "gpu": gpu})


COUNTS = {"drafts": 400, "drafted_tokens": 1200, "accepted_tokens": 600, "decode_tokens": 1000}
LATENCY = {"mean": 21.0, "median": 20.25, "p95": 33.5}
WAVE: dict[str, Any] = {
    "arm": "baseline", "concurrency": 4, "temperature": None, "structure": "json", "prompts": 32, "answered": 31,
    "failed": 1, "seconds": 12.3, "mean_in_flight": 3.9, "output_tokens": 800, "output_tokens_per_s": 65.4,
    "ttft_ms": LATENCY, "tpot_ms": LATENCY, "end_to_end_ms": LATENCY, "running": 3.8, "waiting": 0.0, "kv_usage": 0.12,
    "gpu_bytes": 40 * 2**30, "speculation": None,
}  # fmt: skip


def profile_of(**changes: Any) -> Profile:
    """Three loads, of which the largest does not pay; changes replace parts of it."""
    arm = {
        "waves": 2, "output_tokens_per_s": 65.4, "mean_in_flight": 3.9, "ttft_ms": LATENCY, "tpot_ms": LATENCY,
        "end_to_end_ms": LATENCY,
    }  # fmt: skip
    points = [
        profiles.point(load, value, baseline=arm, speculative=arm, acceptance=COUNTS)
        for load, value in ((4, 1.83), (16, 1.21), (64, 0.94))
    ]
    told = {
        "created": "2026-11-30T11:00:00+00:00",
        "structure": {"json": COUNTS, "creative": COUNTS | {"accepted_tokens": 300}},
        "waves": [WAVE, WAVE | {"arm": "speculative", "kv_usage": 0.2}],
        "crossover": {"pays_at": 16, "fails_at": 64},
        "decision": {"verdict": "enable", "decisive": True, "text": "1.83x (1.75 to 1.91) at 4 at once: above 1.05x"},
        "refused": [{"what": "a prompt (baseline)", "why": "longer than the server's context", "count": 3}],
        "notes": ["no --concurrency was given: 16 requests at once are assumed"],
    }
    return Profile.model_validate(profiles.profile(*points, **(told | changes)))


@pytest.fixture(scope="session")
def profile() -> Profile:
    """The profile itself."""
    return profile_of()


@pytest.fixture(scope="session")
def measurement(profile: Profile) -> Review:
    """Its review."""
    return review_profile(profile, provenance(sample_of("Write a haiku.")))


class Parsed(HTMLParser):
    """Tags with their attributes, and the text of the page without its style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._style = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]
