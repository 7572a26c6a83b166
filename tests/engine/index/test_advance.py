from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.index.rig import Trees, expected
from tests.engine.rig import PATHS, ident
from wormdb.engine.state.indexes import CURSOR_END, IndexStates, IndexStatus
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.nodes import NodeLimits
from wormdb.engine.tree.statistics import decode_statistics
from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.settings import INDEX_KEY_BYTES_MAX
from wormdb.system.types import LogNumber

EMAIL = Index("byEmail", ("email",), unique=True)
TAG = Index("byTag", ("tags",), multi_valued=True)
PAIR = Index("byPair", ("a.b", "n"), sparse=False)

scalars = st.sampled_from([None, 0, 1, 1.5, "x", "y", True])
documents = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.one_of(scalars, st.lists(scalars, max_size=4)),
        "a": st.one_of(scalars, st.fixed_dictionaries({}, optional={"b": scalars})),
        "n": scalars,
    },
)
steps = st.lists(st.dictionaries(st.integers(0, 40), st.one_of(st.none(), documents), max_size=30), max_size=6)


@given(steps)
def test_trees_follow_the_documents_whatever_the_steps_are(steps: list[dict[int, dict[str, Any] | None]]) -> None:
    trees = Trees.ready(EMAIL, TAG, PAIR)
    for turn, changes in enumerate(steps):
        # Unique values: of the document, and sometimes another one than before.
        given = {
            identity: None if values is None else {**values, "email": f"{identity}-{turn % 2}"}
            for identity, values in changes.items()
        }
        trees.step(given)
        trees.check()


def numbered(*numbers: int, **more: Any) -> dict[Any, dict[str, Any]]:
    return {
        f"id-{number:06d}": {"email": f"user-{number * 7919 % 1_000_003}@example.org", **more} for number in numbers
    }


def test_a_changed_key_reads_and_writes_one_node_a_level() -> None:
    trees = Trees.ready(replace(EMAIL, unique=False))
    trees.step(numbered(*range(400)))
    height = trees.index("byEmail").height
    assert height > 3
    trees.shelf = trees.cold()
    (name,) = numbered(17)
    # Its new value is next to the old one, so both are in one leaf.
    changed = {name: {"email": trees.documents[name]["email"] + "!"}}
    before = trees.store.mark()
    outcome = trees.step(changed)
    used = trees.store.since(before)
    assert (used.gets, used.puts) == (height, height)
    assert len(outcome.retired) == height
    trees.check()


def test_a_change_beside_the_index_costs_nothing() -> None:
    trees = Trees.ready(EMAIL, PAIR)
    trees.step(numbered(*range(50)))
    trees.shelf = trees.cold()
    before = trees.store.mark()
    trees.step(numbered(*range(50), other=1))
    used = trees.store.since(before)
    assert (used.gets, used.puts) == (0, 0)
    trees.check()


def test_only_the_leaves_that_changes_reach_are_written() -> None:
    trees = Trees.ready(replace(EMAIL, unique=False), limits=NodeLimits(64, 64 * 64))
    trees.step(numbered(*range(10_000)))
    index = trees.index("byEmail")
    leaves = sum(1 for _ in trees.shelf.reader(trees.root, index).leaf_refs())
    assert leaves > 150
    before = trees.store.mark()
    trees.step(numbered(*range(30_000, 30_010)))
    used = trees.store.since(before)
    assert used.puts <= 10 + 10 + index.height
    trees.check()


def test_a_filter_grows_by_runs_and_is_made_anew_when_it_is_full() -> None:
    trees = Trees.ready(EMAIL, limits=NodeLimits(256, 256 * 64))
    trees.step(numbered(*range(10)))
    first = trees.shelf.filter(trees.root, trees.index("byEmail"))
    trees.step(numbered(*range(100, 105)))
    second = trees.shelf.filter(trees.root, trees.index("byEmail"))
    assert first is not None
    assert second is not None
    assert first.bits == second.bits
    assert len(second) == 15
    trees.step(numbered(*range(1_000, 6_000)))
    third = trees.shelf.filter(trees.root, trees.index("byEmail"))
    assert third is not None
    assert third.bits > second.bits
    assert not third.is_full
    trees.check()


def test_a_cold_process_goes_on_with_the_filter_that_is_stored() -> None:
    trees = Trees.ready(EMAIL)
    for start in range(0, 40, 10):
        trees.shelf = trees.cold()
        trees.step(numbered(*range(start, start + 10)))
        trees.check()


def test_an_index_that_is_not_unique_has_no_filter() -> None:
    trees = Trees.ready(TAG)
    trees.step({1: {"tags": ["a", "b"]}})
    assert trees.index("byTag").membership is None


def test_an_empty_index_has_no_object() -> None:
    trees = Trees.ready(EMAIL)
    trees.step({})
    trees.check()
    trees.step(numbered(1))
    trees.step(dict.fromkeys(numbered(1)))
    assert trees.index("byEmail").node is None
    trees.check()


# --- states ---


def status(trees: Trees, name: str, **changes: Any) -> IndexStates:
    known = dict(trees.states.known)
    known[name] = replace(known[name], **changes)
    return IndexStates(known)


@pytest.mark.parametrize("state", ["failed", "waiting", "building"])
def test_an_index_that_is_no_longer_ready_gives_up_its_tree(state: str) -> None:
    trees = Trees.ready(EMAIL, TAG)
    trees.step(numbered(*range(100), tags=[1]))
    above = sum(1 for _, level in trees.cold().reader(trees.root, trees.index("byEmail")).refs() if level > 1)
    runs = trees.shelf.filter(trees.root, trees.index("byEmail"))
    assert runs is not None
    trees.shelf = trees.cold()
    before = trees.store.mark()
    trees.step({}, status(trees, "byEmail", state=state, reason="why" if state == "failed" else None))
    assert trees.store.since(before).gets == above + len(runs.runs)
    index = trees.index("byEmail")
    assert (index.state, index.node, index.membership) == (state, None, None)
    assert index.reason == ("why" if state == "failed" else None)
    trees.check()


@pytest.mark.parametrize("known", [True, False])
def test_a_dropped_index_vanishes_with_its_objects(known: bool) -> None:
    """Its name stays until garbage is collected; or not, when the state no longer has it."""
    trees = Trees.ready(EMAIL, TAG)
    trees.step(numbered(*range(100), tags=[1]))
    states = status(trees, "byEmail", state="dropped")
    trees.step({}, states if known else IndexStates({"byTag": states.known["byTag"]}))
    assert [(index.name, index.node is None) for index in trees.root.indexes] == [
        *([("byEmail", True)] if known else []),
        ("byTag", False),
    ]
    trees.check()


def test_a_damaged_tree_can_still_be_dropped() -> None:
    trees = Trees.ready(EMAIL)
    trees.step(numbered(*range(100)))
    node = trees.index("byEmail").node
    assert node is not None
    key = PATHS.index("byEmail") + node.name
    trees.store.put(key, b"damaged")
    trees.shelf = trees.cold()
    assert trees.step({}, IndexStates()).retired == (key,)
    assert trees.root.indexes == ()


def test_a_damaged_tree_is_not_brought_forward() -> None:
    trees = Trees.ready(EMAIL)
    trees.step(numbered(*range(100)))
    node = trees.index("byEmail").node
    assert node is not None
    trees.store.put(PATHS.index("byEmail") + node.name, b"damaged")
    trees.shelf = trees.cold()
    with pytest.raises(CorruptionError, match=node.name):
        trees.step(numbered(1000))


def test_an_index_with_another_definition_is_made_anew() -> None:
    trees = Trees.ready(EMAIL)
    trees.step(numbered(*range(30)))
    trees.keep_documents()
    other = Index("byEmail", ("email",), sparse=False)
    known = {"byEmail": IndexStatus.of(other, LogNumber(2), is_empty=True)}
    trees.step(numbered(*range(20, 40)), IndexStates(known))
    trees.check()


def test_a_ready_index_without_a_tree_is_made_from_the_documents_of_the_root() -> None:
    """As after its projection was thrown away."""
    trees = Trees.ready(EMAIL, TAG)
    trees.step(numbered(*range(50), tags=["x"]))
    trees.keep_documents()
    for page in list(trees.store.list(f"{PATHS.folder}indexes/")):
        trees.store.delete_many([info.key for info in page.objects])
    trees.root = msgspec.structs.replace(trees.root, indexes=())
    trees.shelf = trees.cold()
    trees.step({**numbered(*range(10, 60), tags=["y"]), **dict.fromkeys(numbered(1, 2))})
    trees.check()


# --- while it is built ---


def building(cursor: bytes | None, *indexes: Index) -> Trees:
    trees = Trees.ready(*indexes)
    known = {index.name: replace(trees.states.known[index.name], state="building") for index in indexes}
    trees.step({}, IndexStates(known))
    trees.root = msgspec.structs.replace(
        trees.root, indexes=tuple(msgspec.structs.replace(index, cursor=cursor) for index in trees.root.indexes)
    )
    return trees


def test_a_tree_in_the_making_follows_the_documents_up_to_its_cursor() -> None:
    trees = building(id_key(ident("id-000020")), EMAIL)
    trees.step(numbered(*range(40)))
    trees.step({**numbered(*range(10, 30), email="other"), **dict.fromkeys(numbered(3, 33))})
    below = {identity: values for identity, values in trees.documents.items() if identity <= "id-000020"}
    assert trees.entries("byEmail") == expected(EMAIL, below)
    assert trees.index("byEmail").membership is None
    trees.check()


def test_a_tree_without_a_cursor_stays_empty() -> None:
    trees = building(None, EMAIL)
    trees.step(numbered(*range(40)))
    assert trees.index("byEmail").node is None


def test_what_is_built_to_the_end_becomes_ready_with_the_step_that_has_the_entry() -> None:
    trees = building(CURSOR_END, EMAIL)
    trees.step(numbered(*range(40)))
    trees.step(numbered(*range(30, 50)), status(trees, "byEmail", state="ready"))
    index = trees.index("byEmail")
    assert (index.state, index.cursor) == ("ready", None)
    assert index.membership is not None
    trees.check()


def test_a_build_that_began_again_begins_with_nothing() -> None:
    trees = building(CURSOR_END, EMAIL)
    trees.step(numbered(*range(40)))
    trees.step({}, status(trees, "byEmail", number=LogNumber(9)))
    index = trees.index("byEmail")
    assert (index.state, index.node, index.cursor, index.applied) == ("building", None, None, 9)
    trees.check()


def test_a_document_that_cannot_be_indexed_leaves_the_reason_to_the_builder() -> None:
    trees = building(CURSOR_END, PAIR)
    trees.step(numbered(*range(40)))
    trees.step({"bad": {"a": {"b": [1, 2]}, "n": [3]}})
    index = trees.index("byPair")
    assert (index.state, index.node) == ("building", None)
    assert index.reason is not None
    assert index.reason.startswith("document 'bad': index byPair: two fields of one index are arrays")
    trees.step(numbered(50))
    assert trees.index("byPair") == index
    trees.check()


# --- attached blocks ---


def test_attached_blocks_are_indexed() -> None:
    trees = Trees.ready(EMAIL, TAG)
    trees.attach(numbered(*range(60), tags=["a", "b"]))
    trees.check()
    trees.keep_documents()
    trees.attach(numbered(*range(100, 130), tags=["b", "c"]))
    trees.check()


def test_attached_blocks_are_indexed_from_their_columns() -> None:
    """Documents are not read: with them each block would be 40 KB and more."""
    trees = Trees.ready(EMAIL)
    noise = {str(number): {"email": f"user-{number}", "noise": f"{number * 7919**20:x}" * 20} for number in range(200)}
    before = trees.store.mark()
    trees.attach(noise, "email", "n")
    assert trees.store.since(before).bytes_down < 20_000
    trees.check()


@given(
    st.dictionaries(st.one_of(st.integers(0, 50), st.sampled_from("abcdefg")), documents, min_size=1, max_size=30),
    st.sets(st.integers(0, 50), max_size=3),
)
def test_columns_and_documents_give_the_same_entries(attached: dict[Any, dict[str, Any]], known: set[int]) -> None:
    indexes = (TAG, PAIR, Index("byN", ("n",)), Index("byThree", ("n", "tags", "a.b")))
    trees = Trees.ready(*indexes)
    if known:
        trees.step({identity: {"n": "old", "tags": ["old"]} for identity in known})
        trees.keep_documents()
    trees.attach(attached, "n", "tags", "a.b")
    trees.check()


def test_a_key_that_is_too_long_is_found_in_a_column() -> None:
    trees = Trees.ready(EMAIL)
    with pytest.raises(InvalidRequestError, match="document 'x': a key of index byEmail takes"):
        trees.attach({"x": {"email": "y" * INDEX_KEY_BYTES_MAX}, "z": {"email": "z"}}, "email")


def test_attached_documents_that_replace_others_take_their_entries_away() -> None:
    trees = Trees.ready(EMAIL, TAG)
    trees.step(numbered(*range(60), tags=["a", "b"]))
    trees.keep_documents()
    trees.attach(numbered(*range(40, 80), tags=["b", "c"]))
    trees.check()


def test_of_attached_blocks_a_tree_in_the_making_takes_what_is_below_its_cursor() -> None:
    trees = building(id_key(ident("id-000020")), EMAIL)
    trees.attach(numbered(*range(40)))
    assert trees.entries("byEmail") == expected(EMAIL, numbered(*range(21)))


# --- statistics ---


def test_statistics_are_measured_when_a_tenth_changed() -> None:
    trees = Trees.ready(TAG)
    trees.step({number: {"tags": number % 5} for number in range(100)})
    first = trees.index("byTag").statistics
    trees.step({number: {"tags": 1} for number in range(100, 110)})
    assert trees.index("byTag").statistics == first
    trees.step({110: {"tags": 1}})
    second = trees.index("byTag").statistics
    assert second is not None
    assert decode_statistics(second, name="root").entries == 111


def test_arrays_are_remembered() -> None:
    trees = Trees.ready(PAIR)
    known = []
    for values in ({"n": 1}, {"n": [1]}, {"a": [{"b": 1}]}, {"n": 1}):
        trees.step(dict.fromkeys(range(3), values))
        statistics = trees.index("byPair").statistics
        assert statistics is not None
        known.append(decode_statistics(statistics, name="root").arrays)
    assert known == [(False, False), (False, True), (True, True), (True, True)]
