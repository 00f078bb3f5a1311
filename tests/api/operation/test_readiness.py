"""Readiness: 200 only where database and artefacts are there; artefacts that are damaged keep a service out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import models


def test_ready_with_database_and_artefacts(client):
    """Both are named."""
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert {check["name"]: check["status"] for check in answer.json()["checks"]} == {
        "database": "ok",
        "artefacts": "ok",
    }


def test_a_damaged_artefact_keeps_a_service_from_being_ready(tmp_path):
    """One byte of a trained file differs from what the manifest says: not ready, and the file is named."""
    package = Path(models.__file__).parent
    shutil.copytree(package, tmp_path / "models")
    damaged = tmp_path / "models" / "artifacts" / "acceptance.json"
    damaged.write_bytes(damaged.read_bytes().replace(b"0", b"1", 1))
    code = "from api.operation.readiness import check_artefacts; print(check_artefacts().model_dump_json())"
    root = str(package.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), root))}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    check = json.loads(told.stdout)
    assert check["status"] == "failed"
    assert "acceptance.json" in check["detail"]
