from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tree.rig import FOLDER, Shelf, numbered
from wormdb.engine.tree.nodes import NodeLimits, StoreNodes, Tree, fetch_object, separator
from wormdb.errors import CorruptionError, NotFoundError, SnapshotTooOldError
from wormdb.format.node import Child, Inner, Leaf
from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import ThreadPool


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_a_separator_is_the_shortest_key_between(one: bytes, other: bytes) -> None:
    if one == other:
        return
    left, right = sorted((one, other))
    found = separator(left, right)
    assert left < found <= right
    assert not any(left < right[:length] for length in range(len(found)))


sizes = st.lists(st.integers(0, 300), min_size=1, max_size=120)


@given(sizes, st.integers(4, 20), st.sampled_from([1, 2]))
def test_parts_are_even_and_none_is_over_or_small(sizes: list[int], entries: int, least: int) -> None:
    limits = NodeLimits(entries, entries * 32)
    ends = limits.cuts(sizes, least)
    parts = [sizes[start:stop] for start, stop in zip([0, *ends[:-1]], ends, strict=True)]
    assert [size for part in parts for size in part] == sizes
    if len(parts) == 1:
        assert not limits.is_over(len(sizes), sum(sizes)) or len(sizes) < 2 * least
        return
    assert all(len(part) >= least for part in parts)
    weights = [sum(max(32, size) for size in part) for part in parts]
    heaviest = max(32, *sizes)
    # No part weighs more than a full node and the entries that cannot be cut.
    assert max(weights) <= limits.target + least * heaviest


@given(st.integers(1, 400), st.integers(4, 30))
def test_short_entries_are_cut_by_their_number_alone(count: int, entries: int) -> None:
    ends = NodeLimits(entries, entries * 32).cuts([8] * count, 1)
    lengths = [after - before for before, after in pairwise([0, *ends])]
    assert max(lengths) <= entries * 1.5
    assert max(lengths) - min(lengths) <= 1
    assert len(lengths) == 1 or min(lengths) >= entries // 2


def test_a_leaf_and_an_inner_node_come_back() -> None:
    shelf = Shelf()
    leaf = Leaf((b"a", b"b"), (b"1", b"2"))
    new, child = shelf.maker.make(leaf)
    above, parent = shelf.maker.make(Inner((b"m",), (child, child)))
    shelf.write([new, above])
    assert (child.count, parent.count) == (2, 4)
    assert shelf.nodes().leaves([child, child]) == [leaf, leaf]
    assert shelf.nodes().inners([parent]) == [Inner((b"m",), (child, child))]
    assert new.ref.length == len(new.body)


def two_nodes() -> tuple[Shelf, Child, Child]:
    shelf = Shelf()
    new, child = shelf.maker.make(Leaf((b"a",), (b"1",)))
    above, parent = shelf.maker.make(Inner((), (child,)))
    shelf.write([new, above])
    return shelf, child, parent


def test_a_node_is_asked_for_once_in_one_call_and_held_as_memory_allows() -> None:
    shelf, child, parent = two_nodes()
    before = shelf.gets()
    shelf.nodes().leaves([child] * 3)
    assert shelf.gets() - before == 1
    nodes = shelf.nodes(memory_bytes_max=10_000)
    for _ in range(3):
        nodes.leaves([child])
        nodes.inners([parent])
    assert shelf.gets() - before == 3


def test_what_was_used_longest_ago_is_dropped_first() -> None:
    shelf = Shelf()
    made = [shelf.maker.make(Leaf((b"%d" % number,), (b"",))) for number in range(3)]
    shelf.write(new for new, _ in made)
    first, second, third = (child for _, child in made)
    nodes = shelf.nodes(memory_bytes_max=250)
    for child in (first, second, first, third):
        nodes.leaves([child])
    before = shelf.gets()
    nodes.leaves([first])
    nodes.leaves([third])
    assert shelf.gets() == before
    nodes.leaves([second])
    assert shelf.gets() == before + 1


def test_a_node_of_the_wrong_level_is_damage() -> None:
    shelf, child, parent = two_nodes()
    with pytest.raises(CorruptionError, match="should be a leaf") as caught:
        shelf.nodes().leaves([child, parent])
    assert caught.value.key == FOLDER + parent.name
    with pytest.raises(CorruptionError, match="should be an inner node") as caught:
        shelf.nodes().inners([parent, child])
    assert caught.value.key == FOLDER + child.name


def test_other_bytes_than_named_are_damage_even_if_they_are_a_node() -> None:
    shelf, child, _ = two_nodes()
    new, other = shelf.maker.make(Leaf((b"z",), (b"1",)))
    shelf.store.put(FOLDER + child.name, new.body)
    with pytest.raises(CorruptionError, match="SHA-256") as caught:
        shelf.nodes().leaves([child])
    assert caught.value.key == FOLDER + child.name
    with pytest.raises(CorruptionError, match="it should be"):
        shelf.nodes().leaves([Child(child.name, other.sha256, 1)])


def test_a_node_that_is_gone_means_that_the_tree_is_old() -> None:
    shelf, child, _ = two_nodes()
    shelf.remove([child])
    with pytest.raises(SnapshotTooOldError) as caught:
        shelf.nodes().leaves([child])
    assert caught.value.key == FOLDER + child.name


def test_a_missing_bucket_is_not_taken_for_a_missing_node(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    def fail(key: str) -> None:
        raise NotFoundError("bucket", key=None)

    monkeypatch.setattr(store, "get", fail)
    with pytest.raises(NotFoundError):
        fetch_object(store, "a/b", bytes(32))


def test_nodes_are_read_side_by_side() -> None:
    shelf = Shelf()
    tree = shelf.load((numbered(number), b"") for number in range(200))
    pool = ThreadPool(4)
    nodes = StoreNodes(shelf.store, FOLDER, pool=pool, scope="c0ffee/")
    top = tree.top
    assert top is not None
    children = nodes.inners([top])[0].children
    assert [inner.children for inner in nodes.inners(children)] == [
        inner.children for inner in shelf.nodes().inners(children)
    ]
    pool.close()


def test_an_empty_tree_has_no_top() -> None:
    assert Tree().top is None
