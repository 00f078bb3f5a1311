"""Requests against a running server at constant concurrency, timed by the client's own clock."""

from profiler.load.client import Endpoint, Served, serve_one
from profiler.load.patience import Patience
from profiler.load.request import RequestPlan
from profiler.load.stream import Listener, Piece
from profiler.load.wave import Wave, run_wave

__all__ = ["Endpoint", "Listener", "Patience", "Piece", "RequestPlan", "Served", "Wave", "run_wave", "serve_one"]
