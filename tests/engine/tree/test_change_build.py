from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tree.rig import Shelf, numbered
from wormdb.engine.tree.change import BulkLoad, merged
from wormdb.engine.tree.nodes import NodeLimits, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.tree.entries import Entry
    from wormdb.format.node import Leaf


@given(st.integers(0, 700), st.integers(4, 12))
def test_every_count_makes_a_sound_tree_of_full_nodes(count: int, target: int) -> None:
    shelf = Shelf(NodeLimits(target, target * 256))
    entries = [(numbered(number), b"%d" % number) for number in range(count)]
    tree = shelf.load(entries)
    shelf.check(tree)
    assert tree.entries == count
    assert list(shelf.reader(tree).scan()) == entries
    height, nodes = 0, count
    while nodes > 1 or (height == 0 and nodes):
        height, nodes = height + 1, max(1, nodes // target)
    assert tree.height <= height + 1


@pytest.mark.parametrize(
    ("count", "leaves"), [(1, [1]), (15, [15]), (16, [8, 8]), (20, [10, 10]), (31, [10, 10, 11]), (35, [10, 10, 15])]
)
def test_no_last_leaf_is_left_small(count: int, leaves: list[int]) -> None:
    shelf = Shelf(NodeLimits(10, 10 * 256))
    tree = shelf.load((numbered(number), b"") for number in range(count))
    top = tree.top
    assert top is not None
    children = [top] if tree.height == 1 else shelf.nodes().inners([top])[0].children
    assert [len(leaf.keys) for leaf in shelf.nodes().leaves(children)] == leaves


@given(st.lists(st.integers(0, 600), max_size=120))
def test_nodes_stay_below_their_bytes(sizes: list[int]) -> None:
    shelf = Shelf(NodeLimits(8, 1024))
    entries = [(numbered(number) + b"x" * size, b"") for number, size in enumerate(sizes)]
    load = BulkLoad(entries, shelf.maker)
    shelf.write(load)
    shelf.check(load.tree)
    assert list(shelf.reader(load.tree).scan()) == entries
    small = [leaf for leaf in leaves_of(shelf, load.tree) if len(leaf.keys) < 2 and sum(map(len, leaf.keys)) < 256]
    assert not small or load.tree.height == 1
    assert all(len(leaf.keys) <= 12 for leaf in leaves_of(shelf, load.tree))
    assert all(sum(map(len, leaf.keys)) <= 1536 or len(leaf.keys) == 1 for leaf in leaves_of(shelf, load.tree))


def leaves_of(shelf: Shelf, tree: Tree) -> list[Leaf]:
    children = [] if tree.top is None else [tree.top]
    for _ in range(tree.height - 1):
        children = [child for inner in shelf.nodes().inners(children) for child in inner.children]
    return shelf.nodes().leaves(children)


def test_nodes_come_while_entries_are_read_and_children_before_their_parents() -> None:
    shelf = Shelf()
    taken = 0

    def entries() -> Iterator[Entry]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield numbered(number), b""

    load = BulkLoad(entries(), shelf.maker)
    nodes = iter(load)
    assert taken == 0
    for made in range(1, 100):
        shelf.write([next(nodes)])
        # Less than two nodes are held back on each level.
        assert taken <= 4 * made + 3 * 4
    shelf.write(nodes)
    shelf.check(load.tree)


def test_the_tree_is_there_when_all_nodes_were_taken() -> None:
    load = BulkLoad([(b"a", b"1")], Shelf().maker)
    with pytest.raises(AssertionError):
        _ = load.tree
    assert len(list(load)) == 1
    assert load.tree.entries == 1


def test_entries_out_of_order_are_our_own_mistake() -> None:
    for wrong in (3, 4, 9, 19):
        keys = [numbered(number) for number in range(20)]
        keys[wrong] = b"a"
        with pytest.raises(AssertionError, match="out of order"):
            list(BulkLoad([(key, b"") for key in keys], Shelf().maker))


def test_the_same_entries_make_the_same_bytes() -> None:
    entries = [(numbered(number), b"v") for number in range(300)]
    first, second = (list(BulkLoad(entries, Shelf().maker)) for _ in range(2))
    assert first == second


def test_trees_are_merged_without_being_held_in_memory() -> None:
    shelf = Shelf()
    entries = [(numbered(number * 7919 % 1000), b"%d" % number) for number in range(1000)]
    runs = [shelf.load(sorted(entries[start : start + 250])) for start in range(0, 1000, 250)]
    whole = shelf.load(merged(runs, shelf.nodes()))
    assert list(shelf.reader(whole).scan()) == sorted(entries)
    assert list(merged([], shelf.nodes())) == []
