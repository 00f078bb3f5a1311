"""Called as an interpreter that has vLLM would be: the real sweep, with an engine that only keeps time.

Each step takes 5 ms, whatever it carries; all else (session, closed loop, rows, processes) is what runs on a GPU.
"""

import os
import sys
import time

from profiler.sweep import __main__ as sweep
from profiler.sweep import session, worker
from profiler.sweep.closed_loop import Counters, Finished

STEP_S = 0.005


class KeptTime:
    """One token of every running request a step."""

    def __init__(self, arguments):
        self._running, self._counted = {}, {"generation_tokens": 0, "first_tokens": 0, "steps": 0}

    def submit(self, request_id, prompt, *, output_tokens, temperature):
        self._running[request_id] = [output_tokens, time.monotonic(), None]

    def step(self):
        time.sleep(STEP_S)
        self._counted["steps"] += 1
        ended = []
        for request_id, state in list(self._running.items()):
            now = time.monotonic()
            self._counted["generation_tokens"] += 1
            if state[2] is None:
                state[2] = now
                self._counted["first_tokens"] += 1
            state[0] -= 1
            if not state[0]:
                del self._running[request_id]
                tokens = round((now - state[2]) / STEP_S) + 1
                ended.append(Finished(request_id, tokens, state[2] - state[1], now - state[2]))
        return ended

    def running_ttft_s(self):
        return {name: state[2] - state[1] for name, state in self._running.items() if state[2] is not None}

    def abort_all(self):
        self._running.clear()

    def counters(self):
        return Counters(**self._counted)

    def facts(self):
        return {
            "model_runner": "none",
            "async_scheduling": False,
            "cudagraph_mode": "NONE",
            "seen": os.environ.get("CUDA_VISIBLE_DEVICES"),
        }

    def vocab_size(self):
        return 1000


def main():
    if sys.argv[1] == "-c":  # who asks whether vLLM is there
        return 0
    assert sys.argv[1:3] == ["-m", "profiler.sweep"], sys.argv
    session.import_vllm = worker.import_vllm = lambda *_: "stub"
    session.cuda_is_initialized = lambda: False
    worker.InProcessEngine = KeptTime
    return sweep.main(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
