from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.tree.rig import FOLDER, Shelf, numbered
from wormdb.engine.tree.nodes import NewNode, NodeLimits, Tree
from wormdb.engine.tree.tree import verify
from wormdb.errors import CorruptionError
from wormdb.format.node import Child, Inner, Leaf

if TYPE_CHECKING:
    from wormdb.format.node import Node

COUNT = 300
LIMITS = NodeLimits(5, 5 * 256)


def planted() -> tuple[Shelf, Tree]:
    shelf = Shelf(LIMITS)
    tree = shelf.load((numbered(number), b"%d" % number) for number in range(COUNT))
    assert tree.height == 4
    return shelf, tree


def problems(shelf: Shelf, tree: Tree) -> list[tuple[str, str]]:
    return [(problem.path.removeprefix(FOLDER), problem.reason) for problem in verify(tree, shelf.nodes())]


@given(st.data())
def test_a_flipped_bit_in_any_node_names_it(data: st.DataObject) -> None:
    shelf, tree = planted()
    name = data.draw(st.sampled_from(sorted(shelf.names())))
    body = bytearray(shelf.store.get(FOLDER + name).body)
    bit = data.draw(st.integers(0, 8 * len(body) - 1))
    body[bit // 8] ^= 1 << bit % 8
    shelf.store.put(FOLDER + name, bytes(body))
    found = verify(tree, shelf.nodes())
    assert [problem.path for problem in found] == [FOLDER + name]
    with pytest.raises(CorruptionError) as caught:
        list(shelf.reader(tree).scan())
    assert caught.value.key == FOLDER + name


def test_every_damaged_and_every_missing_node_is_named() -> None:
    shelf, tree = planted()
    children = [tree.top] if tree.top else []
    for _ in range(tree.height - 1):
        children = [child for inner in shelf.nodes().inners(children) for child in inner.children]
    first, second = children[3], children[-2]
    shelf.remove([first])
    shelf.store.put(FOLDER + second.name, b"rubbish")
    assert sorted(name for name, _ in problems(shelf, tree)) == sorted([first.name, second.name])


def stored(shelf: Shelf, node: Node, count: int | None = None) -> Child:
    new, child = shelf.maker.make(node)
    shelf.write([new])
    return child if count is None else Child(child.name, child.sha256, count)


def topped(shelf: Shelf, keys: tuple[bytes, ...], children: tuple[Child, ...]) -> Tree:
    new, child = shelf.maker.make(Inner(keys, children))
    shelf.write([new])
    return Tree(new.ref, 2, child.count)


def leaf(*keys: bytes) -> Leaf:
    return Leaf(keys, (b"",) * len(keys))


def test_nodes_that_contradict_their_parents_are_named() -> None:
    shelf = Shelf()
    low, high = stored(shelf, leaf(b"a", b"c")), stored(shelf, leaf(b"m", b"z"))
    assert problems(shelf, topped(shelf, (b"m",), (low, high))) == []
    assert problems(shelf, topped(shelf, (b"n",), (low, high))) == [
        (high.name, "its first key is below the separator of its parent")
    ]
    assert problems(shelf, topped(shelf, (b"c",), (low, high))) == [
        (low.name, "its last key is not below the next separator of its parent")
    ]
    wrong = Child(low.name, low.sha256, 3)
    assert problems(shelf, topped(shelf, (b"m",), (wrong, high))) == [
        (low.name, "it has 2 entries and its parent says 3")
    ]
    twice = topped(shelf, (b"d",), (low, low))
    assert (low.name, "it is in the tree twice") in problems(shelf, twice)
    empty = stored(shelf, leaf())
    assert problems(shelf, topped(shelf, (b"m",), (empty, high))) == [(empty.name, "it is a leaf without entries")]


def test_separators_that_repeat_and_wrong_levels_are_named() -> None:
    shelf = Shelf()
    one, other = stored(shelf, leaf(b"m")), stored(shelf, leaf(b"n"))
    inner = stored(shelf, Inner((b"m",), (one, other)))
    left = stored(shelf, Inner((), (stored(shelf, leaf(b"a")),)))
    new, top = shelf.maker.make(Inner((b"m",), (left, inner)))
    shelf.write([new])
    tree = Tree(new.ref, 3, top.count)
    assert (inner.name, "its first key is below the separator of its parent") in problems(shelf, tree)
    flat = topped(shelf, (b"n",), (one, inner))
    assert problems(shelf, flat) == [(inner.name, "it should be a leaf at its level")]


def test_a_tree_without_nodes_has_no_entries() -> None:
    shelf = Shelf()
    assert verify(Tree(), shelf.nodes()) == []
    assert len(verify(Tree(None, 0, 5), shelf.nodes())) == 1


def test_each_node_is_read_once() -> None:
    shelf, tree = planted()
    before = shelf.gets()
    assert verify(tree, shelf.nodes()) == []
    assert shelf.gets() - before == len(shelf.names())


def test_an_object_of_the_right_hash_under_another_name_is_damage() -> None:
    shelf = Shelf()
    new, child = shelf.maker.make(leaf(b"a"))
    shelf.write([NewNode("elsewhere", new.body)])
    tree = topped(shelf, (), (Child("elsewhere", child.sha256, 1),))
    assert [name for name, _ in problems(shelf, tree)] == ["elsewhere"]
