"""Documents that were found near to something, as they are kept: those of one state, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.engine.lists.known import KnownRow, KnownRows
from wormdb.engine.state.view import StoredVersion
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Sequence

np = pytest.importorskip("numpy")

ROOMY = 1 << 20


class Store:
    """Documents by key, and how often each was asked for."""

    def __init__(self, **vectors: object) -> None:
        self.asked: list[bytes] = []
        self.held = {
            key.encode(): StoredVersion(json.encode(key), 1, 1, json.encode({"_id": key, "v": vector}))
            for key, vector in vectors.items()
        }

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        self.asked += keys
        return {key: self.held[key] for key in keys if key in self.held}


def numbers(rows: list[KnownRow | None]) -> list[list[float] | None]:
    return [None if row is None else row.numbers.tolist() for row in rows]


def test_a_document_is_fetched_once_also_one_that_is_not_there() -> None:
    store, known = Store(a=[1.5, 2.0], b=[0.0, 3.0], c="no vector"), KnownRows(("v",), 2, ROOMY)
    for keys in ([b"a", b"x"], [b"b", b"a", b"c"], [b"x", b"c", b"b"]):
        found = known.find(keys, store.fetch)
        assert numbers(found) == [{b"a": [1.5, 2.0], b"b": [0.0, 3.0]}.get(key) for key in keys]
    assert store.asked == [b"a", b"x", b"b", b"c"]
    (row,) = known.find([b"a"], store.fetch)
    assert row is not None
    assert (row.length, row.held) == (2.5, store.held[b"a"])


def test_of_another_state_only_what_is_the_same_is_taken_over() -> None:
    before, after = Store(a=[1.0], b=[2.0], c=[3.0]), Store(a=[1.0], b=[5.0])
    older = KnownRows(("v",), 1, ROOMY)
    first = older.find([b"a", b"b", b"c"], before.fetch)
    known = KnownRows(("v",), 1, ROOMY, older)
    found = known.find([b"a", b"b", b"c"], after.fetch)
    assert numbers(found) == [[1.0], [5.0], None]
    assert after.asked == [b"a", b"b", b"c"], "whether it is still there must be asked"
    assert found[0] is not None
    assert first[0] is not None
    assert found[0].numbers is first[0].numbers, "it is not decoded again"
    assert found[0].held is after.held[b"a"]


@pytest.mark.parametrize("room", [0, 1_000, 3_000])
def test_no_more_is_kept_than_there_is_room_for(room: int) -> None:
    store = Store(**{f"d{each}": [float(each)] * 4 for each in range(40)})
    known = KnownRows(("v",), 4, room)
    for start in (0, 10, 20, 5, 30, 0):
        keys = [f"d{each}".encode() for each in range(start, start + 8)]
        assert numbers(known.find(keys, store.fetch)) == [[float(key[1:])] * 4 for key in keys]
        assert known.size <= room
