"""List indexes under any history: what a reader shows is what the documents say, at every state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.lists.rig import BUCKETS, LOOSE, WORDS, expected_lists, shown_lists, with_kinds
from tests.engine.rig import Rig, contents, remove, save
from wormdb.engine.blocks.shelf import ColumnCache
from wormdb.engine.commit.define import create_index, drop_index
from wormdb.engine.forward.keeper import TailLimits
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.read import ListReader, read_lists
from wormdb.engine.state.projection import Sizes
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.tree.definition import Index
    from wormdb.format.root import IndexRoot

MANUAL = TailLimits(mode="manual", interval_ms=0)
TINY = Sizes(block_target=400, run_smallest=200)
ALL = (WORDS, LOOSE, BUCKETS)

with_kinds()


def process(rig: Rig, **more: Any) -> Ledger:
    return rig.ledger(limits=MANUAL, sizes=TINY, columns=ColumnCache(1 << 20), **more)


def create(rig: Rig, ledger: Ledger, *indexes: Index) -> None:
    for index in indexes:
        ledger.commit(create_index(rig.chance.token(16).hex(), index, seen=ledger.view()))


def reader_of(ledger: Ledger, index: Index) -> ListReader:
    found = read_lists(ledger.view(), index, ledger.trees.lists)
    if found is None:  # it knows a root from before the build: a scan would have to answer
        ledger.forget()
        found = read_lists(ledger.view(), index, ledger.trees.lists)
    assert found is not None
    return found


def check(ledger: Ledger, *indexes: Index) -> None:
    """Each index shows what the documents of the view say, and counts right."""
    documents = {key: values for key, (_, _, values) in contents(ledger.view()).items() if values is not None}
    for index in indexes:
        reader = reader_of(ledger, index)
        kind = kind_for(index)
        assert shown_lists(reader) == expected_lists(kind, reader.trained(), documents)  # type: ignore[arg-type]  # of the rig
        told = [kind.tally({"_id": key, **values}) for key, values in documents.items()]
        sums = tuple(map(sum, zip(*told, strict=True)))
        assert reader.tally() in ((sums,) if any(sums) else ((), sums, (0,) * len(reader.tally())))


def stored(rig: Rig, index: Index) -> IndexRoot:
    root = rig.register.read().root
    found = None if root is None else root.index(index.name)
    assert found is not None
    return found


names = st.sampled_from("abcdefgh")
words = st.lists(st.sampled_from(["red", "green", "blue", "redder", "re"]), max_size=4).map(" ".join)
values = st.fixed_dictionaries({}, optional={"text": words, "n": st.integers(0, 30)})
steps = st.lists(
    st.one_of(
        st.tuples(st.just("save"), names, values),
        st.tuples(st.just("remove"), names, st.none()),
        st.tuples(st.just("bulk"), names, values),
        st.tuples(st.just("forward"), st.none(), st.none()),
        st.tuples(st.just("create"), st.none(), st.none()),
        st.tuples(st.just("look"), st.none(), st.none()),
    ),
    max_size=25,
)


def _write(rig: Rig, ledger: Ledger, verb: str, name: str, given_values: Any) -> None:
    if verb == "save":
        ledger.commit(rig.batch(save(name, **given_values)))
    elif verb == "remove":
        ledger.commit(rig.batch(remove(name)))
    elif verb == "bulk":  # large enough to be staged as blocks, which an entry attaches
        ledger.commit(rig.batch(*(save(other, **given_values, pad="p" * 90) for other in (name, "x", "y", "z"))))
    else:
        ledger.forward()


@settings(max_examples=30, deadline=None)
@given(steps=steps, early=st.booleans())
def test_lists_show_what_the_documents_say_whatever_was_written_forwarded_and_merged(
    steps: list[tuple[str, str, Any]], early: bool
) -> None:
    rig = Rig()
    one, other = process(rig, stage_bytes=150), process(rig, stage_bytes=150)
    is_there = early
    if early:
        create(rig, one, *ALL)
    for turn, (verb, name, given_values) in enumerate(steps):
        ledger = one if turn % 3 else other
        if verb in {"save", "remove", "bulk", "forward"}:
            _write(rig, ledger, verb, name, given_values)
        elif verb == "create" and not is_there:
            create(rig, ledger, *ALL)
            ledger.forward()
            is_there = True
        elif is_there:
            check(ledger, *ALL)
    if not is_there:
        create(rig, one, *ALL)
        one.forward()
    check(process(rig), *ALL)
    one.forward()
    check(process(rig), *ALL)
    other.forward()
    check(other, *ALL)
    for index in ALL:
        head = stored(rig, index).lists
        assert head is not None
        assert head.entries == sum(map(len, shown_lists(reader_of(one, index)).values()))
        assert not head.runs or head.runs[-1].gone == 0


def test_an_index_of_an_empty_collection_is_ready_at_once() -> None:
    rig = Rig()
    ledger = process(rig)
    create(rig, ledger, WORDS)
    assert [index.name for index in ledger.view().definition.indexes.lists] == ["byWord"]
    assert ledger.view().definition.indexes.ready == ()
    ledger.commit(rig.batch(save("a", text="red red")))
    check(ledger, WORDS)


def test_a_document_that_cannot_be_indexed_is_refused_at_commit() -> None:
    rig = Rig()
    ledger = process(rig)
    create(rig, ledger, WORDS)
    with pytest.raises(InvalidRequestError, match="text must be a string"):
        ledger.commit(rig.batch(save("a", text=5)))
    assert contents(ledger.view()) == {}


def test_a_build_over_a_document_that_cannot_be_indexed_fails_with_the_reason() -> None:
    rig = Rig()
    ledger = process(rig)
    ledger.commit(rig.batch(save("a", text=5)))
    create(rig, ledger, WORDS)
    ledger.forward()
    status = ledger.view().definition.indexes.get("byWord")
    assert status is not None
    assert (status.state, status.reason) == ("failed", "document 'a': text must be a string")


def test_a_dropped_index_leaves_nothing_that_the_root_names() -> None:
    rig = Rig()
    ledger = process(rig)
    create(rig, ledger, WORDS)
    ledger.commit(rig.batch(save("a", text="red")))
    ledger.forward()
    head = stored(rig, WORDS).lists
    assert head is not None
    ledger.commit(drop_index(rig.chance.token(16).hex(), "byWord", seen=ledger.view()))
    ledger.forward()
    root = rig.register.read().root
    assert root is not None
    assert {f"indexes/byWord/{name}" for name in head.names} <= {one.name for one in root.retired}
    assert stored(rig, WORDS).lists is not None
    assert not stored(rig, WORDS).lists.runs  # type: ignore[union-attr]  # said above
    assert read_lists(ledger.view(), WORDS, ledger.trees.lists) is None
