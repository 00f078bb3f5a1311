"""The service as a process of its own, to be killed; and a client that notes what was acknowledged."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx

from api.examples import REQUEST_EXAMPLES

PATH = "/v1/recommendations"
BODY = json.dumps(REQUEST_EXAMPLES["one_method"]["value"]).encode()
JSON = {"content-type": "application/json"}


@contextlib.contextmanager
def service(folder: Path, *arguments: str, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """`specworth serve` on a free port: its process, its URL, and the lines that it logs; killed at the end."""
    script = Path(sys.executable).with_name("specworth")
    given = {f"SPECWORTH_{name.upper()}": value for name, value in settings.items()}
    environment = os.environ | {"XDG_DATA_HOME": str(folder)} | given
    lines: list[str] = []
    with subprocess.Popen(
        [script, "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        cwd=folder,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line)
                if found := re.search(r"running on (http://[\w.:\[\]]+)", line):
                    break
            else:
                raise AssertionError("".join(lines))
            reader = threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True)
            reader.start()
            yield process, found[1], lines
        finally:
            process.kill()
            process.wait()


@dataclass
class Busy:
    """Clients of a service that work without a pause for the length of a `with` block; `work` is one of them."""

    url: str
    count: int = 4
    refused: list[httpx.Response] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self.work) for _ in range(self.count)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """No new requests; those under way are waited for."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive()

    def work(self) -> None:
        """Until `_stop` is set."""
        raise NotImplementedError


@dataclass
class Clients(Busy):
    """They post, and keep what they were told."""

    acknowledged: list[str] = field(default_factory=list)

    def work(self) -> None:
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False) as client:
            while not self._stop.is_set():
                try:
                    answer = client.post(PATH, content=BODY, headers=JSON)
                    text = answer.json() if answer.status_code == 200 else None
                except (httpx.HTTPError, ValueError):
                    continue  # no answer, or half of one: nothing was acknowledged
                if text is None:
                    self.refused.append(answer)
                else:
                    self.acknowledged.append(text["id"])
