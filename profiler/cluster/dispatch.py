"""Tasks sent out to a cluster, sent again where their node was lost, and what they tell in the order in which it comes.

Ray would repeat a lost task as a whole; here its caller says what of it is left (`renew`), so that nothing is measured
twice. Ray may hand a task to a node for seconds after it was lost: what never began is sent again after a pause, and
counts as no attempt. A task whose command fails is not repeated: it would fail elsewhere, too. One that waits while no
living node could hold it, or that does not get to begin, is given up after a while. Whatever ends the dispatch, no task
is left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from profiler.cluster.connection import ClusterLostError
from profiler.cluster.nodes import Needs, fitting
from profiler.cluster.task import News, Work, carry_out, look_for_vllm

ATTEMPTS = 4
NO_NODE_S = 60.0
_LOOK_EVERY_S = 0.5
_NODES_EVERY_S = 2.0
_PAUSE_S = 2.0  # before what never began is sent again
_LATE_S = 20.0  # that a task may take to end by itself after its time is over
_CANCEL_S = 35.0  # for a cancelled task to stop its engine
_LOSSES = (
    "NodeDiedError", "NodePreemptedError", "LocalRayletDiedError", "WorkerCrashedError", "ObjectLostError",
    "OutOfMemoryError", "RaySystemError", "RuntimeEnvSetupError",
)  # fmt: skip


@dataclass(frozen=True)
class Order:
    """One task and what it needs of a node."""

    work: Work
    needs: Needs


@dataclass(frozen=True)
class Dispatch:
    """How tasks are followed.

    listen: what a task of that name tells.
    renew: what is left of a task whose node was lost; None where nothing is.
    tell: what the reader of a terminal should know.
    until: the end of all tasks, in seconds since the epoch.
    """

    listen: Callable[[str, News], None]
    renew: Callable[[str], Work | None]
    tell: Callable[[str], None]
    until: float | None = None
    attempts: int = ATTEMPTS
    no_node_s: float = NO_NODE_S


@dataclass
class _Sent:
    order: Order
    results: Any
    attempt: int = 1
    where: str = ""  # the node's name, once it has begun
    homeless_since: float | None = None
    failing_since: float | None = None  # to begin
    again_at: float | None = None  # a reading of time.monotonic, where it is to be sent again
    over: bool = False


def check_interpreter(ray: ModuleType, nodes: Sequence[Mapping[str, Any]], python: str | None) -> dict[str, str]:
    """On which of these nodes can vLLM not be run under `python`, and why? By the nodes' names."""
    from_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    asked = [
        ray.remote(look_for_vllm)
        .options(num_cpus=0, max_retries=0, scheduling_strategy=from_node(node["NodeID"], soft=False))
        .remote(python)
        for node in nodes
    ]
    found: dict[str, str] = {}
    for answer in asked:
        with contextlib.suppress(ray.exceptions.RayError):  # lost meanwhile: the tasks go elsewhere
            name, why = ray.get(answer)
            if why is not None:
                found[name] = why
    return found


def carry_out_all(ray: ModuleType, orders: Sequence[Order], dispatch: Dispatch) -> dict[str, str]:
    """Run them all, as many at a time as the cluster holds; why each that did not end in order did not, by name."""
    running = _Running(ray, dispatch)
    for order in orders:
        running.send(order)
    try:
        running.follow()
    finally:
        running.cancel(running.open_ones())
    return running.failed


class _Running:
    """Tasks under way."""

    def __init__(self, ray: ModuleType, dispatch: Dispatch) -> None:
        self._ray, self._dispatch = ray, dispatch
        self._task = ray.remote(carry_out)
        self._losses = tuple(kind for name in _LOSSES if (kind := getattr(ray.exceptions, name, None)))
        self._sent: list[_Sent] = []
        self.failed: dict[str, str] = {}

    def send(self, order: Order) -> None:
        """One task more."""
        self._sent.append(_Sent(order, self._results(order)))

    def open_ones(self) -> list[_Sent]:
        """Tasks that have not ended."""
        return [one for one in self._sent if not one.over]

    def follow(self) -> None:
        """Take what they tell until all have ended or the time is over."""
        dispatch, looked = self._dispatch, time.monotonic()
        while self.open_ones():
            self._send_again()
            sent = [one for one in self.open_ones() if one.again_at is None]
            ready: Sequence[Any] = ()
            if sent:
                ready, _ = self._asked(self._ray.wait, [one.results for one in sent], timeout=_LOOK_EVERY_S)
            else:
                time.sleep(_LOOK_EVERY_S)
            for one in sent:
                if one.results in ready:
                    self._take(one)
            if dispatch.until is not None and time.time() > dispatch.until + _LATE_S:
                dispatch.tell("the time limit came")
                return
            if time.monotonic() > looked + _NODES_EVERY_S:
                looked = time.monotonic()
                self._give_up_homeless()

    def cancel(self, those: Sequence[_Sent]) -> None:
        """Stop tasks and wait until they have: an engine that still ends holds its GPU."""
        for one in those:
            with contextlib.suppress(Exception):  # of a cluster that is going away
                self._ray.cancel(one.results)
        until = time.monotonic() + _CANCEL_S
        for one in those:
            while one.where and time.monotonic() < until:
                try:
                    if self._ray.wait([one.results], timeout=_LOOK_EVERY_S)[0]:
                        self._ray.get(next(one.results))
                except Exception:  # its end, in any of the forms that Ray has for it
                    break

    def _results(self, order: Order) -> Any:  # noqa: ANN401 - a generator of Ray's
        # SPREAD: two engines on one host share its CPUs, which an engine's step needs; idle nodes come first.
        options = order.needs.options() | {"max_retries": 0, "scheduling_strategy": "SPREAD", "name": order.work.name}
        return self._task.options(**options).remote(order.work)

    def _take(self, one: _Sent) -> None:
        """What it told next, or its end."""
        name = one.order.work.name
        try:
            news: News = self._asked(self._ray.get, next(one.results))
        except StopIteration:
            one.over = True
            return
        except self._losses as error:
            self._again(one, type(error).__name__)
            return
        except self._ray.exceptions.RayError as error:
            one.over, self.failed[name] = True, _short(error)
            return
        if news.kind == "began":
            one.where, one.failing_since = news.name, None
        self._dispatch.listen(name, news)

    def _again(self, one: _Sent, why: str) -> None:
        name = one.order.work.name
        where = f" on {one.where}" if one.where else ""
        left = self._dispatch.renew(name)
        if left is None:
            one.over = True
            return
        if not one.where:
            one.failing_since = one.failing_since or time.monotonic()
            one.again_at = time.monotonic() + _PAUSE_S
            if time.monotonic() > one.failing_since + self._dispatch.no_node_s:
                one.over, self.failed[name] = True, f"no node lets it begin ({why})"
            return
        if one.attempt >= self._dispatch.attempts:
            one.over, self.failed[name] = True, f"its node was lost {one.attempt} times ({why}{where})"
            return
        self._dispatch.tell(f"{name}: its node was lost ({why}{where}); what is left of it goes to another")
        one.order = Order(left, one.order.needs)
        one.results, one.attempt, one.where = self._results(one.order), one.attempt + 1, ""

    def _send_again(self) -> None:
        for one in self.open_ones():
            if one.again_at is not None and time.monotonic() > one.again_at:
                one.results, one.again_at = self._results(one.order), None

    def _asked(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as Ray has it
        """What Ray answers. Raises ClusterLostError where its process on this host is gone."""
        try:
            return call(*arguments, **options)
        except OSError as error:
            raise ClusterLostError(
                "this host's own node of the Ray cluster went away", got=str(error),
                remedy="start it again: ray start --address=HOST:PORT --num-cpus=0",
            ) from error  # fmt: skip

    def _give_up_homeless(self) -> None:
        nodes = self._asked(self._ray.nodes)
        for one in self.open_ones():
            if one.where or fitting(nodes, one.order.needs):
                one.homeless_since = None
                continue
            one.homeless_since = one.homeless_since or time.monotonic()
            if time.monotonic() > one.homeless_since + self._dispatch.no_node_s:
                one.over, self.failed[one.order.work.name] = True, "no node is left that could hold it"
                self.cancel([one])


def _short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no word'}"[:400]
