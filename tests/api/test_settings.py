"""Settings: their defaults, and what an operator reads when one cannot be used."""

import re
from pathlib import Path

import pytest

from api.settings import NOT_OURS, Settings, load_settings, unknown_settings
from profiler.errors import InputError


def test_defaults_listen_on_this_machine_alone_and_take_32_mib(monkeypatch):
    """Without any variable the service is reachable from nowhere else."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SPECWORTH_{name.upper()}", raising=False)
    settings = load_settings()
    assert (settings.host, settings.port, settings.max_body_bytes) == ("127.0.0.1", 8000, 32 * 2**20)


def test_variables_are_read_and_sizes_may_carry_a_unit(monkeypatch):
    """1MiB is 1,048,576 bytes."""
    monkeypatch.setenv("SPECWORTH_MAX_BODY_BYTES", "1MiB")
    monkeypatch.setenv("SPECWORTH_MAX_PROMPTS", "7")
    settings = load_settings()
    assert (settings.max_body_bytes, settings.max_prompts) == (2**20, 7)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SPECWORTH_PORT", "80000"),
        ("SPECWORTH_MAX_BODY_BYTES", "lots"),
        ("SPECWORTH_MAX_BODY_BYTES", "-5"),
        ("SPECWORTH_MAX_PROMPTS", "0"),
        ("SPECWORTH_BODY_TIMEOUT_S", "nan"),
        ("SPECWORTH_MAX_JSON_DEPTH", "100000"),
        ("SPECWORTH_HOST", ""),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_name_and_value(monkeypatch, variable, value):
    """The message has the variable, what it is for, and what was found."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError) as caught:
        load_settings()
    message = str(caught.value)
    description = Settings.model_fields[variable.removeprefix("SPECWORTH_").lower()].description
    assert variable in message
    assert repr(value) in message
    assert description is not None
    assert description in message


def test_an_option_comes_before_the_variable_and_is_named_when_wrong(monkeypatch):
    """`specworth serve --port` overrides SPECWORTH_PORT."""
    monkeypatch.setenv("SPECWORTH_PORT", "9000")
    assert load_settings(port=9001).port == 9001
    with pytest.raises(InputError, match="--port"):
        load_settings(port=99_999)


def test_a_mistyped_variable_is_told_with_the_nearest_setting():
    """A typing mistake is no silent default."""
    found = unknown_settings({"SPECWORTH_MAX_BODY": "1", "PATH": "x", "SPECWORTH_PORT": "1"})
    assert found == ["SPECWORTH_MAX_BODY (nearest: SPECWORTH_MAX_BODY_BYTES)"]


def test_variables_that_other_parts_read_are_no_mistakes():
    """Whoever has set the tests' cache folder or a sweep's revision is not told that the service ignores it."""
    assert unknown_settings({"SPECWORTH_CACHE": "/var/cache", "SPECWORTH_REVISION": "abc"}) == []
    assert unknown_settings({"SPECWORTH_CACH": "/var/cache"}) == ["SPECWORTH_CACH (nearest: SPECWORTH_CACHE)"]


def test_every_variable_of_the_project_is_a_setting_or_known_to_be_none():
    """A new SPECWORTH_ variable anywhere in the sources must be told to the service, or it warns of it."""
    root = Path(__file__).parents[2]
    known = {name.upper() for name in Settings.model_fields} | set(NOT_OURS)
    sources = [*(path for folder in ("profiler", "models", "advisor", "api", "benchmarks") for path in
                 (root / folder).rglob("*.py")), root / "tests" / "real_vllm" / "install.py", root / "Makefile",
               root / "README.md", root / "docs" / "service.md"]  # fmt: skip
    named = {found for path in sources for found in re.findall(r"SPECWORTH_([A-Z_]*[A-Z])", path.read_text())}
    assert named - known == {"X"}  # the placeholder in the settings' own description


def test_the_document_tells_defaults_as_they_are():
    """Each variable of its tables has the default that stands beside it."""
    document = Path(__file__).parents[2] / "docs" / "service.md"
    rows = re.findall(r"^\| (`SPECWORTH_.*?) \| (.*?) \|", document.read_text(), re.MULTILINE)
    assert len(rows) >= 10
    told = {"none": None, "a file of this user": None, "this host's": None, "as launched": None}
    told |= {"any": None, "true": True, "false": False, "32MiB": 32 * 2**20}
    for names, defaults in rows:
        variables = re.findall("SPECWORTH_([A-Z_]+)", names)
        values = defaults.split(", ")
        for variable, value in zip(variables, values * len(variables), strict=False):
            default = Settings.model_fields[variable.lower()].default
            assert default == told.get(value, value) or str(default) in (value, f"{value}.0"), variable
