"""Does the service's memory stay flat under load for minutes?

    python benchmarks/soak.py [--minutes 10] [--processes 1] [--clients 2] [--seed 0]        # also: make soak

Starts `specworth serve` on a database of its own and sends, without a pause, what clients of all kinds send: drawn
prompts and loads, with and without labels, kept prompts and Idempotency-Keys (some sent twice), bodies that only
validate, bodies that are refused, lists, single records, changes, comparisons, deletions, /metrics. Every second it
reads the resident memory, open files and threads of the service's processes.

One line of JSON: requests, failures (any 5xx, and any answer that should have been another), requests a second and p99;
resident memory after the warm-up (the first fifth), at the end, and its slope in MiB an hour by least squares with its
standard error, which takes the samples' correlation into account; files and threads; what is in the database. `flat`
says that over the time measured it grew by less than 3% of itself. Exits with 1 where it did not, or a request failed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import math
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_service import EXAMPLE, PATHS, serving

_EVERY_S = 1.0
_WARM_UP = 0.2  # of the time
_FLAT = 0.03  # of the memory after the warm-up
_KEPT = 200  # records that a client knows at most; older ones are deleted
JSON = {"content-type": "application/json"}
ASK = PATHS["recommend"]
TARGETS = (("meta-llama/Llama-3.1-8B-Instruct", "H200"), ("Qwen/Qwen3-8B", "H100 SXM"), ("Qwen/Qwen3-4B", "L40S"))


class Client:
    """One client that does something different each time."""

    def __init__(self, port: int, seed: int, prompts: list[Any]) -> None:
        self._random = random.Random(seed)
        self._port, self._prompts = port, prompts
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._known: list[str] = []
        self._repeatable: tuple[bytes, str, bytes] | None = None
        self.times_ms: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self, until: float) -> None:
        """Until the time is up."""
        acts = [self.ask] * 10 + [self.again, self.validate, self.refused, self.listed, self.one, self.change,
                                  self.compare, self.metrics, self.unknown]  # fmt: skip
        while time.monotonic() < until:
            self._random.choice(acts)()
            if len(self._known) > _KEPT:
                self.send("DELETE", f"{ASK}/{self._known.pop(0)}", expected=204)

    def body(self) -> dict[str, Any]:
        draw = self._random
        target, gpu = draw.choice(TARGETS)
        body: dict[str, Any] = {
            "prompts": draw.sample(self._prompts, draw.randint(1, 40)),
            "deployment": {"target": target, "gpu": gpu},
            "traffic": {"concurrency": draw.choice([1, 2, 4, 8, 16, 32, 64]), "temperature": draw.choice([0.0, 0.7])},
        }
        if draw.random() < 0.3:
            body |= {"labels": [f"label-{draw.randint(0, 20)}"], "note": "x" * draw.randint(0, 200)}
        return body | ({"store_prompts": True} if draw.random() < 0.2 else {})

    def ask(self) -> None:
        content = json.dumps(self.body()).encode()
        key = uuid.UUID(int=self._random.getrandbits(128)).hex if self._random.random() < 0.2 else None
        answer = self.send("POST", ASK, content, {"Idempotency-Key": key} if key else {}, expected=200)
        with contextlib.suppress(ValueError, KeyError):
            self._known.append(json.loads(answer)["id"])
            if key is not None:
                self._repeatable = (content, key, answer)

    def again(self) -> None:
        if self._repeatable is None:
            return
        content, key, before = self._repeatable
        if json.loads(before)["id"] in self._known and self.send(
            "POST", ASK, content, {"Idempotency-Key": key}, expected=200
        ) != before:  # fmt: skip
            self.failures.append("a repeated request got another answer")

    def validate(self) -> None:
        self.send("POST", PATHS["validate"], json.dumps(self.body()).encode(), expected=200)

    def refused(self) -> None:
        bodies = [b"{", b"[]", b'{"a":' * 200, json.dumps(self.body() | {"prompts": []}).encode()]
        self.send("POST", ASK, self._random.choice(bodies), expected=(400, 422))

    def listed(self) -> None:
        query = self._random.choice(["", "?verdict=enable", "?label=label-3", "?limit=200"])
        self.send("GET", ASK + query, expected=200)

    def one(self) -> None:
        if self._known:
            self.send("GET", f"{ASK}/{self._random.choice(self._known)}", expected=200)

    def change(self) -> None:
        if self._known:
            key = self._random.choice(self._known)
            self.send("PATCH", f"{ASK}/{key}", json.dumps({"labels": ["a", "b"]}).encode(), expected=200)

    def compare(self) -> None:
        if len(self._known) > 1:
            one, other = self._random.sample(self._known, 2)
            self.send("GET", f"{ASK}/{one}/diff/{other}", expected=200)

    def metrics(self) -> None:
        self.send("GET", "/metrics", expected=200)

    def unknown(self) -> None:
        self.send("GET", f"{ASK}/{uuid.UUID(int=self._random.getrandbits(128)).hex}", expected=404)

    def send(
        self, method: str, path: str, content: bytes | None = None, headers: Mapping[str, str] | None = None, *,
        expected: int | tuple[int, ...],
    ) -> bytes:  # fmt: skip
        """One request; anything but the expected status is put down as a failure."""
        wanted = (expected,) if isinstance(expected, int) else expected
        start = time.perf_counter()
        try:
            self._connection.request(
                method, path, content, JSON | dict(headers or {}) if content else dict(headers or {})
            )
            answer = self._connection.getresponse()
            told, status = answer.read(), answer.status
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self.failures.append(f"{method} {path.partition('?')[0][:40]}: {type(error).__name__}")
            return b""
        if method == "POST" and status == 200 and path == ASK:
            self.times_ms.append((time.perf_counter() - start) * 1000)
        self.statuses[str(status)] += 1
        if status not in wanted:
            self.failures.append(f"{method} {path[:40]}: {status} {told[:200]!r}")
        return told


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += [int(word) for word in (task / "children").read_text().split()]
    return found


def looked_at(pid: int) -> dict[str, int]:
    """Resident bytes, open files and threads of a family of processes."""
    total = {"rss_bytes": 0, "files": 0, "threads": 0}
    for one in family(pid):
        with contextlib.suppress(OSError):
            total["rss_bytes"] += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            total["files"] += len(list(Path(f"/proc/{one}/fd").iterdir()))
            total["threads"] += len(list(Path(f"/proc/{one}/task").iterdir()))
    return total


def slope(times: list[float], values: list[float]) -> tuple[float, float]:
    """Least squares' slope, and its standard error with the residuals' first autocorrelation (an AR(1) correction)."""
    n, mean_t, mean_v = len(times), statistics.fmean(times), statistics.fmean(values)
    spread = sum((t - mean_t) ** 2 for t in times)
    found = sum((t - mean_t) * (v - mean_v) for t, v in zip(times, values, strict=True)) / spread
    left = [v - mean_v - found * (t - mean_t) for t, v in zip(times, values, strict=True)]
    variance = sum(one**2 for one in left) / (n - 2)
    if variance == 0:
        return found, 0.0
    follow = sum(a * b for a, b in itertools.pairwise(left)) / sum(one**2 for one in left)
    follow = min(max(follow, 0.0), 0.99)
    return found, math.sqrt(variance / spread * (1 + follow) / (1 - follow))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    prompts = [json.loads(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines()]
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(folder, "--processes", str(options.processes)) as (port, pid),
    ):
        clients = [Client(port, options.seed + n, prompts) for n in range(options.clients)]
        began = time.monotonic()
        until = began + 60 * options.minutes
        threads = [threading.Thread(target=one.run, args=(until,)) for one in clients]
        for thread in threads:
            thread.start()
        samples = []
        while any(thread.is_alive() for thread in threads):
            samples.append((time.monotonic() - began, looked_at(pid)))
            time.sleep(_EVERY_S)
        seconds = time.monotonic() - began
        stored = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    result = told(samples, clients, seconds) | {"database_bytes": stored}
    print(json.dumps({"benchmark": "soak", **vars(options), "cores": os.cpu_count(), **result}))
    return 0 if result["flat"] and not result["failures"] else 1


def told(samples: list[tuple[float, dict[str, int]]], clients: list[Client], seconds: float) -> dict[str, Any]:
    """The figures of a run."""
    measured = [one for one in samples if one[0] >= _WARM_UP * seconds]
    at, rss = [one[0] for one in measured], [one[1]["rss_bytes"] / 2**20 for one in measured]
    per_s, error = slope(at, rss)
    tenth = max(1, len(rss) // 10)
    first, last = statistics.fmean(rss[:tenth]), statistics.fmean(rss[-tenth:])
    times = sorted(ms for one in clients for ms in one.times_ms)
    statuses = sum((one.statuses for one in clients), Counter())
    failures = [failure for one in clients for failure in one.failures]
    ends = {name: [measured[0][1][name], measured[-1][1][name]] for name in ("files", "threads")}
    return {
        "seconds": round(seconds), "requests": statuses.total(), "requests_per_s": round(statuses.total() / seconds, 1),
        "statuses": dict(statuses), "recommendations": len(times),
        "p50_ms": round(statistics.median(times), 1), "p99_ms": round(times[int(0.99 * (len(times) - 1))], 1),
        "failures": len(failures), "first_failures": failures[:3],
        "rss_mib_start": round(samples[0][1]["rss_bytes"] / 2**20, 1), "rss_mib_warm": round(first, 1),
        "rss_mib_end": round(last, 1), "rss_mib_most": round(max(rss), 1),
        "rss_slope_mib_per_h": round(per_s * 3600, 2), "rss_slope_error_mib_per_h": round(error * 3600, 2),
        "growth": round(per_s * (at[-1] - at[0]) / first, 4), "flat": per_s * (at[-1] - at[0]) < _FLAT * first,
        **ends,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
