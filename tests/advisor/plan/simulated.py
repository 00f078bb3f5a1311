"""One replica pass by pass: the independent reference of advisor.plan.queue.

What is shared with the approximation is the price list alone (what a pass with n requests and j chunks of prompt
takes). Everything that the approximation assumes is played here: requests arrive one by one, join between passes,
compete for the token budget of a pass in the order in which they came, draft and accept token by token, and end when
they end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from advisor.plan.passes import Replica
from models.step_cost.passes import PREFILL_GRID


@dataclass(frozen=True)
class Drafting:
    """What a class accepts: P(at least i of the draft are), the share of steps that draft, and its spread."""

    survival: tuple[float, ...] = ()
    draft_share: float = 1.0
    log_sd: float = 0.0  # of the gain from request to request

    @property
    def gain(self) -> float:
        return self.draft_share * sum(self.survival)

    @property
    def variance(self) -> float:
        """Of the accepted tokens of one step."""
        second = self.draft_share * sum((2 * i + 1) * s for i, s in enumerate(self.survival))
        return second - self.gain**2


@dataclass(frozen=True)
class Seen:
    """What requests that came after the warm-up saw."""

    first_token_p95_ms: np.ndarray  # by class
    tpot_p95_ms: np.ndarray
    concurrency: float
    requests: int


def simulate(
    replica: Replica, request_rate: float, drafting: list[Drafting], *, seed: int, requests: int,
    budget_chunks: float = np.inf, answer_cv: float = 0.0,
) -> Seen:  # fmt: skip
    """`requests` arrivals at `request_rate` a second, of which the first fifth warms up."""
    random = np.random.default_rng(seed)
    c = replica.classes
    arrive = np.cumsum(random.exponential(1e3 / request_rate, requests))
    kind = random.choice(c.share.size, p=c.share, size=requests)
    size = c.prompt_size[kind, random.integers(c.prompt_size.shape[1], size=requests)]
    left = c.tokens_left[kind].astype(float)
    if answer_cv:
        log_sd = np.sqrt(np.log1p(answer_cv**2))
        left = left * np.exp(random.normal(-(log_sd**2) / 2, log_sd, requests))
    left = np.maximum(np.round(left), 1.0)
    centre = np.array([_centre(d) for d in drafting])[kind]
    pace = np.exp(random.normal(centre, np.array([d.log_sd for d in drafting])[kind]))
    most = max((len(d.survival) for d in drafting), default=0)
    table = np.zeros((len(drafting), max(most, 1)))
    for i, d in enumerate(drafting):
        table[i, : len(d.survival)] = d.survival
    survival = np.minimum(table[kind] * pace[:, None], 1.0)
    drafts = np.array([d.draft_share for d in drafting])[kind]

    first, last = np.full(requests, np.nan), np.full(requests, np.nan)
    prompt, tokens = size * replica.chunks[0], left.copy()
    waiting: deque[int] = deque()
    running = np.empty(0, dtype=np.int64)
    now, previous, coming, area, since = 0.0, 0.0, 0, 0.0, None
    while np.isnan(last).any():
        if not running.size and not waiting and coming < requests:
            now, previous = max(now, arrive[coming]), 0.0
        # A request joins the first pass that was not yet scheduled when it came.
        while coming < requests and arrive[coming] + (replica.joining_passes - 1.0) * previous <= now:
            waiting.append(coming)
            coming += 1
        if not running.size and not waiting:
            now += previous or 1e-3
            previous = 0.0
            continue
        room = int(replica.limit) - running.size
        if room > 0 and waiting:
            running = np.concatenate([running, [waiting.popleft() for _ in range(min(room, len(waiting)))]])
        decoding = running[prompt[running] <= 0.0]
        prefilling = running[prompt[running] > 0.0]
        before = np.concatenate([[0.0], np.cumsum(prompt[prefilling])])[:-1]
        share = np.clip(budget_chunks - before, 0.0, prompt[prefilling])
        took = _price(replica, float(running.size), float(share.sum()))
        if since is None and coming > requests // 5:
            since = now
        if since is not None and coming < requests:
            area += took * (running.size + len(waiting))
        now += took
        previous = took
        prompt[prefilling] -= share
        first[prefilling[prompt[prefilling] <= 1e-12]] = now
        if decoding.size:
            luck = random.random(decoding.size)[:, None] < survival[decoding]
            accepted = luck.sum(axis=1) * (random.random(decoding.size) < drafts[decoding])
            tokens[decoding] -= 1.0 + accepted
            done = decoding[tokens[decoding] <= 0.0]
            if done.size:
                last[done] = now
                running = running[np.isnan(last[running])]
        if coming >= requests and since is not None:
            break  # what is still running saw an emptying server
    counted = np.flatnonzero(~np.isnan(last) & (np.arange(requests) > requests // 5))
    whole = first - arrive + replica.request_ms
    tpot = (last - first) / left
    by_class = [counted[kind[counted] == i] for i in range(c.share.size)]
    return Seen(
        np.array([np.percentile(whole[rows], 95) for rows in by_class]),
        np.array([np.percentile(tpot[rows], 95) for rows in by_class]),
        area / (now - since),
        counted.size,
    )


def _centre(drafting: Drafting) -> float:
    """So that steps per token are on average the gain's: what is pooled over requests counts tokens and steps."""
    if not drafting.log_sd:
        return 0.0
    draws = np.random.default_rng(0).normal(0.0, drafting.log_sd, 20_000)
    survival = np.array(drafting.survival)
    low, high = -1.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        accepted = np.minimum(survival * np.exp(draws + middle)[:, None], 1.0).sum(axis=1)
        more = np.mean(1.0 / (1.0 + drafting.draft_share * accepted)) > 1.0 / (1.0 + drafting.gain)
        low, high = (middle, high) if more else (low, middle)
    return (low + high) / 2


def _price(replica: Replica, n: float, chunks: float) -> float:
    grid = replica.concurrency
    right = min(max(int(np.searchsorted(grid, n)), 1), grid.size - 1) if grid.size > 1 else 0
    low = max(right - 1, 0)
    part = 0.0 if right == low else min(max((n - grid[low]) / (grid[right] - grid[low]), 0.0), 1.0)
    costs = [np.interp(chunks, PREFILL_GRID, replica.costs_ms[row]) for row in (low, right)]
    return float(costs[0] * (1.0 - part) + costs[1] * part)
