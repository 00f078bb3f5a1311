"""How fast, and in how much memory, a large log of chat requests is read; prints one line of JSON.

    python benchmarks/bench_prompts.py [MEGABYTES]     (default 100; 1000 is a million requests)

The file is generated here: chat bodies of about 1 KB with settings, some with image parts or a response
format, one line in two thousand cut.
Memory is measured in a process of its own, since the generator's would count otherwise.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = re.findall(
    r"\w+",
    "the a of and to in water market number function return table select river engine token value daily "
    "report window summary garden compute invoice total currency depot weight median lighthouse "
    "umbrella letter statue barley oat harbour",
)


def write_log(path: Path, megabytes: float) -> int:
    """A JSON lines file of this size; the number of its records."""
    random_words = random.Random(0)
    bodies = []
    for index in range(2000):
        text = " ".join(random_words.choices(WORDS, k=random_words.randrange(60, 240)))
        content: object = (
            text if index % 9 else [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "x"}}]
        )
        body: dict[str, object] = {
            "model": "m",
            "messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": content}],
            "max_tokens": 256,
            "temperature": 0.7,
        }
        if index % 5 == 0:
            body["response_format"] = {"type": "json_object"}
        bodies.append(json.dumps(body, ensure_ascii=False))
    bodies[7] = bodies[7][:-20]  # one line in two thousand is cut
    records, size = 0, 0
    with path.open("w", encoding="utf-8") as file:
        while size < megabytes * 1e6:
            line = bodies[records % len(bodies)].replace("terse", f"terse {records}", 1) + "\n"
            file.write(line)
            size += len(line)
            records += 1
    return records


def read_log(path: str) -> dict[str, float]:
    """Seconds and peak memory of one reading; run in a process of its own."""
    from profiler.prompts import read_prompts

    started, worked = time.perf_counter(), time.process_time()
    sample = read_prompts(path)
    seconds = time.perf_counter() - started
    processor_seconds = time.process_time() - worked  # what it takes where no other program shares the core
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    return {
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "peak_memory_bytes": peak,
        "records": sample.records,
        "usable": sample.usable,
    }


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--read":
        print(json.dumps(read_log(sys.argv[2])))
        return
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.jsonl"
        records = write_log(path, megabytes)
        size = path.stat().st_size
        run = subprocess.run(
            [sys.executable, __file__, "--read", str(path)], capture_output=True, text=True, check=True,
            cwd=Path(__file__).resolve().parent.parent, env={"PYTHONPATH": "."},
        )  # fmt: skip
        result = json.loads(run.stdout)
    assert result["records"] == records
    rate = size / 1e6 / result["seconds"]
    print(
        json.dumps(
            {
                "benchmark": "read_prompts",
                "file_bytes": size,
                "megabytes_per_s": round(rate, 1),
                "seconds_per_gigabyte": round(1000 / rate, 1),
                **{key: round(value, 3) for key, value in result.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
