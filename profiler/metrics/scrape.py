"""What one text of a /metrics endpoint says, with the names of every engine version brought to one form.

vLLM's names have changed: `_total` comes and goes with client libraries, `_created` twins carry timestamps, V1 kept the
deprecated `gpu_` twins of some gauges for a while, and Ray Serve prefixes everything with `ray_`. Here each series is
kept once, under the current name without prefix and suffix ("spec_decode_num_drafts", "kv_cache_usage_perc", ...),
with its labels. The parsing itself is prometheus_client's.

Refuses a text that is not Prometheus' (an HTML page, JSON) and one that holds no vLLM series.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from profiler.errors import EndpointError

# "vllm:" is what the server writes; Ray's exporter prefixes it, and some relays replace the colon.
_PREFIX = re.compile(r"^(?:ray_)?vllm[:_]")

# Old name -> current name; the old one is read only where the current one is absent (twins would count double).
RENAMED: Mapping[str, str] = {
    "gpu_cache_usage_perc": "kv_cache_usage_perc",
    "gpu_prefix_cache_queries": "prefix_cache_queries",
    "gpu_prefix_cache_hits": "prefix_cache_hits",
    "time_per_output_token_seconds": "inter_token_latency_seconds",
}
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its labels and value (NaN where the server wrote NaN)."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Scrape:
    """One reading of an endpoint; `series` maps the current bare name to its lines."""

    series: Mapping[str, tuple[Series, ...]]
    at_s: float  # when it was read, by the reader's monotonic clock
    start_time_s: float | None  # when the server's process started, Unix time; None where it does not tell
    created: Mapping[str, float] = field(default_factory=dict)  # bare name -> newest creation time, Unix time
    unread_lines: int = 0  # lines that are not exposition format

    def models(self) -> tuple[str, ...]:
        """Names of the served models, in the order in which they appear."""
        seen: dict[str, None] = {}
        for lines in self.series.values():
            for line in lines:
                if "model_name" in line.labels:
                    seen.setdefault(line.labels["model_name"])
        return tuple(seen)

    def values(self, name: str, *, model: str | None = None, **labels: str) -> list[float]:
        """All values of a series but NaN; lines that carry no model name belong to every model."""
        return [line.value for line in self.lines(name, model=model, **labels) if not math.isnan(line.value)]

    def lines(self, name: str, *, model: str | None = None, **labels: str) -> Iterator[Series]:
        """The lines of a series that carry these labels."""
        for line in self.series.get(name, ()):
            if model is not None and line.labels.get("model_name", model) != model:
                continue
            if all(line.labels.get(k) == v for k, v in labels.items()):
                yield line

    def total(self, name: str, *, model: str | None = None, **labels: str) -> float | None:
        """The sum over engines; None where the series is absent or says only NaN."""
        found = self.values(name, model=model, **labels)
        return math.fsum(found) if found else None


def read_scrape(text: str, *, at_s: float = 0.0, url: str = "/metrics") -> Scrape:
    """Read an endpoint's text.

    Raises:
        EndpointError: the text is not in Prometheus' format, or holds no vLLM series.
    """
    raw, unread = _parse(text)
    bare: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    created: dict[str, float] = {}
    start_time = None
    for name, labels, value in raw:
        if name == "process_start_time_seconds":
            start_time = value
            continue
        if not _PREFIX.match(name):
            continue
        name = _PREFIX.sub("", name)
        if name.endswith("_created"):
            created[name.removesuffix("_created")] = max(value, created.get(name.removesuffix("_created"), 0.0))
            continue
        # Both spellings of one counter may stand side by side; they are the same count, so the later one replaces it.
        bare.setdefault(name.removesuffix("_total"), {})[tuple(sorted(labels.items()))] = value
    if not bare:
        kind = "an HTML page" if text.lstrip()[:1] == "<" else "JSON" if text.lstrip()[:1] == "{" else "no vLLM series"
        raise EndpointError(
            f"{url} is not a vLLM server's metrics",
            expected="series such as vllm:num_requests_running",
            got=kind if text.strip() else "an empty answer",
            remedy="give the address of `vllm serve` itself (its /metrics), not of a router or another service",
        )
    _drop_deprecated_twins(bare)
    series = {n: tuple(Series(dict(k), v) for k, v in lines.items()) for n, lines in bare.items()}
    return Scrape(series=series, at_s=at_s, start_time_s=start_time, created=created, unread_lines=unread)


def _drop_deprecated_twins(bare: dict[str, dict[tuple[tuple[str, str], ...], float]]) -> None:
    for old, new in RENAMED.items():
        for suffix in ("", *_HISTOGRAM_PARTS):
            lines = bare.pop(old + suffix, None)
            if lines is not None:
                bare.setdefault(new + suffix, lines)


def _parse(text: str) -> tuple[list[tuple[str, Mapping[str, str], float]], int]:
    text = text.replace("\r\n", "\n")
    try:
        return list(_samples(text)), 0
    except ValueError:
        pass
    # One bad line (a cut transfer, a relay's banner) must not cost the others.
    found: list[tuple[str, Mapping[str, str], float]] = []
    unread = 0
    for line in text.split("\n"):
        try:
            found.extend(_samples(line + "\n"))
        except ValueError:
            unread += 1
    return found, unread


def _samples(text: str) -> Iterable[tuple[str, Mapping[str, str], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
