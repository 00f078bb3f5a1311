"""The measured cells of the checkout, read once."""

from pathlib import Path

import pytest

from models.training.cells import Cells

MEASUREMENTS = Path(__file__).resolve().parents[3] / "data" / "measurements"


@pytest.fixture(scope="session")
def cells() -> Cells:
    return Cells.read(MEASUREMENTS)
