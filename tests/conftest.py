"""What holds for every test, however the run was started."""

import signal

import pytest
from xdist.scheduler import LoadScopeScheduling

REAL_VLLM = "tests/real_vllm/"

# A shell without job control starts background commands with SIGINT ignored, and their children inherit that: the tests
# of Ctrl-C would wait for an interruption that never comes. A caught signal falls back to its default in a new process.
signal.signal(signal.SIGINT, signal.default_int_handler)


class ByRoom(LoadScopeScheduling):
    """Real vLLM has the cores for itself, as far as tests go: its servers follow each other; else a file is a unit."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        return REAL_VLLM if path.startswith(REAL_VLLM) else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByRoom:
    """Processes of `-n` take whole units, so that the fixtures of a module are made once."""
    return ByRoom(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest unit first."""
    items.sort(key=lambda item: not item.nodeid.startswith(REAL_VLLM))


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody names a width: xdist gives its processes that of the terminal it runs in."""
    monkeypatch.delenv("COLUMNS", raising=False)
