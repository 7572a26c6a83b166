"""Reading a ready index over a view: the tree and the tail together are the index of the documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.commit.test_validate import definition_of
from tests.engine.rig import Rig, insert, remove, save
from tests.engine.tree.rig import span_of
from wormdb.engine.index.read import advance_reader, read_index
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.tree.entries import Range
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.format.key import encode_key
from wormdb.storage.pool import SerialPool
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.index.read import IndexReader
    from wormdb.engine.ledger import Ledger
    from wormdb.storage.store import Store

MODEL = definition_of(byN={"field": "n"}, byTags={"field": "tags", "type": "multiValue"})
PATHS = EnginePaths.of_collection("things/")

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.none() | st.tuples(st.integers(0, 4), st.lists(st.integers(0, 3), max_size=3)),
        st.booleans(),
    ),
    min_size=3,
    max_size=12,
)
OPERATIONS = st.tuples(CHANGES, CHANGES).map(
    # Some documents are in the tree, and the tail changes them: what is only in one of the two is the easy part.
    lambda both: [*both[0][:-1], (*both[0][-1][:2], True), *((*one[:2], False) for one in both[1])]
)


def reader(ledger: Ledger, store: Store, name: str) -> IndexReader:
    view = ledger.view()
    index = next(index for index in view.definition.indexes.ready if index.name == name)
    found = read_index(view, index, IndexShelf(store, PATHS, SerialPool()))
    assert found is not None
    return found


def ids(entries: Any) -> list[Any]:
    return [json.decode(value, name="id") for _, value in entries]


def model(documents: dict[int, tuple[int, list[int]]], name: str) -> list[tuple[int, int]]:
    """(value, id) for each entry that the index must have."""
    if name == "byN":
        return sorted((n, identity) for identity, (n, _) in documents.items())
    return sorted((tag, identity) for identity, (_, tags) in documents.items() for tag in set(tags))


@pytest.mark.parametrize("name", ["byN", "byTags"])
@given(operations=OPERATIONS, low=st.integers(-1, 5), high=st.integers(-1, 5), limit=st.integers(0, 5))
def test_tree_and_tail_are_the_index(
    name: str, operations: list[tuple[int, Any, bool]], low: int, high: int, limit: int
) -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("first", n=2, tags=[]), events=(SchemaChanged(definition=MODEL),)))
    ledger.commit(rig.batch(remove("first")))
    documents: dict[int, tuple[int, list[int]]] = {}
    followed, since = None, None
    for identity, values, forwarded in operations:
        if values is None:
            ledger.commit(rig.batch(remove(identity)))
            documents.pop(identity, None)
        else:
            ledger.commit(rig.batch(save(identity, n=values[0], tags=values[1])))
            documents[identity] = values
        if forwarded:
            ledger.forward()
            followed, since = reader(ledger, rig.store, name), ledger.view()
    assert followed is not None
    assert since is not None
    expected = model(documents, name)
    index = next(one for one in ledger.view().definition.indexes.ready if one.name == name)
    for place in range(since.number + 1, ledger.view().number + 1):
        # Brought from state to state it is what it is when it is read anew.
        later = replace(ledger.view(), number=LogNumber(place))
        followed, since = advance_reader(followed, since.number, later, index), later
    for found in (reader(ledger, rig.store, name), followed):
        check_reader(found, expected, low, high, limit)


def check_reader(found: IndexReader, expected: list[tuple[int, int]], low: int, high: int, limit: int) -> None:
    assert ids(found.scan()) == [identity for _, identity in expected]
    assert ids(found.scan(reverse=True)) == [identity for _, identity in reversed(expected)]
    span = span_of(encode_key(low), encode_key(high))
    inside = [identity for value, identity in expected if low <= value <= high]
    assert ids(found.scan(span)) == inside
    assert ids(found.scan(span, limit=limit)) == inside[:limit]
    assert ids(found.scan(span, reverse=True, limit=limit)) == inside[::-1][:limit]
    assert found.count(span) == len(inside)
    assert found.count() == len(expected)
    each = [Range.prefix(encode_key(value)) for value in range(5)]
    assert [ids(entries) for entries in found.ranges(each)] == [
        [identity for value, identity in expected if value == wanted] for wanted in range(5)
    ]


def test_attached_blocks_count_before_they_are_in_a_root() -> None:
    rig = Rig()
    ledger = rig.ledger(stage_bytes=1)
    ledger.commit(rig.batch(insert("a", n=1, tags=[1]), events=(SchemaChanged(definition=MODEL),)))
    ledger.commit(rig.batch(insert("b", n=1, tags=[2]), insert("c", n=0, tags=[1, 2])))
    assert ledger.known().overlay.attached(ledger.known().number) or ledger.known().place is not None
    found = reader(ledger, rig.store, "byN")
    assert ids(found.scan()) == ["c", "a", "b"]
    assert found.count(Range.prefix(encode_key(1))) == 2


def test_an_index_that_is_not_ready_gives_no_answer() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", n=1), events=(SchemaChanged(definition=MODEL),)))
    view = ledger.view()
    (index, _) = view.definition.indexes.ready
    older = rig.ledger().view()
    assert read_index(older, index, IndexShelf(rig.store, PATHS, SerialPool())) is not None
    other = definition_of(byN={"field": "m"})
    ledger.commit(rig.batch(events=(SchemaChanged(definition=other),)))
    changed = ledger.view()
    assert [status.state for status in changed.definition.indexes.unbuilt] in (["waiting"], [])
    assert read_index(changed, index, IndexShelf(rig.store, PATHS, SerialPool())) is None


def test_counting_reads_no_leaf_inside() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("x", n=1), events=(SchemaChanged(definition=MODEL),)))
    ledger.commit(rig.batch(*(insert(number, n=number, tags=[]) for number in range(20_000))))
    ledger.forward()
    store = rig.counted()
    found = reader(rig.ledger(store), store, "byN")
    before = store.requests
    assert found.count(span_of(encode_key(100), encode_key(19_000))) == 18_901
    assert store.requests - before == 3, "the root node and the leaves at both ends"
