"""Real servers shared by tests: started when first asked for, few of them alive at once.

A start takes 25 s of two cores and an idle server keeps 3 GB, so both are spared: those that will be asked for start
side by side as far as there is room, and the one that was asked for longest ago makes room for the next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

from profiler.serving.launch import Server

MOST = 3  # alive at once
BASELINE = "baseline"  # stays: every comparison needs it


class SharedServers:
    """Servers by method; `start` makes one."""

    def __init__(self, start: Callable[[str], AbstractContextManager[Server]], soon: Iterable[str]) -> None:
        self._start = start
        self._soon = list(soon)
        self._alive: OrderedDict[str, tuple[ExitStack, Future[Server]]] = OrderedDict()
        self._threads = ThreadPoolExecutor(max_workers=MOST)

    def get(self, method: str) -> Server:
        """The server, once it is ready."""
        if method not in self._alive:
            while len(self._alive) >= MOST:
                self._stop(next(name for name in self._alive if name != BASELINE))
            self._begin(method)
            while self._soon and len(self._alive) < MOST:
                self._begin(self._soon[0])
        self._alive.move_to_end(method)
        return self._alive[method][1].result()

    def stop_all(self) -> None:
        """End them; whoever asks again waits again."""
        for method in list(self._alive):
            self._stop(method)

    def _begin(self, method: str) -> None:
        if method in self._soon:
            self._soon.remove(method)
        if method not in self._alive:
            stack = ExitStack()
            self._alive[method] = stack, self._threads.submit(stack.enter_context, self._start(method))

    def _stop(self, method: str) -> None:
        stack, started = self._alive.pop(method)
        started.exception()  # waits for the start, and leaves its failure to whoever asked for the server
        stack.close()
