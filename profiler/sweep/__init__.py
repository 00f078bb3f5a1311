"""Measure what speculation costs on this host: a grid of engines x traffic, one row per cell.

    grid.py         what to measure: read and checked from YAML
    models.py       model folders written from dimension numbers alone
    closed_loop.py  how one cell is measured: the protocol
    rows.py         what is kept of a cell, appended as it comes, and found again on resume
    startup_log.py  what the engine's own log says about memory and start-up
    process.py      an engine's process, of which nothing may be left
    worker.py       one engine's life in a process of its own
    session.py      the order of engines, the time limit, and what happens when an engine fails
    host.py         GPU, driver, CPU and source revision

    traffic.py      what a slot of the loop asks next: random tokens, or real prompts around and around
    weights.py      engines of real weights
    real_pair.py    a real pair end to end (a command): real prompts, natural acceptance; real_grid.py, real_rows.py
    acceptance.py   what real weights accept (a command); acceptance_grid.py

Runs on a host that has vLLM's own dependencies and nothing else of ours. Only `profiler.engine` imports vLLM.
"""
