"""The stand-in as a process of its own, called as `vllm serve` is: what launches, signals and faults need.

    python tests/fake_serve.py MODEL --host H --port P [--speculative-config JSON] [--knobs JSON]

Knobs under "baseline" or "speculative" are for that arm alone. `--knobs '{"start": "oom"}'` dies at start as vLLM does,
"never" does not become ready; "child" starts a process in the same group that outlives an ending of the server alone.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fake_vllm import Knobs, fake_vllm

OUT_OF_MEMORY = (
    "(EngineCore pid=9) ERROR 11-30 14:59:01 [core.py:842] torch.OutOfMemoryError: CUDA out of memory. Tried to "
    "allocate 2.00 GiB."
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--speculative-config", type=json.loads)
    parser.add_argument("--api-key", default=os.environ.get("VLLM_API_KEY"))
    parser.add_argument("--knobs", type=json.loads, default={})
    asked, _ = parser.parse_known_args()
    arm = "speculative" if asked.speculative_config else "baseline"
    wanted = {k: v for k, v in asked.knobs.items() if k not in ("baseline", "speculative")} | asked.knobs.get(arm, {})
    start = wanted.pop("start", None)
    if start == "oom":
        print(OUT_OF_MEMORY, flush=True)
        sys.exit(1)
    if start == "never":
        time.sleep(600)
    if wanted.pop("child", False):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    wanted.setdefault("api_key", asked.api_key)
    if asked.speculative_config:
        wanted.setdefault("num_speculative_tokens", asked.speculative_config["num_speculative_tokens"])
    with fake_vllm(Knobs(model=asked.model, **wanted), host=asked.host, port=asked.port):
        time.sleep(600)


if __name__ == "__main__":
    main()
