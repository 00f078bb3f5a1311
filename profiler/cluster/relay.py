"""One command on a Ray cluster, told line by line: `python -m profiler.cluster.relay --ray-address ... < work.json`

For a caller that must outlive the cluster: Ray ends a process whose cluster is gone. The work comes as JSON, what it
tells goes out as JSON, one line each: where it began, new lines of its files, that it begins anew because a node was
lost, and its exit code. A command that was lost is begun from its start: half of what it did is nobody's.

The nodes' own Python must have what the command needs; nothing of ours travels.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profiler.cluster.connection import connected, read_address
from profiler.cluster.dispatch import Dispatch, Order, carry_out_all
from profiler.cluster.nodes import Needs, check_cluster
from profiler.cluster.task import News, Work
from profiler.cluster.words import ENDED, Words, own_words
from profiler.errors import InputError, SpecworthError
from profiler.serving.interruption import Interrupted, interruptible


def work_text(work: Work, needs: Needs) -> str:
    """What `main` reads."""
    return json.dumps({"work": asdict(work), "needs": asdict(needs)})


def relay(work: Work, needs: Needs, address: str, words: Words) -> str | None:
    """Run it, and say what it tells; why it did not end in order.

    Raises:
        ClusterError: the cluster cannot be used, or cannot hold it.
    """

    def say(**told: Any) -> None:  # noqa: ANN401 - what JSON takes
        words.tell(json.dumps(told))

    def listen(_: str, news: News) -> None:
        if news.kind == "began":
            say(kind="began", node=news.name)
        elif news.kind == "lines":
            say(kind="lines", name=news.name, lines=news.lines)
        elif news.kind == "ended":
            say(kind="ended", exit_code=news.exit_code)

    with connected(address, give_up=words.give_up, bring_source=False) as ray, interruptible():
        words.joined()
        check_cluster(ray.nodes(), {work.name: needs})
        dispatch = Dispatch(listen=listen, renew=lambda _: work, tell=lambda text: say(kind="again", text=text))
        return carry_out_all(ray, [Order(work, needs)], dispatch).get(work.name)


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, and tell an error in one line; 0, 1 where it did not end in order, 2 for a cluster that cannot do."""
    parser = argparse.ArgumentParser(prog="python -m profiler.cluster.relay", description=__doc__)
    parser.add_argument(
        "--ray-address", help="HOST:PORT of the cluster's head; RAY_ADDRESS or this host's if not given"
    )
    parser.add_argument("--scratch", type=Path, help="folder for what Ray writes, and for how far this came")
    given = parser.parse_args(arguments)
    asked = json.load(sys.stdin)
    lists: dict[str, Any] = {name: tuple(asked["work"].pop(name)) for name in ("command", "told", "kept")}
    work = Work(**asked["work"], **lists)
    code, last = 0, None
    try:
        with interruptible(), own_words(given.scratch) as words:
            last = relay(work, Needs(**asked["needs"]), read_address(given.ray_address), words)
            code = 0 if last is None else 1
    except KeyboardInterrupt as stop:  # Ray, where it waits, makes a plain one of an Interrupted
        code = stop.exit_code if isinstance(stop, Interrupted) else 128 + signal.SIGINT
    except SpecworthError as error:
        code, last = 2 if isinstance(error, InputError) else 1, error.line()
    if last is not None:
        print(last, file=sys.stderr, flush=True)
    if given.scratch is not None:
        (given.scratch / ENDED).touch()
    return code


if __name__ == "__main__":
    sys.exit(main())
