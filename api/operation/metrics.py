"""Prometheus metrics of the service itself: how fast, how often, which verdicts, how far from the training data.

Seconds and bytes, as Prometheus wants its units; labels have few values (a route's template, never a path or a name
that a client chose). Each application has a registry of its own; a process that serves with others shares by files
instead (PROMETHEUS_MULTIPROC_DIR, as prometheus_client has it).
"""

from __future__ import annotations

import os

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from advisor import Recommendation
from api.jobs.ending import ENDED, STATES
from api.jobs.queue import Census
from api.operation.drift import Drift
from api.version import specworth_version

MEDIA_TYPE = CONTENT_TYPE_LATEST
# Around the service's own targets: 30 ms for a recommendation, 5 s until a missing database is told.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All that is counted."""

    def __init__(self, drift: Drift) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter that nothing here is asked for
        self.registry = registry = CollectorRegistry()
        self._drift = drift
        if _shared_folder() is None:
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
        self.requests = Histogram(
            "specworth_http_request_duration_seconds", "From a request's head to its last byte out",
            ["route", "method", "status"], buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.in_flight = Gauge(
            "specworth_http_requests_in_flight", "Requests being answered", registry=registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self._verdicts = Counter(
            "specworth_recommendations_total", "Recommendations that were given", ["verdict", "decisive", "basis"],
            registry=registry,
        )  # fmt: skip
        self._warnings = Counter(
            "specworth_recommendation_warnings_total", "Warnings in recommendations", ["code"], registry=registry
        )
        self._prompts = Counter("specworth_prompts_total", "Prompts that recommendations rest on", registry=registry)
        self._database = Histogram(
            "specworth_database_duration_seconds", "From the hand-over to the database to its commit or failure",
            ["operation", "outcome"], buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._outside = Counter(
            "specworth_outside_training_total", "Recommendations with a feature outside the training data's range",
            ["feature"], registry=registry,
        )  # fmt: skip
        self._distance = Gauge(
            "specworth_feature_drift_psi",
            "Population stability index of the last recommendations against the training data",
            ["feature"], registry=registry, multiprocess_mode="livemax",
        )  # fmt: skip
        self._compared = Gauge(
            "specworth_feature_drift_recommendations", "Recommendations that the drift is of", registry=registry,
            multiprocess_mode="livesum",
        )  # fmt: skip
        self._jobs = Gauge(
            "specworth_profile_jobs", "Profile jobs in the database", ["state"], registry=registry,
            multiprocess_mode="mostrecent",
        )  # fmt: skip
        self._jobs_ran = Gauge(
            "specworth_profile_jobs_run_seconds", "How long those that have ended ran, in all", ["state"],
            registry=registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        self._oldest_job = Gauge(
            "specworth_profile_jobs_oldest_queued_seconds", "How long the oldest job has waited; 0 where none waits",
            registry=registry, multiprocess_mode="mostrecent",
        )  # fmt: skip
        info = Gauge(
            "specworth_build_info", "Always 1; the version is a label", ["version"], registry=registry,
            multiprocess_mode="livemax",
        )  # fmt: skip
        info.labels(specworth_version()).set(1)

    def recommended(self, answer: Recommendation) -> None:
        """Count one answer that goes out."""
        self._verdicts.labels(answer.verdict, str(answer.decisive).lower(), answer.basis).inc()
        self._prompts.inc(answer.workload.prompts)
        for warning in answer.warnings:
            self._warnings.labels(warning.code).inc()
        for feature in self._drift.add(answer.workload):
            self._outside.labels(feature).inc()

    def database(self, operation: str, seconds: float, worked: bool) -> None:
        """Observe one operation of the database."""
        self._database.labels(operation, "ok" if worked else "failed").observe(seconds)

    def profile_jobs(self, census: Census) -> None:
        """Take up what the database says of profile jobs, each state of them."""
        for state in STATES:
            self._jobs.labels(state).set(census.jobs.get(state, 0))
            if state in ENDED:
                self._jobs_ran.labels(state).set(census.run_s.get(state, 0.0))
        self._oldest_job.set(census.oldest_queued_s)

    def text(self) -> bytes:
        """What /metrics answers."""
        for feature, distance in self._drift.distances().items():
            self._distance.labels(feature).set(distance)
        self._compared.set(self._drift.compared)
        folder = _shared_folder()
        if folder is None:
            return generate_latest(self.registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        together = CollectorRegistry()
        MultiProcessCollector(together, path=folder)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def _shared_folder() -> str | None:
    return os.environ.get("PROMETHEUS_MULTIPROC_DIR")
