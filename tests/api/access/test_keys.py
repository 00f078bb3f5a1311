"""API keys: made, kept as hashes alone, recognised, expired, withdrawn; and files that cannot be used."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from api.access import keys
from api.access.keys import ApiKey, Keyring, new_key, read_keys
from profiler.errors import InputError


def entry(name="ci", *, scopes=("advise",), **more):
    key, kept = new_key(name)
    return key, {"name": name, "scopes": list(scopes), "hash": kept} | more


def text_of(*entries):
    return yaml.safe_dump({"keys": list(entries)})


def test_a_key_is_known_by_its_hash_and_no_other_key_is():
    """One character more, less or other is another key; the kept text holds nothing of the secret."""
    key, kept = entry()
    text = text_of(kept)
    ring = Keyring(text=text)
    found = ring.find(key)
    assert found is not None
    assert found.name == "ci"
    for wrong in (key[:-1], key + "x", key[:-1] + ("a" if key[-1] != "a" else "b"), key.upper(), "", "specworth_ci_",
                  key.replace("_ci_", "_other_"), "ü" + key, entry()[0]):  # fmt: skip
        assert ring.find(wrong) is None, wrong
    assert key.split("_", 2)[2] not in text


def test_two_keys_of_one_name_made_twice_differ():
    """256 random bits, and a salt of its own for each."""
    made = [new_key("a") for _ in range(50)]
    assert len({key for key, _ in made}) == len({kept for _, kept in made}) == 50
    assert all(len(key.split("_", 2)[2]) >= 43 for key, _ in made)


def test_an_expired_key_is_none():
    """From its first day on."""
    today = datetime.now(UTC).date()
    late, kept_late = entry("late", expires=today.isoformat())
    good, kept_good = entry("good", expires=(today + timedelta(days=1)).isoformat())
    ring = Keyring(text=text_of(kept_late, kept_good))
    assert ring.find(late) is None
    assert ring.find(good) is not None


def test_admin_may_do_everything_and_the_others_what_they_have():
    """Scopes do not include each other."""
    one = ApiKey.model_validate(entry(scopes=("advise", "read"))[1])
    assert [scope for scope in keys.SCOPES if one.allows(scope)] == ["read", "advise"]
    admin = ApiKey.model_validate(entry(scopes=("admin",))[1])
    assert all(admin.allows(scope) for scope in keys.SCOPES)


def test_a_changed_file_is_read_again_and_a_broken_one_is_not_taken(tmp_path, monkeypatch):
    """A key that was taken out is refused without a restart; nonsense leaves the keys as they were."""
    monkeypatch.setattr(keys, "_LOOK_AGAIN_S", 0.0)
    first, kept_first = entry("first")
    second, kept_second = entry("second")
    file = tmp_path / "keys.yaml"
    file.write_text(text_of(kept_first))
    ring = Keyring(file=file)
    assert ring.find(first)
    replacement = tmp_path / "new.yaml"
    replacement.write_text(text_of(kept_second))
    os.replace(replacement, file)
    assert ring.find(first) is None
    assert ring.find(second)
    file.write_text("keys: [")
    assert ring.find(second)
    file.unlink()
    assert ring.find(second)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "whole"),
        ("keys: [", "not YAML"),
        ("keys: []", "keys"),
        ("[]", "keys"),
        ("- name: Big\n  scopes: [read]\n  hash: x", "name"),
        ("- name: a_b\n  scopes: [read]\n  hash: x", "name"),
        ("- name: ab\n  scopes: [root]\n  hash: x", "scopes"),
        ("- name: ab\n  scopes: []\n  hash: x", "scopes"),
        ("- name: ab\n  scopes: [read]\n  hash: secret-in-the-clear", "hash"),
        ("- name: ab\n  scopes: [read]", "hash"),
        ("- name: ab\n  scopes: [read]\n  hash: x\n  rate_limit: often", "rate_limit"),
        ("- name: ab\n  scopes: [read]\n  hash: x\n  expires: soon", "expires"),
        ("- name: ab\n  scopes: [read]\n  hash: x\n  role: admin", "role"),
    ],
)
def test_keys_that_cannot_be_used_are_told_by_their_place(text, said):
    """And what stands where a hash should is never repeated."""
    if said != "hash":
        text = text.replace("hash: x", f"hash: {new_key('ab')[1]}")
    with pytest.raises(InputError) as caught:
        read_keys(text, source="keys.yaml")
    assert "keys.yaml" in str(caught.value)
    assert said in str(caught.value)
    assert "secret-in-the-clear" not in str(caught.value)


def test_a_name_stands_once():
    """Which of two was meant is not ours to guess."""
    with pytest.raises(InputError, match="each name once"):
        read_keys(text_of(entry()[1], entry()[1]), source="keys")


def test_a_file_that_is_missing_and_two_places_are_refused(tmp_path):
    """At the start, by the setting's name."""
    with pytest.raises(InputError, match="SPECWORTH_API_KEYS_FILE"):
        Keyring(file=tmp_path / "none.yaml")
    with pytest.raises(InputError, match="both"):
        Keyring(file=tmp_path / "none.yaml", text=text_of(entry()[1]))
