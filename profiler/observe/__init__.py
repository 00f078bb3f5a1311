"""What is a live server doing? Its /metrics, read for a while and told as one observation."""

from profiler.observe.observation import (
    Levels,
    Observation,
    ObservedSpeculation,
    Rates,
    Spread,
    Totals,
    read_observation,
)
from profiler.observe.summary import summarise
from profiler.observe.watch import Watched, watch

__all__ = [
    "Levels",
    "Observation",
    "ObservedSpeculation",
    "Rates",
    "Spread",
    "Totals",
    "Watched",
    "read_observation",
    "summarise",
    "watch",
]
