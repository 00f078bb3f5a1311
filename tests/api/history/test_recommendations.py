"""Recommendations in both databases: kept whole, found by every filter, paged, changed, deleted."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import func, select

from api.history import recommendations as stored
from api.history.history import patiently
from api.history.recommendations import Filter
from api.history.tables import labels, recommendations

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def ids(database, where=None, **options):
    page = stored.page(database, where or Filter(), after=None, limit=100, **options)
    return [row.values["id"] for row in page.rows]


def test_what_was_kept_is_found_as_it_was(database, make_record):
    """The answer comes back byte for byte, with its moment, columns and labels."""
    record = make_record(labels=("a", "b"), created_at=NOON)
    stored.keep(database, record)
    row = stored.find(database, record.id)
    assert row is not None
    assert row.labels == ("a", "b")
    assert {name: row.values[name] for name in record.values} == record.values
    assert row.values["created_at"].utcoffset() == timedelta(0)


def test_keeping_twice_keeps_once(database, make_record):
    """An attempt whose confirmation was lost is made again without harm."""
    record = make_record(labels=("a",))
    stored.keep(database, record)
    stored.keep(database, record)
    assert ids(database) == [record.id]


@pytest.mark.parametrize("text", ["a\0b", "日本語 \U0001f680", "x' OR 1=1; --", "%_\\"])
def test_odd_names_are_kept_and_found(database, make_record, text):
    """Whatever a target is called, it is stored and can be asked for; PostgreSQL takes no NUL, so that is replaced."""
    name = text.replace("\0", "\ufffd")
    config = json.loads(LLAMA)
    record = make_record(post={"deployment": {"target": {"name": text, "config": config}, "gpu": "H200"}})
    stored.keep(database, record)
    assert ids(database, Filter(target=name)) == [record.id]
    row = stored.find(database, record.id)
    assert row is not None
    assert json.loads(row.values["request"])["deployment"]["target"]["name"] == text


LLAMA = json.dumps(
    {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
    }
)  # fmt: skip


def test_each_filter_finds_its_own(database, make_record):
    """Target, verdict, labels (all of them) and time restrict, alone and together."""
    days = [NOON + timedelta(days=day) for day in range(3)]
    one = make_record(labels=("red",), target="a", verdict="enable", created_at=days[0])
    two = make_record(labels=("red", "blue"), target="a", verdict="disable", created_at=days[1])
    three = make_record(target="b", verdict="enable", created_at=days[2])
    for record in (one, two, three):
        stored.keep(database, record)
    assert ids(database) == [three.id, two.id, one.id]
    assert ids(database, Filter(target="a")) == [two.id, one.id]
    assert ids(database, Filter(verdict="enable")) == [three.id, one.id]
    assert ids(database, Filter(labels=("red",))) == [two.id, one.id]
    assert ids(database, Filter(labels=("red", "blue"))) == [two.id]
    assert ids(database, Filter(created_from=days[1])) == [three.id, two.id]
    assert ids(database, Filter(created_before=days[1])) == [one.id]
    assert ids(database, Filter(target="a", verdict="enable", labels=("red",), created_before=days[2])) == [one.id]
    assert ids(database, Filter(target="c")) == []


def test_pages_give_each_row_once_though_rows_come_and_go(database, make_record):
    """Rows of one moment are told apart by id; what is added or deleted meanwhile shifts nothing."""
    kept = [make_record(created_at=NOON + timedelta(seconds=n // 3)) for n in range(20)]
    for record in kept:
        stored.keep(database, record)
    seen, after = [], None
    while True:
        page = stored.page(database, Filter(), after=after, limit=3)
        seen += [row.values["id"] for row in page.rows]
        if page.following is None:
            break
        after = page.following
        stored.keep(database, make_record(created_at=NOON + timedelta(days=1)))
        stored.remove(database, after.id)
    assert seen == [r.id for r in sorted(kept, key=lambda r: (r.values["created_at"], r.id), reverse=True)]


def test_change_replaces_labels_and_note_and_nothing_else(database, make_record):
    """What is left out stays; an empty list takes all labels off."""
    record = make_record(labels=("old",))
    stored.keep(database, record)
    changed = stored.change(database, record.id, named=["new", "newer"], note=None)
    assert changed is not None
    assert changed.labels == ("new", "newer")
    noted = stored.change(database, record.id, named=None, note="why")
    assert noted is not None
    assert (noted.labels, noted.values["note"]) == (("new", "newer"), "why")
    emptied = stored.change(database, record.id, named=[], note=None)
    assert emptied is not None
    assert (emptied.labels, emptied.values["note"]) == ((), "why")
    assert stored.change(database, "0" * 32, named=["x"], note=None) is None


def test_removing_leaves_no_row_and_no_label(database, make_record):
    """Labels go with their recommendation; the others stay."""
    gone, stays = make_record(labels=("a",)), make_record(labels=("a",))
    for record in (gone, stays):
        stored.keep(database, record)
    assert stored.remove(database, gone.id)
    assert not stored.remove(database, gone.id)
    assert ids(database) == [stays.id]
    with database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(labels)).scalar_one() == 1
        assert connection.execute(select(func.count()).select_from(recommendations)).scalar_one() == 1


def test_writers_at_once_lose_nothing(database, make_record):
    """Twelve threads keep, change and delete; every row is there once, and no writer is refused for another's sake."""
    made = [[make_record(labels=(f"t{n}",)) for _ in range(10)] for n in range(12)]
    failures: list[Exception] = []

    def work(mine):
        try:
            for n, record in enumerate(mine):
                until = time.monotonic() + 20
                patiently(partial(stored.keep, database, record), until=until)
                named = [*record.labels, "changed"]
                patiently(partial(stored.change, database, record.id, named=named, note=str(n)), until=until)
                if n % 5 == 4:
                    assert patiently(partial(stored.remove, database, record.id), until=until)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = {r.id for mine in made for n, r in enumerate(mine) if n % 5 != 4}
    found = stored.page(database, Filter(), after=None, limit=200).rows
    assert Counter(row.values["id"] for row in found) == Counter(expected)
    assert all("changed" in row.labels for row in found)
