"""The Containerfile: its steps name what is there, and what it starts starts so."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from api.settings import Settings, load_settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
STEPS = [
    (step.split(maxsplit=1)[0], step.split(maxsplit=1)[1])
    for step in re.sub(r"\\\n", " ", TEXT).splitlines()
    if step and not step.startswith("#")
]


def values(instruction: str) -> list[str]:
    return [rest for name, rest in STEPS if name == instruction]


def environment() -> dict[str, str]:
    (pairs,) = values("ENV")
    return dict(pair.split("=", 1) for pair in shlex.split(pairs))


def test_every_file_that_is_copied_is_there():
    """And the wheel's packages are all among them."""
    copied = [name for rest in values("COPY") if "--from" not in rest for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"advisor", "api", "models", "profiler"} <= set(copied)


def test_the_user_is_a_number_and_not_root():
    """So that Kubernetes can tell (runAsNonRoot)."""
    assert values("USER") == ["10001:10001"]


def test_variables_are_settings(monkeypatch):
    """Each is read by the service, and the port is the one that is exposed."""
    ours = {name: value for name, value in environment().items() if name.startswith("SPECWORTH_")}
    for name, value in ours.items():
        assert name.removeprefix("SPECWORTH_").lower() in Settings.model_fields
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert values("EXPOSE") == [str(settings.port)]
    assert settings.database_url is not None
    assert settings.database_url.removeprefix("sqlite:///").startswith(values("VOLUME")[0])


@pytest.mark.parametrize("given", [{}, {"SPECWORTH_NO_KEYS": "true"}])
def test_what_it_starts_refuses_to_run_without_keys(tmp_path, given):
    """ENTRYPOINT and CMD as they stand, with the image's variables: one line that says what is missing."""
    command = [*json.loads(values("ENTRYPOINT")[0]), *json.loads(values("CMD")[0])]
    script = Path(sys.executable).with_name(command[0])
    image = {name: value for name, value in environment().items() if name.startswith("SPECWORTH_")}
    # The image's port may be taken on this machine; the database's folder is the image's own.
    image |= {"SPECWORTH_PORT": "0", "SPECWORTH_DATABASE_URL": f"sqlite:///{tmp_path / 'h.sqlite3'}"} | given
    ended = subprocess.run(
        [script, *command[1:]], env=os.environ | image, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert ended.returncode == 2
    assert "specworth keys new" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
