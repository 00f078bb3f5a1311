"""What holds for every test, however the run was started."""

import signal
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# A shell without job control starts background commands with SIGINT ignored, and their children inherit that: the tests
# of Ctrl-C would wait for an interruption that never comes. A caught signal falls back to its default in a new process.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _group(path: Path) -> str:
    """Real vLLM has the cores for itself, as far as tests go: its servers follow each other; else a file is a group."""
    inside = path.relative_to(HERE)
    return inside.parts[0] if inside.parts[0] == "real_vllm" else str(inside)


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Processes of `-n` take whole files, the longest group first; fixtures of a module are made once."""
    items.sort(key=lambda item: _group(item.path) != "real_vllm")
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item.path)))
