"""What a source of the engine knows without requests, and for how long it knows it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.execute.world import WORLDS, World
from wormdb.format import json
from wormdb.index.definition import array_fields
from wormdb.query import engine_facts
from wormdb.query.engine_source import EngineSource


@settings(max_examples=settings().max_examples // 4)
@given(world=WORLDS)
def test_facts_are_true_and_take_no_requests(world: World) -> None:
    source = world.source()
    before = world.store.mark()
    facts = source.facts
    assert world.store.since(before).requests == 0
    assert facts.rows == len(world.documents) == source.count_all()
    assert facts.columns - {"_id"} <= {spec.path for spec in source.view.definition.columns}
    assert {each.index.name for each in facts.indexes} <= set(world.indexes)
    for each in facts.indexes:
        # What is true of any document is known; more may be feared.
        for document in world.documents.values():
            for may_have, has_array in zip(each.may_have_arrays, array_fields(each.index, document), strict=True):
                assert may_have or not has_array
        assert sum(1 for _ in source.entries(each.index.name).scan()) >= 0
    assert EngineSource.of(source.view, world.ledger).facts is facts
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
    assert facts.columns == {"_id", "n", "a", "createdAt", "updatedAt"}
    assert facts.column_bytes["n"] > 4 * facts.column_bytes["a"] > 0
    assert facts.document_bytes > 100 * 10
    assert len(facts.sample) == 100
    assert facts.tail_rows == 0


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
