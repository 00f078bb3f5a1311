"""A sweep on a Ray cluster: `python -m profiler.cluster.sweep GRID.yaml --out DIR --ray-address HOST:PORT`

Each engine is one task that runs `python -m profiler.sweep` (or `.served`) on the node that Ray gives it. Rows come
while it measures and are appended here as a sweep on this host would; where a node is lost, the cells that have not
arrived are measured on another. rows.jsonl, engines.jsonl (with the node's name) and the logs are
those of a sweep alone, so either can go on where the other stopped.

Refused before anything starts: what `connection` and `nodes` refuse, and nodes on which --python has no vLLM. Ray ends
a process whose cluster is gone, without a word: `specworth sweep`, which runs this, then says what is kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from profiler.cluster.connection import ClusterError, ClusterLostError, connected, read_address
from profiler.cluster.dispatch import NO_NODE_S, Dispatch, Order, carry_out_all, check_interpreter
from profiler.cluster.nodes import Needs, check_cluster, fitting, gpus_of
from profiler.cluster.task import INTERPRETER, OUTPUT, SECONDS_LEFT, News, Work
from profiler.cluster.words import ENDED, Words, own_words
from profiler.errors import InputError, SpecworthError
from profiler.serving.interruption import Interrupted, interruptible
from profiler.sweep.grid import EngineSpec, Grid, Point, only_engines, read_grid
from profiler.sweep.rows import append_row, is_done, read_rows
from profiler.sweep.served import served_key
from profiler.sweep.session import Swept, make_folder, refuse_measured, tell_stopped

CPUS = 2  # an engine is two busy processes: its core, and the one that asks
_ROWS, _ENGINES, _LOGS = "rows.jsonl", "engines.jsonl", "engine_logs.gz"


@dataclass(frozen=True, slots=True)
class ClusterSweepOptions:
    """How a sweep on a cluster is run; `gpus` and `cpus` are of one engine, which waits `no_node_s` for a node."""

    out: Path
    address: str
    python: str | None = None
    time_limit_s: float | None = None
    resume: bool = False
    served: bool = False
    seed: int = 0
    gpus: int | None = None
    cpus: int = CPUS
    accelerator: str | None = None
    no_node_s: float = NO_NODE_S
    words: Words = field(default_factory=Words)

    def needs(self, spec: EngineSpec) -> Needs:
        """What an engine asks of a node."""
        return Needs(gpus_of(spec.settings) if self.gpus is None else self.gpus, self.cpus, self.accelerator)


class Gathering:
    """What has arrived, and what is left to measure."""

    def __init__(self, grid: Grid, options: ClusterSweepOptions, *, until: float | None) -> None:
        self._grid, self._options, self._until = grid, options, until
        self._specs = {spec.name: spec for spec in grid.engines}
        self._done = {row["key"] for row in read_rows([options.out / _ROWS]) if is_done(row)}
        self._arrived: set[str] = set()
        self._where: dict[str, str] = {}
        self._logs: dict[str, list[bytes]] = {}
        self.cells: dict[str, int] = dict.fromkeys(self._specs, 0)

    def left(self, name: str) -> tuple[Point, ...]:
        """Points of an engine without a row."""
        spec = self._specs[name]
        return tuple(p for p in spec.points if _key(spec, p, self._options) not in self._done | self._arrived)

    def work(self, name: str) -> Work | None:
        """The task that measures them."""
        points = self.left(name)
        if not points:
            return None
        module = "profiler.sweep.served" if self._options.served else "profiler.sweep"
        python = self._options.python or INTERPRETER
        command = [python, "-m", module, "grid.yaml", "--out", "out", "--seed", str(self._options.seed)]
        if self._options.served:
            command += ["--python", python]
        if self._until is not None:
            command += ["--time-limit", SECONDS_LEFT]
        revision = _revision()
        return Work(
            name=name, command=tuple(command), files=grid_files(self._grid, self._specs[name], points),
            told=(f"out/{_ROWS}", f"out/{_ENGINES}"), until=self._until,
            kept=(f"out/{name}.log" if self._options.served else f"out/{_LOGS}",),
            environment={} if revision is None else {"SPECWORTH_REVISION": revision},
        )  # fmt: skip

    def listen(self, name: str, news: News) -> None:
        """Keep rows as they come. Raises RowsError where that cannot be done."""
        out = self._options.out
        if news.kind == "began":
            self._where[name], self._logs[name] = news.name, []
            self._options.words.tell(f"{name}: on {news.name}")
        elif news.kind == "file":
            self._logs[name].append(news.piece)
        elif news.kind == "ended":
            self._keep_log(name)
            if news.exit_code and not self.cells[name]:
                self._options.words.tell(f"{name}: no cell, exit code {news.exit_code}")
        elif news.name == OUTPUT:
            for line in news.lines:
                self._options.words.tell(f"[{name}] {line.strip()}")
        else:
            for row in filter(None, map(_parsed, news.lines)):
                if news.name.endswith(_ENGINES):
                    append_row(out / _ENGINES, row | {"node": self._where[name]})
                elif row.get("key") not in self._arrived:
                    append_row(out / _ROWS, row)
                    self._arrived.add(row["key"])
                    self.cells[name] += 1

    def _keep_log(self, name: str) -> None:
        told = b"".join(self._logs.pop(name, []))
        try:
            if self._options.served:
                (self._options.out / f"{name}.log").write_bytes(told)
            elif told:
                gzip.decompress(told)  # a broken one would hide those after it
                with (self._options.out / _LOGS).open("ab") as file:
                    file.write(told)
        except (OSError, EOFError) as error:
            self._options.words.tell(f"the log of {name} is not kept: {error}")


def run_cluster_sweep(grid: Grid, options: ClusterSweepOptions) -> Swept:
    """Measure what of `grid` is not yet measured.

    Raises:
        GridError: rows are there, and resuming was not asked for.
        ClusterError: the cluster cannot be used, or cannot hold an engine.
        RowsError: rows cannot be written.
    """
    words = options.words
    began, until = time.monotonic(), None if options.time_limit_s is None else time.time() + options.time_limit_s
    refuse_measured(options.out / _ROWS, resume=options.resume)
    gathering = Gathering(grid, options, until=until)
    specs = [spec for spec in grid.engines if gathering.left(spec.name)]
    if not specs:
        words.tell(f"nothing is left to measure: {sum(len(e.points) for e in grid.engines)} cells are there")
        return Swept(0, 0)
    with connected(options.address, give_up=words.give_up) as ray, interruptible():
        words.joined()
        needed = {spec.name: options.needs(spec) for spec in specs}
        nodes = ray.nodes()
        check_cluster(nodes, needed)
        able = {node["NodeID"]: node for needs in set(needed.values()) for node in fitting(nodes, needs)}
        _check_interpreter(ray, list(able.values()), options.python)
        make_folder(options.out)
        cells = sum(len(gathering.left(spec.name)) for spec in specs)
        words.tell(f"{cells} cells left, of {len(specs)} engines, on {len(able)} nodes")
        orders = [Order(work, needed[s.name]) for s in specs if (work := gathering.work(s.name)) is not None]
        dispatch = Dispatch(
            listen=gathering.listen, renew=gathering.work, tell=words.tell, until=until, no_node_s=options.no_node_s
        )
        try:
            failed = carry_out_all(ray, orders, dispatch)
        except ClusterLostError as error:
            kept = f"{sum(gathering.cells.values())} new cells, which {options.out / _ROWS} holds"
            raise ClusterLostError(error.what, got=kept, remedy=f"{error.remedy}, then go on with --resume") from error
        for name, why in failed.items():
            words.tell(f"{name} failed: {why}")
            append_row(options.out / _ENGINES, {"engine": name, "error": why})
    measured = sum(gathering.cells.values())
    words.tell(f"{measured} cells in {time.monotonic() - began:.0f} s")
    left = sum(len(gathering.left(name)) for name in failed)
    if left:
        words.tell(f"{left} cells are left: go on with --resume")
    return Swept(measured, sum(not gathering.cells[spec.name] for spec in specs))


def grid_files(grid: Grid, spec: EngineSpec, points: tuple[Point, ...]) -> dict[str, str]:
    """A grid file of these points of one engine, and the shapes that it names."""
    entry = spec.model_dump(mode="json", exclude={"points", "priority"}, exclude_defaults=True)
    named = {spec.target, spec.speculation.draft if spec.speculation else None}
    text = {
        "shapes": "shapes.yaml",
        "traffic": {"left": [point.model_dump(mode="json") for point in points]},
        "engines": [entry | {"traffic": ["left"]}],
    }
    shapes = {name: shape for name, shape in grid.shapes.items() if name in named}
    return {"grid.yaml": yaml.safe_dump(text), "shapes.yaml": yaml.safe_dump(shapes)}


def _key(spec: EngineSpec, point: Point, options: ClusterSweepOptions) -> str:
    return served_key(spec, point) if options.served else spec.key(point)


def _check_interpreter(ray: ModuleType, nodes: list[Any], python: str | None) -> None:
    without = check_interpreter(ray, nodes, python)
    if without:
        node, why = next(iter(without.items()))
        raise ClusterError(
            f"--python: vLLM cannot be run on {len(without)} of {len(nodes)} nodes",
            expected="an interpreter that has vLLM, at the same path on every node that can hold an engine",
            got=f"{node}: {why}",
        )


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except json.JSONDecodeError:  # cut short where the engine was killed
        return None
    return row if isinstance(row, dict) else None


def _revision() -> str | None:
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=Path(__file__).parent)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, and tell an error in one line; 0, 1 where no engine could be measured, 2 for wrong input."""
    parser = argparse.ArgumentParser(prog="python -m profiler.cluster.sweep", description=__doc__)
    parser.add_argument("grid", type=Path, help="engines x traffic, see data/grids")
    parser.add_argument("--out", type=Path, required=True, help="folder for rows.jsonl, engines.jsonl and the logs")
    parser.add_argument(
        "--ray-address", help="HOST:PORT of the cluster's head; RAY_ADDRESS or this host's if not given"
    )
    parser.add_argument("--ray-gpus", type=int, help="GPUs of one engine; from the grid if not given")
    parser.add_argument("--ray-cpus", type=int, default=CPUS, help="CPU cores of one engine")
    parser.add_argument("--ray-accelerator", help="Ray's name of the kind of GPU to measure on")
    parser.add_argument("--python", help="interpreter that has vLLM, on every node; Ray's own if not given")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="end cleanly before this has passed")
    parser.add_argument("--resume", action="store_true", help="go on in --out where an earlier sweep stopped")
    parser.add_argument("--only", nargs="*", metavar="ENGINE", help="these engines of the grid alone")
    parser.add_argument("--served", action="store_true", help="measure `vllm serve` over HTTP")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-node", type=float, default=NO_NODE_S, metavar="SECONDS", help="wait so long for a node")
    parser.add_argument("--scratch", type=Path, help="folder for what Ray writes, and for how far this came")
    given = parser.parse_args(arguments)
    code, last = 1, None
    try:
        grid = only_engines(read_grid(given.grid), given.only)
        with interruptible(), own_words(given.scratch) as words:
            swept = run_cluster_sweep(grid, ClusterSweepOptions(
                out=given.out, address=read_address(given.ray_address), python=given.python, resume=given.resume,
                time_limit_s=given.time_limit, served=given.served, seed=given.seed, gpus=given.ray_gpus,
                cpus=given.ray_cpus, accelerator=given.ray_accelerator, no_node_s=given.no_node, words=words,
            ))  # fmt: skip
        code = 0 if swept.cells or not swept.failed_engines else 1
    except KeyboardInterrupt as stop:  # Ray, where it waits, makes a plain one of an Interrupted
        code = tell_stopped(stop if isinstance(stop, Interrupted) else Interrupted(signal.SIGINT), given.out / _ROWS)
    except SpecworthError as error:
        code, last = 2 if isinstance(error, InputError) else 1, error.line()
    if last is not None:
        print(last, file=sys.stderr)
    if given.scratch is not None:
        (given.scratch / ENDED).touch()
    return code


if __name__ == "__main__":
    sys.exit(main())
