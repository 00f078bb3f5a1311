"""How long does a recommendation take over HTTP, how many a second, and how much of that is more than reading it?

    python benchmarks/bench_service.py [--requests 200]

Starts `specworth serve` on a free loopback port and posts a body of 20 prompts, every applicable method compared, with
1 and with 4 clients at once; then the same to the endpoint that only validates the body, which is the floor of the same
run. For one process with answers kept, for one that keeps nothing, and for two processes with answers kept. Each client
keeps one connection and sends its next request when the answer is there. Answers are kept in a database of the
benchmark's own, in the folder of temporary files: each waits for its commit to reach that disk.

One line of JSON: requests a second, p50 and p99 in ms; beside each pair how many times the floor's p50 the
recommendation takes (`ratio_p50`) and which share of the floor's requests a second it reaches (`ratio_per_s`);
`two_processes` is how many times the requests a second of one process two reach with 4 clients. Clients and server
share the machine. Targets on 2 cores: p50 under 30 ms with 1 client, under 120 ms with 4, answers kept.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[1] / "data" / "example_prompts.jsonl"
SCRIPT = Path(sys.executable).with_name("specworth")
PROMPTS = 20
PATHS = {"recommend": "/v1/recommendations", "validate": "/v1/recommendations:validate"}


def body() -> bytes:
    """Twenty prompts of all kinds in the example sample, and no method named: all are compared."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    request = {
        "prompts": [json.loads(line) for line in lines[:: len(lines) // PROMPTS][:PROMPTS]],
        "deployment": {"target": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H200"},
        "traffic": {"concurrency": 16},
    }
    assert len(request["prompts"]) == PROMPTS
    return json.dumps(request).encode()


def client(port: int, path: str, content: bytes, requests: int) -> list[float]:
    """Latencies in ms of one client's requests, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    times: list[float] = []
    for _ in range(requests):
        start = time.perf_counter()
        connection.request("POST", path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        times.append((time.perf_counter() - start) * 1000)
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {text.decode(errors='replace')[:500]}")
    connection.close()
    return times


def measure(port: int, path: str, content: bytes, *, clients: int, requests: int) -> dict[str, float]:
    """Requests a second, and p50 and p99 over all clients' requests."""
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        runs = [pool.submit(client, port, path, content, requests // clients) for _ in range(clients)]
        times = sorted(ms for run in runs for ms in run.result())
    seconds = time.perf_counter() - began
    return {
        "requests_per_s": round(len(times) / seconds, 1), "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(times[int(0.99 * (len(times) - 1))], 2),
    }  # fmt: skip


Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    requests = parser.parse_args().requests
    content = body()
    result: Figures = {"benchmark": "service", "prompts": PROMPTS, "body_bytes": len(content),
                       "requests": requests, "cores": os.cpu_count()}  # fmt: skip
    runs = {"kept": (), "not_kept": ("--no-store",), "kept_2_processes": ("--processes", "2")}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in runs.items():
            with serving(folder, *options) as (port, _):
                result["answer_bytes"] = answer_bytes(port, content)
                result[name] = {
                    f"clients_{clients}": figures_of(port, content, clients=clients, requests=requests)
                    for clients in (1, 4)
                }
    one, two = (result[name]["clients_4"] for name in ("kept", "kept_2_processes"))
    result["two_processes"] = {
        name: round(two[name]["requests_per_s"] / one[name]["requests_per_s"], 2) for name in PATHS
    }
    result["targets_p50_ms"] = {"clients_1": 30, "clients_4": 120}
    print(json.dumps(result))


def figures_of(port: int, content: bytes, *, clients: int, requests: int) -> Figures:
    """Both endpoints, and how many times as long the recommendation takes."""
    figures: Figures = {}
    for name, path in PATHS.items():
        for _ in range(4):
            client(port, path, content, 5)  # warm, over several connections: either process may get one
        figures[name] = measure(port, path, content, clients=clients, requests=requests)
    asked, floor = figures["recommend"], figures["validate"]
    return figures | {
        "ratio_p50": round(asked["p50_ms"] / floor["p50_ms"], 1),
        "ratio_per_s": round(asked["requests_per_s"] / floor["requests_per_s"], 3),
    }


@contextlib.contextmanager
def serving(folder: str, *options: str) -> Iterator[tuple[int, int]]:
    """The service on a free port: that, and the id of its first process."""
    with subprocess.Popen(
        [SCRIPT, "serve", "--port", "0", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"XDG_DATA_HOME": folder},
    ) as server:  # fmt: skip
        try:
            assert server.stderr is not None
            port = next(int(m[1]) for line in server.stderr if (m := re.search(r"running on http://[^:]+:(\d+)", line)))
            threading.Thread(target=server.stderr.read, daemon=True).start()  # so that it never waits for a reader
            wait_for(port)
            yield port, server.pid
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=20)


def wait_for(port: int) -> None:
    """Until it answers: the first of several processes listens a moment after their parent says where they do."""
    until = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        if time.monotonic() > until:
            raise SystemExit("the service does not answer")
        time.sleep(0.05)


def answer_bytes(port: int, content: bytes) -> int:
    """Size of one answer, so that a figure is never of an empty one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", PATHS["recommend"], content, {"content-type": "application/json"})
    return len(connection.getresponse().read())


if __name__ == "__main__":
    main()
