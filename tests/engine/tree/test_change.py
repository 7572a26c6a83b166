from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tree.rig import Shelf, numbered
from wormdb.engine.tree.change import TreeChange, apply
from wormdb.engine.tree.nodes import NodeLimits, Tree
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from wormdb.engine.tree.entries import Change

LIMITS = NodeLimits(16, 16 * 256)


def loaded(count: int, limits: NodeLimits = LIMITS) -> tuple[Shelf, Tree]:
    shelf = Shelf(limits)
    return shelf, shelf.load((numbered(2 * number), b"v") for number in range(count))


def contents(shelf: Shelf, tree: Tree) -> dict[bytes, bytes]:
    shelf.check(tree)
    return dict(shelf.reader(tree).scan())


def test_one_change_rewrites_one_path() -> None:
    shelf, tree = loaded(4000)
    assert tree.height == 3
    before = shelf.gets()
    applied = shelf.apply(tree, [(numbered(4000), b"new")])
    assert shelf.gets() - before == tree.height
    assert (len(applied.written), len(applied.retired)) == (3, 3)
    assert contents(shelf, applied.tree) == contents(shelf, tree) | {numbered(4000): b"new"}


def test_many_changes_in_one_leaf_rewrite_it_once() -> None:
    shelf, tree = loaded(4000)
    changes: list[Change] = [(numbered(number), b"new") for number in (4000, 4002, 4004)]
    applied = shelf.apply(tree, changes)
    assert (len(applied.written), len(applied.retired)) == (3, 3)


@pytest.mark.parametrize("count", [1, 10, 100, 1000, 10_000])
def test_a_batch_writes_little_more_than_the_leaves_it_touches(count: int) -> None:
    """Half of the changed keys are new, a quarter are deleted."""
    limits = NodeLimits(256, 256 * 256)
    shelf, tree = loaded(20_000, limits)
    chance = SeededChance(count)
    numbers = sorted({int(chance.fraction() * 40_000) for _ in range(count)})
    changes: list[Change] = [(numbered(number), None if number % 4 == 0 else b"new") for number in numbers]
    leaves = {number // (2 * limits.entries_target) for number in numbers}
    before = shelf.gets()
    applied = shelf.apply(tree, changes)
    assert shelf.gets() - before <= len(leaves) + tree.height
    assert len(applied.written) <= len(leaves) * 1.1 + tree.height
    assert len(applied.retired) <= len(leaves) + tree.height
    shelf.check(applied.tree)


def test_steady_inserts_write_the_touched_leaves_and_few_splits() -> None:
    """Ten inserts a batch, until the tree is five times as large: every batch in bounds, every split paid for."""
    limits = NodeLimits(32, 32 * 256)
    shelf, tree = loaded(500, limits)
    chance = SeededChance(3)
    splits = 0
    for _ in range(200):
        keys = sorted({numbered(int(chance.fraction() * 1000)) + chance.token(4) for _ in range(10)})
        applied = shelf.apply(tree, [(key, b"v") for key in keys])
        grown = len(applied.written) - len(applied.retired)
        assert len(applied.retired) <= len(keys) * tree.height
        assert 0 <= grown <= len(keys) + tree.height
        splits += grown
        tree = applied.tree
    shelf.check(tree)
    # A split needs half a node of new entries at least.
    assert splits <= 2000 / 16 * 1.2
    assert tree.entries == 2500


def test_nothing_is_written_if_nothing_changes() -> None:
    shelf, tree = loaded(100)
    assert shelf.apply(tree, []) == TreeChange(tree)
    assert shelf.apply(tree, [(numbered(2), b"v"), (numbered(3), None), (b"z", None)]) == TreeChange(tree)
    assert shelf.apply(Tree(), [(b"a", None)]) == TreeChange(Tree())


def test_a_leaf_that_stays_as_it_is_stays() -> None:
    shelf, tree = loaded(4000)
    applied = shelf.apply(tree, [(numbered(0), b"v"), (numbered(4000), b"new"), (numbered(7999), None)])
    assert len(applied.written) == len(applied.retired) == 3


def test_a_tree_grows_from_nothing_and_shrinks_to_nothing() -> None:
    shelf = Shelf()
    grown = shelf.apply(Tree(), [(numbered(number), b"v") for number in range(500)])
    assert grown.tree.height > 3
    assert len(contents(shelf, grown.tree)) == 500
    shrunk = shelf.apply(grown.tree, [(numbered(number), None) for number in range(500)])
    assert shrunk.tree == Tree()
    assert shrunk.written == ()
    shelf.remove(shrunk.retired)
    assert shelf.names() == set()


def test_what_is_left_of_a_high_tree_is_one_leaf() -> None:
    shelf, tree = loaded(4000)
    applied = shelf.apply(tree, [(numbered(2 * number), None) for number in range(4000) if number != 1234])
    assert applied.tree.height == 1
    assert contents(shelf, applied.tree) == {numbered(2468): b"v"}
    assert len(applied.written) == 1


def test_an_only_child_that_was_not_touched_takes_the_place_of_its_parent() -> None:
    shelf, tree = loaded(64)
    assert tree.height == 2
    applied = shelf.apply(tree, [(numbered(2 * number), None) for number in range(48)])
    assert applied.tree.height == 1
    assert len(contents(shelf, applied.tree)) == 16
    shelf.remove(applied.retired)
    assert shelf.names() == {new.name for new in applied.written}


def test_a_leaf_below_a_quarter_joins_its_smaller_neighbour() -> None:
    shelf, tree = loaded(160)
    thinner = shelf.apply(tree, [(numbered(2 * number), None) for number in range(32, 37)]).tree
    doomed: list[Change] = [(numbered(2 * number), None) for number in range(16, 29)]
    before = shelf.gets()
    applied = shelf.apply(thinner, doomed)
    # The root, the leaf and the neighbour are read; one leaf and the root are written.
    assert shelf.gets() - before == 3
    assert (len(applied.written), len(applied.retired)) == (2, 3)
    left = {number for number in range(160) if number not in range(32, 37) and number not in range(16, 29)}
    assert set(contents(shelf, applied.tree)) == {numbered(2 * number) for number in left}


def test_a_small_leaf_joins_a_rewritten_one_rather_than_read_another() -> None:
    shelf, tree = loaded(160)
    changes: list[Change] = [(numbered(2 * number), None) for number in range(16, 29)]
    changes += [(numbered(2 * number), b"new") for number in range(32, 48)]
    before = shelf.gets()
    applied = shelf.apply(tree, changes)
    assert shelf.gets() - before == 3
    assert (len(applied.written), len(applied.retired)) == (2, 3)
    shelf.check(applied.tree)


@pytest.mark.parametrize("end", ["left", "right"])
def test_an_inner_node_below_a_quarter_joins_the_one_beside_it(end: str) -> None:
    shelf, tree = loaded(2000)
    top = tree.top
    assert top is not None
    children = shelf.nodes().inners([top])[0].children
    assert tree.height == 3
    edge = children[0] if end == "left" else children[-1]
    kept = LIMITS.entries_target + 2
    doomed = range(kept, edge.count) if end == "left" else range(2000 - edge.count, 2000 - kept)
    applied = shelf.apply(tree, [(numbered(2 * number), None) for number in doomed])
    after = applied.tree.top
    assert after is not None
    assert len(shelf.nodes().inners([after])[0].children) == len(children) - 1
    left = set(range(2000)) - set(doomed)
    assert set(contents(shelf, applied.tree)) == {numbered(2 * number) for number in left}


def test_a_leaf_that_is_emptied_needs_no_neighbour() -> None:
    shelf, tree = loaded(160)
    before = shelf.gets()
    applied = shelf.apply(tree, [(numbered(2 * number), None) for number in range(16, 32)])
    assert shelf.gets() - before == 2
    assert (len(applied.written), len(applied.retired)) == (1, 2)


def test_old_trees_stay_as_they_were_and_retired_nodes_are_all_that_is_left_of_them() -> None:
    shelf, tree = loaded(2000)
    chance = SeededChance(7)
    past = [(tree, contents(shelf, tree))]
    retired: list[str] = []
    for _ in range(20):
        numbers = sorted({int(chance.fraction() * 4000) for _ in range(60)})
        changes: list[Change] = [(numbered(number), None if number % 3 else b"new") for number in numbers]
        applied = shelf.apply(past[-1][0], changes)
        assert not {child.name for child in applied.retired} & {new.name for new in applied.written}
        retired += [child.name for child in applied.retired]
        past.append((applied.tree, contents(shelf, applied.tree)))
    assert all(contents(shelf, then) == what for then, what in past)
    assert len(set(retired)) == len(retired)
    for name in retired:
        shelf.store.delete(f"indexes/email/{name}")
    newest, what = past[-1]
    before = shelf.gets()
    assert dict(shelf.reader(newest).scan()) == what
    assert shelf.gets() - before == len(shelf.names())


def test_long_keys_make_small_nodes() -> None:
    shelf = Shelf(NodeLimits(1024, 8192))
    long = [(numbered(number) + b"x" * 1000, b"v") for number in range(100)]
    tree = shelf.load(long)
    applied = shelf.apply(tree, [(key + b"y", b"v") for key, _ in long])
    for state in (tree, applied.tree):
        shelf.check(state)
        assert state.height >= 2
    sizes = [len(new.body) for new in applied.written]
    assert len(sizes) > 20


def test_changes_out_of_order_are_our_own_mistake() -> None:
    shelf, tree = loaded(10)
    for changes in ([(b"b", b""), (b"a", b"")], [(b"a", b""), (b"a", None)]):
        with pytest.raises(AssertionError):
            apply(tree, changes, shelf.nodes(), shelf.maker)


def separators(shelf: Shelf, tree: Tree) -> list[tuple[bytes, bytes]]:
    """Each separator of a tree, with the first key behind it."""
    found = []
    nodes, level = shelf.nodes(), [] if tree.top is None else [tree.top]
    for _ in range(tree.height - 1):
        inners = nodes.inners(level)
        found += [key for inner in inners for key in inner.keys]
        level = [child for inner in inners for child in inner.children]
    keys = sorted(dict(shelf.reader(tree).scan()))
    return [(each, keys[bisect_left(keys, each)]) for each in found]


@given(st.lists(st.sets(st.integers(0, 400), max_size=60), max_size=6))
def test_a_separator_tells_of_no_key_that_is_gone(removals: list[set[int]]) -> None:
    shelf, tree = loaded(200, NodeLimits(4, 4 * 256))
    for turn, numbers in enumerate(removals):
        changes: list[Change] = [(numbered(each), b"v" if each % 5 == turn else None) for each in sorted(numbers)]
        tree = shelf.apply(tree, changes).tree
        shelf.check(tree)
        wrong = [(one, first) for one, first in separators(shelf, tree) if not first.startswith(one)]
        assert wrong == []
