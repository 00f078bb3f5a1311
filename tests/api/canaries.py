"""Two stand-in servers under one router, with traffic whose speedup is known."""

from __future__ import annotations

import contextlib
import random
import threading

from tests.fake_vllm import Knobs, fake_vllm

SPECULATES = {"tokens_per_step": 2, "num_speculative_tokens": 3}


@contextlib.contextmanager
def traffic(control, canary, *, gain=1.0, prompts=1.0, share=1.0, after=None):
    """Requests that end on both servers all the time; the canary's are `gain` times as fast."""
    over = threading.Event()
    chance = random.Random(1)

    def drive():
        batches = 0
        while not over.wait(0.05):
            for server, factor, length, wanted in ((control, 1.0, 1.0, 1.0), (canary, gain, prompts, share)):
                for _ in range(40):
                    if chance.random() < wanted:
                        server.finish(
                            prompt_tokens=int(length * chance.randint(50, 400)), output_tokens=chance.randint(2, 4),
                            ttft_s=0.01 * chance.uniform(0.7, 1.3), tpot_s=0.03 * chance.uniform(0.7, 1.3) / factor,
                        )  # fmt: skip
            batches += 1
            if after is not None and batches == 20:
                after()

    thread = threading.Thread(target=drive, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5)


@contextlib.contextmanager
def two_servers(**canary):
    """A control and a canary with what vLLM counts of requests."""
    with (
        fake_vllm(Knobs(histograms=True, kv_usage=0.3)) as one,
        fake_vllm(Knobs(**({"histograms": True, "kv_usage": 0.4} | SPECULATES | canary))) as two,
    ):
        yield one, two
