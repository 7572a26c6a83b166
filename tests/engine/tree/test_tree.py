from __future__ import annotations

import pytest

from tests.engine.tree.rig import Shelf, numbered
from wormdb.engine.tree.entries import Range
from wormdb.engine.tree.nodes import NodeLimits, Tree

COUNT = 1000


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return Shelf(NodeLimits(4, 4 * 256))


@pytest.fixture(scope="module")
def tree(shelf: Shelf) -> Tree:
    """1,000 entries in leaves of 4, below nodes of 4: five levels."""
    loaded = shelf.load((numbered(number), b"%d" % number) for number in range(COUNT))
    assert loaded.height == 5
    return loaded


def test_a_get_reads_one_node_a_level(shelf: Shelf, tree: Tree) -> None:
    for number in (0, 3, 4, 500, COUNT - 1):
        before = shelf.gets()
        assert shelf.reader(tree).get(numbered(number)) == b"%d" % number
        assert shelf.gets() - before == tree.height
    before = shelf.gets()
    assert shelf.reader(tree).get(b"absent") is None
    assert shelf.gets() - before == tree.height


def test_many_keys_share_the_nodes_above_them(shelf: Shelf, tree: Tree) -> None:
    before = shelf.gets()
    assert shelf.reader(tree).get_many([numbered(1), b"absent", numbered(0), numbered(2)]) == [b"1", None, b"0", b"2"]
    assert shelf.gets() - before == tree.height
    before = shelf.gets()
    assert shelf.reader(tree).get_many([numbered(0), numbered(COUNT - 1)]) == [b"0", b"999"]
    assert shelf.gets() - before == 2 * tree.height - 1


def test_a_count_reads_the_two_ends_only(shelf: Shelf, tree: Tree) -> None:
    for first, last in [(0, COUNT), (1, COUNT - 1), (17, 18), (100, 901), (333, 333), (4, 996)]:
        before = shelf.gets()
        assert shelf.reader(tree).count(Range(numbered(first), numbered(last))) == last - first
        assert shelf.gets() - before <= 2 * tree.height


def test_a_count_of_everything_or_nothing_reads_nothing(shelf: Shelf, tree: Tree) -> None:
    before = shelf.gets()
    assert shelf.reader(tree).count() == COUNT
    assert shelf.reader(tree).count(Range(b"b", b"a")) == 0
    assert list(shelf.reader(tree).scan(Range(b"b", b"b"))) == []
    assert list(shelf.reader(tree).scan(limit=0)) == []
    assert shelf.reader(tree).ranges([Range(b"b", b"a")]) == [[]]
    assert shelf.gets() == before


def test_an_empty_tree_reads_nothing(shelf: Shelf) -> None:
    before = shelf.gets()
    reader = shelf.reader(Tree())
    assert reader.get(b"a") is None
    assert reader.get_many([b"a"]) == [None]
    assert list(reader.scan()) == list(reader.prefix(b"")) == []
    assert reader.count() == 0
    assert shelf.gets() == before


@pytest.mark.parametrize("reverse", [False, True])
def test_a_limit_reads_no_leaf_more_than_needed(shelf: Shelf, tree: Tree, reverse: bool) -> None:
    before = shelf.gets()
    entries = list(shelf.reader(tree).scan(reverse=reverse, limit=3))
    assert [value for _, value in entries] == ([b"999", b"998", b"997"] if reverse else [b"0", b"1", b"2"])
    assert shelf.gets() - before == tree.height
    before = shelf.gets()
    assert len(list(shelf.reader(tree).scan(reverse=reverse, limit=11))) == 11
    assert shelf.gets() - before <= tree.height + 2


def test_a_scan_that_is_dropped_has_read_little(shelf: Shelf, tree: Tree) -> None:
    before = shelf.gets()
    next(shelf.reader(tree).scan())
    assert shelf.gets() - before == tree.height


def test_a_whole_scan_reads_each_node_once(shelf: Shelf, tree: Tree) -> None:
    before = shelf.gets()
    assert sum(1 for _ in shelf.reader(tree).scan()) == COUNT
    assert shelf.gets() - before == len(shelf.names())


def test_ranges_come_in_the_order_asked_whichever_leaf_they_share(shelf: Shelf, tree: Tree) -> None:
    spans = [Range(numbered(30), numbered(50)), Range(numbered(10), numbered(40)), Range(numbered(49), numbered(50))]
    found = shelf.reader(tree).ranges(spans)
    assert [[int(value) for _, value in entries] for entries in found] == [
        list(range(30, 50)),
        list(range(10, 40)),
        [49],
    ]


def test_prefixes(shelf: Shelf, tree: Tree) -> None:
    reader = shelf.reader(tree)
    assert [int(value) for _, value in reader.prefix(b"key-0000002")] == list(range(20, 30))
    assert [int(value) for _, value in reader.prefix(b"key-0000002", reverse=True, limit=2)] == [29, 28]
    assert [[int(value) for _, value in found] for found in reader.prefix_many([b"key-0000099", b"no"])] == [
        list(range(990, 1000)),
        [],
    ]


def test_a_range_that_ends_where_leaves_do_reads_nothing_beside_it(shelf: Shelf, tree: Tree) -> None:
    """Leaves hold 4 keys each; separators are the keys' shortest beginnings, so the range is given by those."""
    top = tree.top
    assert top is not None
    children = [top]
    separators: set[bytes] = set()
    for _ in range(tree.height - 1):
        inners = shelf.nodes().inners(children)
        separators.update(key for inner in inners for key in inner.keys)
        children = [child for inner in inners for child in inner.children]
    first, last = sorted(separators)[100:102]
    before = shelf.gets()
    assert len(list(shelf.reader(tree).scan(Range(first, last)))) == 4
    assert shelf.gets() - before == tree.height
    before = shelf.gets()
    assert shelf.reader(tree).count(Range(first, last)) == 4
    assert shelf.gets() - before == tree.height - 1


@pytest.mark.parametrize("count", [0, 1, 5, 200])
def test_every_node_is_named_and_only_those_above_the_leaves_are_read(count: int) -> None:
    shelf = Shelf()
    tree = shelf.load((numbered(number), b"") for number in range(count))
    before = shelf.gets()
    named = list(shelf.reader(tree).refs())
    assert shelf.gets() - before == sum(1 for _, level in named if level > 1)
    assert {child.name for child, _ in named} == shelf.names()
    assert len(named) == len(shelf.names())
    leaves = list(shelf.reader(tree).leaf_refs())
    assert leaves == [child for child, level in named if level == 1]
    assert [key for leaf in shelf.nodes().leaves(leaves) for key in leaf.keys] == [
        numbered(number) for number in range(count)
    ]
