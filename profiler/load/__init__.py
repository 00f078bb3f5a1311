"""Requests against a running server at constant concurrency, timed by the client's own clock."""

from profiler.load.client import Endpoint, Served
from profiler.load.patience import Patience
from profiler.load.request import RequestPlan
from profiler.load.wave import Wave, run_wave

__all__ = ["Endpoint", "Patience", "RequestPlan", "Served", "Wave", "run_wave"]
