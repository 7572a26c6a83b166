"""Rows of history: their keys, their bytes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb.errors import CorruptionError
from wormdb.format import json
from wormdb.format.block import Row, write_block
from wormdb.format.blockread import open_block, read_columns, read_documents
from wormdb.format.entry import LoggedChange
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.membership import MembershipFilter
from wormdb.format.past import (
    HISTORY_COLUMNS,
    SnapshotMark,
    Version,
    decode_past,
    encode_past,
    first_ms,
    misc_ms,
    misc_of,
    operation_of,
    past_from,
    past_id,
    past_key,
    past_range,
)
from wormdb.format.sidecar import decode_sidecar
from wormdb.format.wrappers import moment
from wormdb.settings import DOCUMENT_DEPTH_MAX
from wormdb.testing.strategies import documents, ids

MISC = (1_700_000_000_123_456 << 8) | 7

counts = st.integers(1, 2**53)


@st.composite
def versions(draw: st.DrawFn) -> Version:
    document = {"_id": draw(ids()), **draw(documents())}
    op: Any = draw(st.sampled_from(["create", "update", "delete", "restore", "purge"]))
    return Version(
        json.encode(document["_id"]),
        draw(counts),
        draw(counts),
        op,
        draw(st.integers(0, 2**63 - 1)),
        draw(st.none() | st.text()),
        json.encode(draw(documents())) if draw(st.booleans()) else None,
        snapshot=draw(st.booleans()),
        document=None if op in ("delete", "purge") else json.encode(document),
    )


taken = st.builds(
    SnapshotMark, ids().map(json.encode), counts, counts, st.integers(0, 2**63 - 1), st.none() | st.text()
)


@given(versions() | taken)
def test_a_row_comes_back_as_it_was(row: Version | SnapshotMark) -> None:
    stored = encode_past(row)
    assert decode_past(stored, name="x") == row
    assert misc_of(stored, name="x") == row.misc


@settings(max_examples=40)
@given(versions())
def test_a_row_is_an_ordinary_document(version: Version) -> None:
    found = json.decode_document(encode_past(version), name="x")
    assert list(found)[:5] == ["_id", "op", "rev", "ts", "misc"]
    assert found["ts"] == moment(misc_ms(version.misc))
    assert encode_key(found["_id"]) == past_key(encode_key(json.decode(version.id, name="x")), version.seq)
    assert ("doc" in found) == (version.document is not None)


@given(ids(), counts, ids(), counts, counts)
def test_rows_sort_by_document_then_version_then_marks(one: Any, seq: int, two: Any, other: int, rev: int) -> None:
    first, second = encode_key(one), encode_key(two)
    expected = (first, seq) < (second, other)
    assert (past_key(first, seq) < past_key(second, other)) == expected
    mark = past_key(first, seq, taken=rev)
    assert mark == encode_key({"d": one, "s": seq, "t": rev})
    assert past_key(first, seq) < mark < past_key(first, seq + 1)
    low, high = past_range(first)
    assert low < past_key(first, seq) < mark
    assert high is None or mark < high
    assert (low <= past_key(second, other) and (high is None or past_key(second, other) < high)) == (first == second)


@given(ids(), ids())
def test_a_range_of_ids_is_a_range_of_rows(one: Any, two: Any) -> None:
    bound, key = encode_key(one), encode_key(two)
    for cut in (0, 1, 2, len(bound) // 2, len(bound)):
        assert (past_from(bound[:cut]) <= past_key(key, 1)) == (bound[:cut] <= key)


def test_the_deepest_document_has_a_history() -> None:
    document = b'{"_id":1,"a":' + b"[" * (DOCUMENT_DEPTH_MAX - 1) + b"]" * (DOCUMENT_DEPTH_MAX - 1) + b"}"
    version = Version(b"1", 1, 1, "create", MISC, document=document)
    block = write_block([row_of(version)], HISTORY_COLUMNS)
    (found,) = read_documents(open_block(block.parquet, name="x", sha256=block.sha256))
    assert found.document is not None
    assert decode_past(found.document, name="x") == version


def row_of(version: Version | SnapshotMark) -> Row:
    return Row(json.decode(past_id(version), name="x"), version.rev, version.seq, encode_past(version))


def test_other_readers_see_columns_and_a_filter_over_documents() -> None:
    rows: list[Version | SnapshotMark] = [
        Version(b'"a"', 1, 3, "create", MISC, "ada", b'{"why":1}', snapshot=True, document=b'{"_id":"a"}'),
        SnapshotMark(b'"a"', 1, 9, MISC, "bob"),
        Version(b'"a"', 2, 5, "delete", MISC),
    ]
    members = [encode_key("a")] * 3
    block = write_block([row_of(row) for row in rows], HISTORY_COLUMNS, members=members)
    opened = open_block(block.parquet, name="x", sha256=block.sha256)
    assert read_columns(opened, ["op", "ts", "actor", "snapshot", "_rev", "_seq"]) == {
        "op": ["create", "snapshot", "delete"],
        "ts": [moment(1_700_000_000_123)] * 3,
        "actor": ["ada", "bob", MISSING],
        "snapshot": [True, MISSING, MISSING],
        "_rev": [3, 9, 5],
        "_seq": [1, 1, 2],
    }
    assert first_ms(block.entry("x", "x", kind="delta")) == 1_700_000_000_123
    assert first_ms(write_block([row_of(rows[0])]).entry("x", "x", kind="delta")) is None
    sidecar = decode_sidecar(block.sidecar, name="x", identity=block.sha256.hex(), block="x")
    assert len(sidecar.membership) == len(MembershipFilter.build(members)) == 1
    assert sidecar.membership.might_contain(encode_key("a"))


@pytest.mark.parametrize(
    ("change", "op"),
    [
        (LoggedChange(id=b"1", seq=1, after=b"{}"), "create"),
        (LoggedChange(id=b"1", seq=2, before=b"{}", after=b"{}"), "update"),
        (LoggedChange(id=b"1", seq=2, before=b"{}"), "delete"),
        (LoggedChange(id=b"1", seq=2, after=b"{}", op="restore"), "restore"),
        (LoggedChange(id=b"1", seq=2, op="purge"), "purge"),
    ],
)
def test_the_operation_of_a_change(change: LoggedChange, op: str) -> None:
    assert operation_of(change) == op


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff",
        b'{"_id":{"d":1,"s":1},"op":"eat","rev":1,"misc":1,"doc":{}}',
        b'{"_id":{"d":1,"s":1},"op":"create","rev":-1,"misc":1,"doc":{}}',
        b'{"_id":{"d":1},"op":"create","rev":1,"misc":1,"doc":{}}',
        b'{"_id":{"d":1,"s":1},"op":"create","rev":1,"misc":1}',
        b'{"_id":{"d":1,"s":1},"op":"delete","rev":1,"misc":1,"doc":{}}',
        b'{"_id":{"d":1,"s":1},"op":"snapshot","rev":1,"misc":1}',
        b'{"_id":{"d":1,"s":1,"t":2},"op":"snapshot","rev":1,"misc":1}',
        b'{"_id":{"d":1,"s":1,"t":1},"op":"create","rev":1,"misc":1,"doc":{}}',
    ],
)
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="history/x") as caught:
        decode_past(data, name="history/x")
    assert caught.value.key == "history/x"


def test_damage_is_noticed_when_only_the_time_is_read() -> None:
    with pytest.raises(CorruptionError, match="history/x"):
        misc_of(b'{"misc":-1}', name="history/x")


def test_a_row_without_a_number_gets_that_of_its_job() -> None:
    version = Version(b'"a"', 3, 0, "update", 7, document=b'{"_id":"a"}')
    mark = SnapshotMark(b'"a"', 3, 0, 9)
    for row, rev in ((version, 12), (mark, 12), (version, 0)):
        found = decode_past(encode_past(row), name="x", rev=rev)
        assert (found.rev, found.seq, found.misc) == (rev, row.seq, row.misc)
    numbered = Version(b'"a"', 3, 5, "update", 7, document=b'{"_id":"a"}')
    assert decode_past(encode_past(numbered), name="x", rev=12) == numbered
