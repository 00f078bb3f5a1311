"""The built wheel serves a user who has neither the checkout nor vLLM nor torch."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PROMPTS = [
    "Write a Python function that merges overlapping intervals.",
    {"messages": [{"role": "user", "content": "Return this as JSON: Hammer 31.00, nails 4.20"}], "max_tokens": 80},
    {"prompt": "Translate to German: the harbour is closed today.", "temperature": 0.2},
]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    words = [str(c) for c in command]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment that holds the wheel and its dependencies; the path of its bin folder."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, cwd=CHECKOUT)
    assert built.returncode == 0, built.stdout + built.stderr
    venv.create(folder / "venv")
    binaries = folder / "venv" / "bin"
    wheel = next(folder.glob("specworth-*.whl"))
    constraints = CHECKOUT / "constraints.txt"
    # Our own pip installs there, and leaves it to Python to compile the few modules that are imported.
    pip = (sys.executable, "-m", "pip", "--python", binaries / "python", "install", "-q", "--no-compile")
    done = run(*pip, "-c", constraints, wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    return binaries


def test_neither_vllm_nor_torch_comes_along(installed: Path, tmp_path: Path) -> None:
    """A plain install brings no vLLM and no torch."""
    code = "import importlib.util as u; print([m for m in ('torch', 'vllm') if u.find_spec(m)])"
    assert run(installed / "python", "-c", code, cwd=tmp_path).stdout.strip() == "[]"


def test_advise_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    """`specworth advise` gives a verdict from a folder that holds nothing but the prompts."""
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(p) + "\n" for p in PROMPTS))
    command = ["advise", "prompts.jsonl", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H200", "--json"]
    done = run(installed / "specworth", *command, "--concurrency", "4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["verdict"] in ("enable", "disable")
    assert answer["curve"]


def test_nothing_but_our_packages_is_installed_at_the_top(installed: Path, tmp_path: Path) -> None:
    """The wheel puts four packages at the top level, and neither tests nor data."""
    code = "import importlib.metadata as m;print(sorted({str(f).split('/')[0] for f in m.files('specworth')} - {'..'}))"
    tops = run(installed / "python", "-c", code, cwd=tmp_path).stdout
    assert [t for t in eval(tops) if not t.endswith(".dist-info")] == ["advisor", "api", "models", "profiler"]


PAGES = """
import json, re
from starlette.testclient import TestClient
from api.app import create_app
from api.settings import Settings
client = TestClient(create_app(Settings(store=False)))
pages = [client.get(path).text for path in ("/", "/compare", "/history")]
named = [path for page in pages for path in re.findall(r'"(/assets/[^"]+)"', page)]
print(json.dumps({path: client.get(path).status_code for path in named}))
"""


def test_the_pages_come_along_with_their_assets(installed: Path, tmp_path: Path) -> None:
    """Templates, scripts and styles are in the wheel: each page is served, and so is everything that it names."""
    done = run(installed / "python", "-c", PAGES, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    named = json.loads(done.stdout)
    assert {path.split("/", 3)[3] for path in named} >= {"base.css", "shell.js", "explorer/main.js", "example.jsonl"}
    assert set(named.values()) == {200}
