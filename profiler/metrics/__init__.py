"""A vLLM server's /metrics, read alike for every engine version."""

from profiler.metrics.per_request import request_speculation
from profiler.metrics.scrape import Scrape, read_scrape
from profiler.metrics.server import Distribution, Gauges, Window, read_gauges, read_window
from profiler.metrics.speculation import SpeculationCounters, speculation_counters

__all__ = [
    "Distribution",
    "Gauges",
    "Scrape",
    "SpeculationCounters",
    "Window",
    "read_gauges",
    "read_scrape",
    "read_window",
    "request_speculation",
    "speculation_counters",
]
