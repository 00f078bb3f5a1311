"""How long does a recommendation take over HTTP, and how much of that is more than reading the request?

    python benchmarks/bench_service.py [--requests 200]

Starts `specworth serve` (one worker) on a free loopback port and posts a body of 20 prompts, every applicable method
compared, with 1 and with 4 clients at once; then the same to the endpoint that only validates the body; and both once
more for a service that keeps nothing. Each client keeps one connection and sends its next request when the answer is
there. Answers are kept in a database of the benchmark's own, in the folder of temporary files: each waits for its
commit to reach that disk. One line of JSON: p50 and p99 in ms, and the ratio of the p50s. Clients and server share the
machine. Targets on 2 cores: p50 under 30 ms with 1 client, under 120 ms with 4, answers kept.
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
import time
from collections.abc import Iterator
from pathlib import Path

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
    times = []
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
    """p50 and p99 over all clients' requests."""
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        runs = [pool.submit(client, port, path, content, requests // clients) for _ in range(clients)]
        times = sorted(ms for run in runs for ms in run.result())
    return {"p50_ms": round(statistics.median(times), 2), "p99_ms": round(times[int(0.99 * (len(times) - 1))], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    requests = parser.parse_args().requests
    content = body()
    result: dict[str, object] = {"benchmark": "service", "prompts": PROMPTS, "body_bytes": len(content),
                                 "requests": requests, "cores": os.cpu_count()}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, options in (("kept", ()), ("not_kept", ("--no-store",))):
            with serving(folder, *options) as port:
                result["answer_bytes"] = answer_bytes(port, content)
                result[name] = {
                    f"clients_{clients}": figures_of(port, content, clients=clients, requests=requests)
                    for clients in (1, 4)
                }
    result["targets_p50_ms"] = {"clients_1": 30, "clients_4": 120}
    print(json.dumps(result))


def figures_of(port: int, content: bytes, *, clients: int, requests: int) -> dict[str, object]:
    """Both endpoints, and how many times as long the recommendation takes."""
    figures = {}
    for name, path in PATHS.items():
        client(port, path, content, 10)  # warm
        figures[name] = measure(port, path, content, clients=clients, requests=requests)
    return figures | {"ratio_p50": round(figures["recommend"]["p50_ms"] / figures["validate"]["p50_ms"], 1)}


@contextlib.contextmanager
def serving(folder: str, *options: str) -> Iterator[int]:
    """The service on a free port, which it gives."""
    with subprocess.Popen(
        [SCRIPT, "serve", "--port", "0", *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"XDG_DATA_HOME": folder},
    ) as server:  # fmt: skip
        try:
            assert server.stderr is not None
            yield next(int(m[1]) for line in server.stderr if (m := re.search(r"running on http://[^:]+:(\d+)", line)))
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=20)


def answer_bytes(port: int, content: bytes) -> int:
    """Size of one answer, so that a figure is never of an empty one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", PATHS["recommend"], content, {"content-type": "application/json"})
    return len(connection.getresponse().read())


if __name__ == "__main__":
    main()
