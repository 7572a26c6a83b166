"""What a source of the engine knows without requests, and for how long it knows it."""

from __future__ import annotations

from gc import collect
from typing import TYPE_CHECKING, Any
from weakref import ref

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.execute.world import World
from tests.query.execute.worlds import WORLDS
from wormdb.engine.blocks import runs as block_runs
from wormdb.engine.blocks.runs import AttachedBase, RunBase
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.tree.definition import array_fields
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.path import TRAVERSED, get_direct
from wormdb.query.sources import engine as engine_facts
from wormdb.query.sources.engine import EngineSource

if TYPE_CHECKING:
    import pytest

    from wormdb.engine.state.view import View
    from wormdb.format.blocklist import BlockEntry


def parts_of(view: View) -> list[BlockEntry]:
    bases = [one.base for one in view.overlay.attached(view.number)] + [view.base]
    runs = [run for base in bases if isinstance(base, RunBase | AttachedBase) for run in base.runs.runs]
    return [entry for run in runs for entry in run.entries]


@settings(max_examples=settings().max_examples // 4)
@given(world=WORLDS)
def test_facts_are_true_and_take_no_requests(world: World) -> None:
    source = world.source()
    before = world.store.mark()
    facts = source.facts
    assert world.store.since(before).requests == 0
    assert facts.rows == len(world.documents) == source.count_all()
    declared = {spec.path for spec in source.view.definition.columns}
    stored = {stats.path for part in parts_of(source.view) for stats in part.columns}
    assert facts.columns - {"_id"} <= declared | stored
    assert facts.lacking_bytes.keys() <= facts.columns
    assert all(0 < lacking <= facts.document_bytes for lacking in facts.lacking_bytes.values())
    assert {each.index for each in facts.indexes} <= set(source.view.definition.indexes.ready)
    for each in facts.indexes:
        # What is true of any document is known; more may be feared.
        for document in world.documents.values():
            for may_have, has_array in zip(each.may_have_arrays, array_fields(each.index, document), strict=True):
                assert may_have or not has_array
            for place, path in enumerate(each.index.paths):
                value = get_direct(document, path)
                assert each.has_texts(place) or (value is not TRAVERSED and type(value) is not str)
        assert sum(1 for _ in source.entries(each.index.name).scan()) >= 0
    assert EngineSource(source.view, world.ledger).facts is facts
    assert world.cold().facts.rows == facts.rows


@settings(max_examples=settings().max_examples // 4)
@given(world=WORLDS, more=st.lists(st.integers(0, 20), min_size=1, max_size=3, unique=True))
def test_a_view_that_does_not_move_keeps_its_facts(world: World, more: list[int]) -> None:
    source = world.source()
    facts = source.facts
    known = len(world.documents)
    world.save([{"_id": number, "t": [[number]]} for number in more])
    assert world.source().facts.rows == len(world.documents)
    again = source.facts
    assert (again.rows, again.version, again.blocks, again.columns) == (
        known,
        facts.version,
        facts.blocks,
        facts.columns,
    )
    assert [each.index for each in again.indexes] == [each.index for each in facts.indexes]
    assert source.count_all() == known


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "save", "stage", "remove", "forward"]),
        st.integers(0, 5),
        st.fixed_dictionaries({}, optional={"n": st.integers(0, 2), "t": st.lists(st.integers(0, 2), max_size=2)}),
    ),
    max_size=12,
)


@settings(max_examples=settings().max_examples // 2)
@given(operations=OPERATIONS)
def test_entries_follow_the_tail(operations: list[tuple[str, int, dict[str, Any]]]) -> None:
    world = World(["byN", "byT"])
    for kind, identity, values in operations:
        if kind == "forward":
            world.forward()
        elif kind == "remove":
            world.remove(identity)
        else:
            world.save([{"_id": identity, **values}], staged=kind == "stage")
        # One process reads after every write, the other for the first time.
        source, fresh = world.source(), world.cold()
        for name in ("byN", "byT"):
            found, expected = source.entries(name), fresh.entries(name)
            assert list(found.scan()) == list(expected.scan())
            assert list(found.scan(reverse=True, limit=2)) == list(expected.scan())[::-1][:2]
            assert list(found.scan(limit=2)) == list(expected.scan())[:2]
            assert found.count() == len(list(expected.scan()))
        keys = sorted(map(encode_key, range(6)))
        assert source.view.get_many(keys) == {key: held for key in keys if (held := source.view.get(key)) is not None}


def test_what_is_known_of_a_root_is_forgotten_with_it() -> None:
    world = World(["byN"])
    world.save([{"_id": 1, "n": 1}])
    source = world.source()
    assert len(list(source.entries("byN").scan())) == 1
    known = ref(source.view.overlay)
    del source
    world.forward()
    world.source()
    collect()
    assert known() is None


def names(world: World) -> list[str]:
    return [each.index.name for each in world.source().facts.indexes]


def arrays(world: World) -> dict[str, tuple[bool, ...]]:
    return {each.index.name: each.may_have_arrays for each in world.source().facts.indexes}


def test_arrays_of_the_tail_count_at_once_and_those_of_trees_for_ever() -> None:
    world = World(["byN", "byT", "byNA"])
    assert arrays(world) == {"byN": (False,), "byT": (False,), "byNA": (False, False)}
    world.save([{"_id": 1, "n": 1, "t": [1]}])
    assert arrays(world) == {"byN": (False,), "byT": (True,), "byNA": (False, False)}
    world.forward()
    world.remove(1)
    assert arrays(world)["byT"] == (True,)
    world.save([{"_id": 2, "a": [1]}])
    assert arrays(world) == {"byN": (False,), "byT": (True,), "byNA": (False, True)}


def test_blocks_of_a_job_make_arrays_possible_and_many_make_indexes_useless() -> None:
    world = World(["byN"], ["n"])
    world.save([{"_id": 1, "n": 1}])
    world.forward()
    world.save([{"_id": number, "n": number} for number in range(2, 5)], staged=True)
    world.ledger.view()
    assert world.source().facts.blocks == 2
    assert arrays(world) == {"byN": (True,)}
    world.save([{"_id": number, "n": number} for number in range(engine_facts.ATTACHED_ROWS_MAX + 1)], staged=True)
    assert names(world) == []
    assert world.source().facts.rows == engine_facts.ATTACHED_ROWS_MAX + 1
    world.forward()
    assert arrays(world) == {"byN": (False,)}


def test_columns_are_those_of_all_blocks() -> None:
    world = World([], ["n", "a"])
    assert world.source().facts.columns >= {"n", "a", "_id"}
    world.save([{"_id": number, "n": "x" * 50, "a": number, "z": 1} for number in range(100)])
    world.forward()
    facts = world.source().facts
    assert facts.blocks > 1
    assert facts.columns == {"_id", "n", "a", "z", "createdAt", "updatedAt"}
    assert facts.column_bytes["n"] > 4 * facts.column_bytes["a"] > 0
    assert facts.document_bytes > 100 * 10
    assert len(facts.sample) == 100
    assert facts.tail_rows == 0


def test_one_plan_reads_columns_where_blocks_have_them_and_documents_where_not() -> None:
    world = World(has_model=False, sizes=Sizes(block_target=10_000, run_smallest=1))
    world.save([{"_id": number, "n": number % 7, "pad": "x" * 99} for number in range(300)])
    world.forward_as_before()
    assert world.source().facts.columns == {"_id"}
    world.save([{"_id": number, "n": number % 7, "pad": "x" * 99} for number in range(300, 400)])
    world.advance()
    facts = world.source().facts
    assert facts.columns == {"_id", "n", "pad"}
    assert set(facts.lacking_bytes) == {"n", "pad"}
    assert 0 < facts.lacking_bytes["n"] < facts.document_bytes
    things = world.opened()
    expected = sum(one["n"] == 3 for one in world.documents.values())
    for strategy in ("manifest_scan", "full_scan"):
        assert len(things.find_all({"n": 3}, select=["n"], strategy=strategy)) == expected
    world.compact()
    assert not world.cold().facts.lacking_bytes


def test_blocks_on_pages_have_the_columns_that_the_sample_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_runs, "LIST_INLINE_BYTES_MAX", 0)
    world = World(has_model=False)
    world.save([{"_id": number, "n": number, "at": {"city": "x"}, f"k{number}": 1} for number in range(60)])
    world.forward()
    source = world.source()
    assert source.view.place is not None
    assert source.view.place.root.block_pages
    assert source.facts.columns == {"_id", "n", "at.city"}
    assert not source.facts.lacking_bytes
    assert world.opened().count({"at.city": "x", "n": {"$gte": 30}}) == 30


def test_the_sample_is_of_the_tail_if_there_is_no_root() -> None:
    world = World()
    documents: list[dict[str, Any]] = [{"_id": number, "n": number} for number in range(3)]
    world.save(documents)
    facts = world.source().facts
    assert list(facts.sample) == documents
    assert facts.document_bytes == sum(len(json.encode(one)) for one in documents)
    assert (facts.blocks, facts.tail_rows) == (0, 3)


def test_another_root_and_another_definition_are_another_version() -> None:
    world = World(["byN"])
    seen = [world.source().facts.version]
    world.save([{"_id": 1}])
    assert world.source().facts.version == seen[0]
    world.forward()
    seen.append(world.source().facts.version)
    assert seen[1] > seen[0]
