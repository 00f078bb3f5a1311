import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("measurement_tables", Path(__file__).with_name("tables.py"))
_tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_tables)


@pytest.fixture
def tables():
    """Makers of raw rows."""
    return _tables


@pytest.fixture
def ours():
    """The data set's own folder."""
    return Path(__file__).parents[3] / "data" / "measurements"
