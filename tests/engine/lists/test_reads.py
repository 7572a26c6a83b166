"""What reading lists costs, and lists that are large: objects of several parts, ids in pages, long histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from tests.engine.lists.rig import BUCKETS, LOOSE, WORDS, expected_lists, shown_lists, with_kinds
from tests.engine.lists.test_lists import MANUAL, create, process, reader_of, stored
from tests.engine.rig import Rig, contents, insert, remove, save
from wormdb.engine.blocks.shelf import ColumnCache
from wormdb.engine.lists import merge, shelf
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.read import read_lists
from wormdb.engine.state.projection import Sizes
from wormdb.errors import InvalidRequestError
from wormdb.format import list_part
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.tree.definition import Index

with_kinds()
LARGE = Sizes(block_target=100_000, run_smallest=1)


@pytest.fixture
def tiny() -> Iterator[None]:
    """Objects are read by their pages, have few of them, and a few make a run."""
    with (
        mock.patch.object(shelf, "WHOLE_BYTES_MAX", 0),
        mock.patch.object(shelf, "GAP_BYTES_MAX", 0),
        mock.patch.object(shelf, "STREAM_BYTES", 300),
        mock.patch.object(list_part, "PAGE_BYTES", 60),
        mock.patch.object(merge, "IDS_PER_PAGE", 4),
        mock.patch("wormdb.engine.lists.read.IDS_PER_PAGE", 4),
        mock.patch.object(merge.RunWriter, "__init__", _small_parts(merge.RunWriter.__init__)),
    ):
        yield


def _small_parts(init: Any) -> Any:
    def small(self: Any, folder: Any, kind: Any, writer: Any, part_bytes: int = 150) -> None:
        init(self, folder, kind, writer, part_bytes)

    return small


def written(rig: Rig, ledger: Ledger, count: int = 40) -> None:
    """Two runs: the second takes back some of the first."""
    texts = {number: f"red w{number % 9} x{number}" for number in range(count)}
    ledger.commit(rig.batch(*(insert(f"d{n:03d}", text=text, n=n) for n, text in texts.items())))
    ledger.forward()
    ledger.commit(rig.batch(save("d003", text="red blue", n=77), remove("d004"), save("d005", text="w5", n=5)))
    ledger.forward()


def check(ledger: Ledger, index: Index) -> None:
    documents = {key: values for key, (_, _, values) in contents(ledger.view()).items() if values is not None}
    reader = reader_of(ledger, index)
    kind: Any = kind_for(index)
    wanted = expected_lists(kind, reader.trained(), documents)
    assert shown_lists(reader) == wanted
    for key in (*wanted, b"nothing"):
        found = reader.read([key])
        assert sum(one.count for one in found.get(key, ())) == len(wanted.get(key, {}))
        assert {identity for one in found.get(key, ()) for identity in _shown(reader, one)} == wanted.get(
            key, {}
        ).keys()


def _shown(reader: Any, one: Any) -> list[bytes]:
    return [identity for place, identity in enumerate(reader.all_ids(one)) if place not in one.hidden]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("index", [WORDS, LOOSE, BUCKETS], ids=lambda index: index.name)
def test_lists_in_many_objects_pages_and_runs_are_read_and_merged(index: Index) -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, sizes=LARGE, columns=ColumnCache(1 << 20))
    create(rig, ledger, index)
    written(rig, ledger)
    head = stored(rig, index).lists
    assert head is not None
    assert len(head.runs) == 2
    assert len(head.runs[1].parts) > 3 or index is BUCKETS  # without training there is one list
    check(ledger, index)
    for turn in range(5):
        ledger.commit(rig.batch(save(f"d{turn:03d}", text=f"green w{turn}", n=turn * 3), save(f"e{turn}", text="red")))
        ledger.forward()
        check(rig.ledger(limits=MANUAL, sizes=LARGE), index)
    assert len(stored(rig, index).lists.runs) < 6  # type: ignore[union-attr]  # it is lists


@pytest.mark.usefixtures("tiny")
def test_documents_that_are_gone_leave_the_ids_of_runs() -> None:
    rig = Rig()
    ledger = process(rig)
    create(rig, ledger, WORDS)
    for turn in range(12):
        ledger.commit(rig.batch(insert(f"d{turn}", text="red"), *((remove(f"d{turn - 1}"),) if turn else ())))
        ledger.forward()
    head = stored(rig, WORDS).lists
    assert head is not None
    assert head.entries == 1
    assert sum(run.documents for run in head.runs) < 8


def test_small_lists_cost_one_request_an_object_and_then_nothing() -> None:
    rig = Rig()
    writer = rig.ledger(limits=MANUAL, sizes=LARGE)
    create(rig, writer, WORDS, BUCKETS)
    written(rig, writer)
    store = FaultStore(rig.store)
    ledger = rig.ledger(store, limits=MANUAL, columns=ColumnCache(1 << 20))
    view = ledger.view()
    words, buckets = (read_lists(view, index, ledger.trees.lists) for index in (WORDS, BUCKETS))
    assert words is not None
    assert buckets is not None
    start = len(store.trace)
    assert sum(one.count for one in words.read([b"red"])[b"red"]) == 38
    assert [trace.verb for trace in store.trace[start:]] == ["get"] * 4  # two runs, of each the lists and the ids
    start = len(store.trace)
    words.read([b"red", b"blue", b"w5"])
    words.read_range(b"w")
    assert store.trace[start:] == ()
    found = buckets.read([b"0000"])[b"0000"]
    assert len(buckets.ids([(one, place) for one in found for place in range(one.entries.count)])) == 41
    assert [trace.verb for trace in store.trace[start:]] == ["get"] * 2


def test_large_lists_cost_the_directory_and_then_ranges() -> None:
    rig = Rig()
    writer = rig.ledger(limits=MANUAL, sizes=LARGE)
    create(rig, writer, BUCKETS)
    for number in range(0, 40, 4):  # a list of its own for every fourth number would need training: so one list
        writer.commit(rig.batch(insert(f"d{number:03d}", n=number)))
    writer.forward()
    with mock.patch.object(shelf, "WHOLE_BYTES_MAX", 0):
        store = FaultStore(rig.store)
        ledger = rig.ledger(store, limits=MANUAL, columns=ColumnCache(1 << 20))
        reader = read_lists(ledger.view(), BUCKETS, ledger.trees.lists)
        assert reader is not None
        start = len(store.trace)
        reader.prepare()
        assert [trace.verb for trace in store.trace[start:]] == ["get_range"]
        start = len(store.trace)
        assert reader.read([b"0000"])[b"0000"][0].count == 10
        assert [trace.verb for trace in store.trace[start:]] == ["get_range"]
        start = len(store.trace)
        reader.read([b"0000"])
        assert store.trace[start:] == ()


def test_a_step_writes_one_object_an_index_and_reads_nothing() -> None:
    rig = Rig()
    writer = rig.ledger(limits=MANUAL, sizes=LARGE)
    create(rig, writer, BUCKETS)
    written(rig, writer)
    writer.commit(rig.batch(save("d006", n=200), remove("d007")))
    store = FaultStore(rig.store)
    ledger = rig.ledger(store, limits=MANUAL, sizes=LARGE)
    ledger.view()
    start = len(store.trace)
    ledger.forward()
    lists = [trace for trace in store.trace[start:] if "indexes/" in trace.key]
    assert [trace.verb for trace in lists] == ["put"]


def test_too_many_lists_of_a_prefix_are_refused() -> None:
    rig = Rig()
    ledger = process(rig)
    create(rig, ledger, WORDS)
    written(rig, ledger)
    reader = reader_of(ledger, WORDS)
    assert len(reader.read_range(b"w", lists_max=9)) == 9
    with pytest.raises(InvalidRequestError, match="there are 9, and 8 are allowed"):
        reader.read_range(b"w", lists_max=8)


def test_a_tail_is_given_as_documents_and_masks_its_entries() -> None:
    rig = Rig()
    ledger = process(rig)
    create(rig, ledger, WORDS)
    written(rig, ledger)
    ledger.commit(rig.batch(save("d000", text="late"), remove("d001")))
    reader = reader_of(ledger, WORDS)
    assert [held.id for held in reader.tail] == [b'"d000"']
    assert len(reader.touched) == 2
    assert reader.tally() == (38, 38 * 3 - 2 - 1 - 2)
    assert shown_lists(reader)[b"late"].keys() == {b'"d000"'}
