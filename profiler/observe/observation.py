"""What was seen of a running server, as it is saved and read again: a frozen, versioned JSON object.

Everything that the server did not tell is null, never 0. Latencies in milliseconds, rates per second, lengths in
tokens. Counts are summed over the engines behind the endpoint, and so are running and waiting requests.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from profiler.errors import InputError

SCHEMA: Literal["specworth.observation/1"] = "specworth.observation/1"
_MAX_FILE_BYTES = 2**20  # a whole observation has 3 kB


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Spread(_Frozen):
    """A quantity over requests: how many there were, their mean and an interpolated 95th percentile."""

    count: int
    mean: float
    p95: float | None = None  # null where the server keeps no buckets


class Levels(_Frozen):
    """A quantity over time, sampled at every reading."""

    mean: float
    p95: float
    most: float
    busy_mean: float | None = None  # over the readings at which it was above 0


class Rates(_Frozen):
    """What the server completed per second."""

    requests_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None


class ObservedSpeculation(_Frozen):
    """What was drafted and accepted. The method stands nowhere in /metrics: it is what the observer was told."""

    method: str | None = None
    drafts: int | None
    drafted_tokens: int
    accepted_tokens: int | None  # null for engines that count acceptances after a rejection
    accepted_per_position: tuple[int, ...] = ()
    decode_tokens: int | None = None
    num_speculative_tokens: float | None = None  # drafted tokens per draft: k where k is fixed
    acceptance_length: float | None = None  # tokens of a step that drafted, the bonus token included
    acceptance_rate: float | None = None
    position_rates: tuple[float, ...] | None = None
    tokens_per_step: float | None = None  # over all decode steps, those that drafted nothing included


class Totals(_Frozen):
    """What was counted over some stretch of time."""

    requests: int | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    input_tokens: Spread | None = None
    output_tokens: Spread | None = None
    ttft_ms: Spread | None = None
    tpot_ms: Spread | None = None
    end_to_end_ms: Spread | None = None
    prefix_hit_share: float | None = None  # of the prompt tokens
    preemptions: int | None = None
    speculation: ObservedSpeculation | None = None  # null: the server does not speculate


class Observation(Totals):
    """One server over one window; `since_start` is what it had counted at the end of it, from its own start on."""

    observation: Literal["specworth.observation/1"] = SCHEMA
    url: str
    observed_at: datetime
    seconds: float | None  # null where the window is "since the start", which the server does not tell
    readings: int
    engine_version: str | None
    model: str | None
    engines: tuple[str, ...]
    adapters: tuple[str, ...]
    restarted: bool
    rates: Rates
    running: Levels | None
    waiting: Levels | None
    kv_usage: Levels | None  # 0 to 1, of the fullest engine
    kv_tokens: int | None  # that the cache of all engines holds
    since_start: Totals
    notes: tuple[str, ...] = ()

    @property
    def engine_count(self) -> int:
        """Engines behind the endpoint; one where they are not told apart."""
        return max(1, len(self.engines))

    def text(self) -> str:
        """As it is saved."""
        return self.model_dump_json(indent=2) + "\n"


def read_observation(path: Path) -> Observation:
    """Read an observation that was saved.

    Raises:
        InputError: no such file, or it holds something else.
    """
    expected = "a file that `specworth observe URL --out FILE` wrote"
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read", expected=expected, got=(error.strerror or "an error").lower()
        ) from error
    try:
        return Observation.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise InputError(f"{path} holds no observation", expected=expected, got=f"{place}: {first['msg']}") from error
