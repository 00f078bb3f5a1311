"""On which machine is this measured? GPU and driver as nvidia-smi tells them, the CPU, and our own source revision."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Host:
    """The facts of the machine that a step's time depends on, and of the GPUs that we may use; None without any."""

    gpu: str | None
    gpu_count: int
    driver: str | None
    cpu: str
    cpu_count: int
    git_revision: str | None

    def facts(self) -> dict[str, Any]:
        """As rows name them: the CPU's are `host_cpu` and `host_cpu_count`."""
        return {f"host_{name}" if name.startswith("cpu") else name: value for name, value in asdict(self).items()}


def read_host() -> Host:
    """Ask the machine; a missing nvidia-smi means that there is no GPU to name."""
    rows = [line.split(", ") for line in _smi("name,driver_version", "csv,noheader")]
    return Host(
        gpu=rows[0][0] if rows else None,
        gpu_count=len(rows),
        driver=rows[0][1] if rows else None,
        cpu=_cpu_model(),
        cpu_count=os.cpu_count() or 1,
        git_revision=next(iter(_run("git", "rev-parse", "HEAD")), None) or os.environ.get("SPECWORTH_REVISION"),
    )


def wait_for_free_gpu(*, used_bytes: float = 2e9, timeout_s: float = 20.0) -> bool:
    """Wait until no GPU of ours holds more than `used_bytes`: vLLM does not start while a dying engine holds memory."""
    until = time.monotonic() + timeout_s
    while True:
        used = _smi("memory.used", "csv,noheader,nounits")
        if all(float(mib) * 2**20 < used_bytes for mib in used if mib.strip().isdigit()):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.25)


def _smi(asked: str, layout: str) -> list[str]:
    """What nvidia-smi says of the GPUs that this process may use: on a shared host others have theirs."""
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    named = all(name.isdigit() or name.startswith("GPU-") for name in visible)  # a MIG slice is not a GPU's name
    ours = [f"--id={','.join(visible)}"] if visible and named else []
    return _run("nvidia-smi", *ours, f"--query-gpu={asked}", f"--format={layout}")


def _run(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=Path(__file__).parent)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
