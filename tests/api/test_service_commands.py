"""`specworth keys`, `database` and `serve`: what an operator types, and what a mistake is told as."""

from __future__ import annotations

import re
import stat

import httpx
import pytest
import yaml

from api.access.keys import read_keys
from api.history import schema
from api.history.database import Database, read_url
from tests.api.history.processes import PATH, service


def test_a_new_key_opens_a_service_that_reads_its_entry(specworth, tmp_path):
    """The key to standard error, its entry to standard output; entries stand below each other in one file."""
    made = [specworth("keys", "new", name, "--scope", "read", "--scope", "advise") for name in ("a", "b")]
    assert all(one.returncode == 0 for one in made)
    file = tmp_path / "keys.yaml"
    file.write_text("".join(one.stdout for one in made))
    (key,) = re.findall(r"specworth_b_\S+", made[1].stderr)
    assert key not in file.read_text()
    with service(tmp_path, api_keys_file=str(file)) as (_, url, _):
        assert httpx.get(url + PATH).status_code == 401
        assert httpx.get(url + PATH, headers={"authorization": f"Bearer {key}"}).status_code == 200
    with service(tmp_path, "--no-keys", api_keys_file=str(file)) as (_, url, lines):
        assert httpx.get(url + PATH).status_code == 200
        assert "no API keys" in "".join(lines)


def test_an_entry_has_what_was_given(in_process):
    """Expiry and rate stand beside name and scopes."""
    made = in_process("keys", "new", "ci", "--scope", "admin", "--expires", "2031-01-02", "--rate-limit", "5/second")
    (entry,) = read_keys(made.stdout, source="test").values()
    assert (entry.name, entry.scopes, str(entry.expires), entry.rate_limit) == (
        "ci", {"admin"}, "2031-01-02", "5/second",
    )  # fmt: skip
    assert len(yaml.safe_load(made.stdout)) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Big_Name", "--scope", "read"), "NAME"),
        (("a",), "--scope"),
        (("a", "--scope", "root"), "read, advise, profile, admin"),
        (("a", "--scope", "read", "--expires", "soon"), "--expires"),
        (("a", "--scope", "read", "--rate-limit", "often"), "--rate-limit"),
    ],
)
def test_a_key_that_cannot_be_made_is_one_line(in_process, arguments, said):
    """Exit code 2, no key."""
    result = in_process("keys", "new", *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_database_goes_up_down_and_tells_how_it_stands(in_process, tmp_path):
    """status is 1 until the tables are there; base takes them away."""
    url = f"sqlite:///{tmp_path / 'h.sqlite3'}"
    missing = in_process("database", "status", "--database", url)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "file is away" in missing.stderr
    assert in_process("database", "upgrade", "--database", url).returncode == 0
    there = in_process("database", "status", "--database", url)
    assert there.returncode == 0
    assert schema.inspect(Database(read_url(url))).wanted in there.stdout
    down = in_process("database", "downgrade", "base", "--database", url)
    assert (down.returncode, "tables none" in down.stdout) == (0, True)
    assert in_process("database", "status", "--database", url).returncode == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"DATABASE_URL": "mysql://u:secret@h/d"}, "SPECWORTH_DATABASE_URL"),
        ({"API_KEYS": "nonsense"}, "SPECWORTH_API_KEYS"),
        ({"API_KEYS_FILE": "/nowhere/keys.yaml"}, "/nowhere/keys.yaml"),
        ({"RATE_LIMIT": "often"}, "SPECWORTH_RATE_LIMIT"),
        ({"LOG_FORMAT": "xml"}, "SPECWORTH_LOG_FORMAT"),
        ({"STORE": "perhaps"}, "SPECWORTH_STORE"),
        ({"DATABASE_WAIT_S": "-1"}, "SPECWORTH_DATABASE_WAIT_S"),
        ({"SHUTDOWN_S": "0"}, "SPECWORTH_SHUTDOWN_S"),
        ({"HOST": "0.0.0.0"}, "specworth keys new"),
        ({"HOST": "0.0.0.0", "NO_KEYS": "true"}, "specworth keys new"),
    ],
)
def test_a_setting_that_cannot_be_used_ends_the_start_with_one_line(in_process, monkeypatch, settings, said):
    """It names the variable, and repeats no secret."""
    for name, value in settings.items():
        monkeypatch.setenv(f"SPECWORTH_{name}", value)
    result = in_process("serve", "--port", "0")
    assert result.returncode == 2
    assert said in result.stderr
    assert "secret" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_default_file_is_in_the_data_folder_and_private(tmp_path):
    """$XDG_DATA_HOME/specworth/history.sqlite3; the log says where."""
    with service(tmp_path) as (_, url, lines):
        assert httpx.get(url + PATH).json()["recommendations"] == []
        path = tmp_path / "specworth" / "history.sqlite3"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert str(path) in "".join(lines)
