from __future__ import annotations

import json as plain_json
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Decimal128
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.models import CUSTOMER, model_of
from wormdb.engine.history.tombstone import Tombstone
from wormdb.errors import CorruptionError
from wormdb.files.contents.document import (
    TombstoneFile,
    entity_file,
    oplog_file,
    plain_fields,
    read_entity,
    read_oplog,
    read_tombstone_file,
    snapshot_file,
    tombstone_file,
)
from wormdb.format import json
from wormdb.format.past import Operation, Version, difference
from wormdb.format.values import equal
from wormdb.testing.strategies import dates, documents, ids, strings, values

MODEL = model_of(CUSTOMER)
NOON = datetime(2026, 2, 24, 12, tzinfo=UTC)
MISC = (int(NOON.timestamp()) * 1_000_000 + 250) << 8
extras = documents().map(
    lambda found: {name: value for name, value in found.items() if name not in {*MODEL.fields, "_id", "id", "_rev"}}
)
declared = st.fixed_dictionaries(
    {},
    optional={
        "name": strings() | st.none(),
        "tags": st.lists(strings(), max_size=3),
        "born": dates() | st.none(),
        "visits": st.lists(dates() | st.none(), max_size=3),
        "address": st.fixed_dictionaries({}, optional={"city": strings(), "since": dates(), "x": values()}),
        "credit": st.sampled_from([Decimal128("1.50"), None]),
        "createdAt": dates(),
        "updatedAt": dates(),
    },
)
customers = st.builds(lambda identity, one, two: {"_id": identity, **one, **two}, ids(), declared, extras)


def as_json(body: bytes) -> Any:
    """What any other program reads."""
    return plain_json.loads(body)


def without_order(document: dict[str, Any]) -> dict[str, Any]:
    stamps = ("createdAt", "updatedAt")
    return {
        **{name: value for name, value in document.items() if name not in stamps},
        **{name: document[name] for name in stamps if name in document},
    }


# --- documents ---


@settings(max_examples=30)
@given(customers, st.integers(0, 2**53))
def test_a_document_comes_back_from_its_file(document: dict[str, Any], rev: int) -> None:
    body = entity_file(json.encode(document), rev, MODEL)
    found, number = read_entity(body, key="k", model=MODEL)
    assert equal(found, without_order(document))
    assert number == rev
    assert next(iter(as_json(body))) == "id"
    assert body == entity_file(json.encode(found), rev, MODEL)


@settings(max_examples=30)
@given(customers)
def test_without_a_model_all_dates_are_extended(document: dict[str, Any]) -> None:
    found, _ = read_entity(entity_file(json.encode(document), 1, None), key="k", model=None)
    assert equal(found, without_order(document))


@settings(max_examples=30)
@given(
    customers, st.sampled_from(["name", "born", "address.city", "address.since", "address", "visits.0", "a.b", "tags"])
)
def test_a_row_has_what_the_document_has_and_nothing_else(document: dict[str, Any], name: str) -> None:
    row = plain_fields(json.encode(document), [name], MODEL)
    first, *below = name.split(".")
    assert set(row) == {first} & set(document)
    whole = plain_fields(json.encode(document), [first], MODEL)
    if row and below and type(document[first]) is dict:
        assert row[first] == {part: value for part, value in whole[first].items() if part == below[0]}
    else:
        assert row == whole


def test_rows_of_names_that_hold_each_other() -> None:
    document = json.encode({"_id": 1, "address": {"city": "Bern", "since": NOON, "zip": 1}})
    both = {"city": "Bern", "since": "2026-02-24T12:00:00.000Z"}
    assert plain_fields(document, ["address.city", "address.since"], MODEL) == {"address": both}
    for names in (["address.city", "address"], ["address", "address.city"]):
        assert plain_fields(document, names, MODEL) == {"address": {**both, "zip": 1}}
    assert json.decode_document(document, name="x")["address"]["since"] == NOON


def test_a_field_called_rev_is_not_shown() -> None:
    body = entity_file(json.encode({"_id": "a", "_rev": "1-abc", "x": 1}), 7, MODEL)
    assert as_json(body) == {"id": "a", "x": 1, "_rev": 7}


def test_files_of_others_are_read() -> None:
    body = b"""\xef\xbb\xbf{"name": "Acme", "born": "2026-02-24T12:00:00Z", "createdAt": "2026-02-24T14:00+02:00",
        "updatedAt": "soon", "credit": "1.5", "_rev": "x"}"""
    found, rev = read_entity(body, key="k", model=MODEL, identity="a1")
    stamps = {"createdAt": NOON, "updatedAt": "soon"}
    assert found == {"_id": "a1", "name": "Acme", "born": NOON, "credit": Decimal128("1.5"), "_rev": "x", **stamps}
    assert rev is None
    assert read_entity(b'{"id": 5}', key="k", model=MODEL, identity="5")[0] == {"_id": "5"}
    assert read_entity(b"{}", key="k", model=MODEL)[0] == {}
    assert read_entity(b'{"age": "old", "tags": 5}', key="k", model=MODEL)[0] == {"age": "old", "tags": 5}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"id": "b"}', b'{"id": "a", "_id": "b"}', b'{"x": {"$date": 1, "$y": 2}}', b'{"a": "\xff"}'],
)
def test_what_is_no_document_names_the_key(body: bytes) -> None:
    with pytest.raises(CorruptionError, match="org/a"):
        read_entity(body, key="org/a", model=MODEL, identity="a")


# --- oplog ---


def version(op: Operation, document: dict[str, Any] | None, **changes: Any) -> Version:
    stored = None if document is None else json.encode(document)
    return Version(b'"a"', changes.pop("seq", 3), 9, op, MISC, document=stored, **changes)


@settings(max_examples=30)
@given(customers, customers)
def test_the_diff_of_an_update_is_the_one_of_history(before: dict[str, Any], after: dict[str, Any]) -> None:
    one, two = json.encode(before), json.encode(after)
    entry = read_oplog(oplog_file(version("update", after), one, MODEL), key="k", model=MODEL)
    assert entry.diff is not None
    expected = difference(one, two, stamped=True)
    assert set(entry.diff) == set(expected)
    for name, pair in entry.diff.items():
        assert equal(list(pair), list(expected[name]))


@settings(max_examples=30)
@given(customers, st.sampled_from(["create", "restore", "delete"]))
def test_the_snapshot_of_other_changes(document: dict[str, Any], op: Operation) -> None:
    made = version(op, None if op == "delete" else document)
    before = json.encode(document) if op == "delete" else None
    entry = read_oplog(oplog_file(made, before, MODEL), key="k", model=MODEL)
    assert equal(entry.snapshot, document)
    assert (entry.op, entry.seq, entry.log, entry.diff) == (op, 3, 9, None)
    assert entry.ts == NOON


def test_who_changed_it_and_why() -> None:
    made = version("create", {"_id": "a"}, actor="user:ada", meta=b'{"why":{"$date":"2026-02-24T12:00:00Z"}}')
    entry = read_oplog(oplog_file(made, None, MODEL), key="k")
    assert (entry.actor, entry.metadata) == ("user:ada", {"why": NOON})


def test_a_purge_is_a_delete_without_a_document() -> None:
    body = oplog_file(version("purge", None, meta=b'{"by":"rule"}'), b'{"_id":"a"}', MODEL)
    assert as_json(body) == {
        "seq": 3,
        "op": "delete",
        "ts": "2026-02-24T12:00:00.000Z",
        "metadata": {"by": "rule", "purge": True},
        "log": 9,
    }


def test_an_update_without_what_was_before_is_whole() -> None:
    entry = read_oplog(oplog_file(version("update", {"_id": "a", "x": 1}), None, MODEL), key="k")
    assert (entry.diff, entry.snapshot) == (None, {"_id": "a", "x": 1})


def test_the_entries_of_the_pages_are_read() -> None:
    create = b"""{ "seq": 1, "op": "create", "ts": "2026-02-24T10:00:00Z", "actor": "user:0xabc...",
        "snapshot": { "name": "Acme Corp", "email": "hi@acme.com", "status": "active" } }"""
    update = (
        b'{ "seq": 2, "op": "update", "ts": "2026-02-24T11:00:00Z", "diff": { "name": ["Acme Corp", "Acme Inc"] } }'
    )
    assert read_oplog(create, key="k").snapshot == {"name": "Acme Corp", "email": "hi@acme.com", "status": "active"}
    entry = read_oplog(update, key="k")
    assert (entry.diff, entry.actor, entry.log) == ({"name": ("Acme Corp", "Acme Inc")}, None, None)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"seq": 0, "op": "create", "ts": "2026-02-24T10:00:00Z"}',
        b'{"seq": true, "op": "create", "ts": "2026-02-24T10:00:00Z"}',
        b'{"seq": 1, "op": "merge", "ts": "2026-02-24T10:00:00Z"}',
        b'{"seq": 1, "op": "create", "ts": "today"}',
        b'{"seq": 1, "op": "update", "ts": "2026-02-24T10:00:00Z", "diff": {"a": [1]}}',
        b'{"seq": 1, "op": "update", "ts": "2026-02-24T10:00:00Z", "diff": []}',
        b'{"seq": 1, "op": "update", "ts": "2026-02-24T10:00:00Z", "actor": 5}',
    ],
)
def test_what_is_no_change_names_the_key(body: bytes) -> None:
    with pytest.raises(CorruptionError, match=r"\.oplog/a/0001"):
        read_oplog(body, key=".oplog/a/0001.json")


# --- snapshots and trash ---


def test_a_snapshot_is_the_file_of_the_document() -> None:
    made = version("update", {"_id": "a", "born": NOON})
    assert made.document is not None
    assert snapshot_file(made, MODEL) == entity_file(made.document, 9, MODEL)


@settings(max_examples=30)
@given(dates(), st.none() | strings(), st.none() | st.integers(0, 1000), st.integers(0, 2**53))
def test_a_tombstone_comes_back(when: datetime, actor: str | None, ttl: int | None, rev: int) -> None:
    found = Tombstone(when, actor, None, b"{}", ttl)
    body = tombstone_file(found, "org/customers/a/profile.json", rev)
    assert read_tombstone_file(body, key="k") == TombstoneFile(when, actor, "org/customers/a/profile.json", ttl, rev)


@pytest.mark.parametrize(
    "body", [b"{}", b"x", b'{"deletedAt": "2026-02-24T12:00:00Z"}', b'{"deletedAt": 5, "restorePath": "x"}']
)
def test_what_is_no_tombstone_names_the_key(body: bytes) -> None:
    with pytest.raises(CorruptionError, match="tomb"):
        read_tombstone_file(body, key="tomb")
