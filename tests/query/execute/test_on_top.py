"""A state with changes on top answers every question as the documents themselves do, and the state below as before."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, note
from hypothesis import strategies as st

from tests.engine.rig import ident, remove
from tests.query.execute.questions import REQUESTS
from tests.query.execute.world import REFUSALS, answer, canonical, same, shown
from tests.query.execute.worlds import SHAPES, WORLDS
from wormdb.bql.aggregation import aggregate, parse_aggregation
from wormdb.bql.match import compile_filter
from wormdb.engine.commit.draft import Draft
from wormdb.engine.commit.operations import ReadVersion, Save
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.tree.definition import claims_of
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.query.execute.answer import aggregate_plan, count_plan, needed_request, run_plan
from wormdb.query.planner.planner import candidates
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource

if TYPE_CHECKING:
    from tests.query.execute.world import World
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.state.view import View

Values = dict[str, Any]
Documents = dict[bytes, Values]


def draft_of(world: World) -> Draft:
    ledger = world.ledger
    view = ledger.view()
    sequence, now_ms = ledger.follow(view)[1], ledger.store_ms()
    return Draft(view, collection="things", origin="", trees=ledger.trees, sequence=sequence, now_ms=now_ms)


@st.composite
def changed(draw: st.DrawFn, world: World) -> tuple[Draft, Documents]:
    """Some batches on top of a world, and what there is then; what its indexes refuse leaves nothing."""
    if draw(st.integers(0, 3)) == 0:
        # Documents of which both the log and blocks over it have a version.
        some = list(world.documents.values())[:2]
        with suppress(*REFUSALS):
            world.save([one | {"n": 1} for one in some])
            world.save([one | {"n": 2} for one in some], staged=True)
    draft, documents = draft_of(world), dict(world.documents)
    shapes = draw(SHAPES)
    ids = [one["_id"] for one in world.documents.values()] + [1, "x", "k1"]
    for _ in range(draw(st.integers(1, 3))):
        several = draw(st.lists(st.tuples(st.sampled_from(ids), st.none() | shapes), min_size=1, max_size=4))
        is_read = draw(st.booleans())
        given_up: set[Any] = set()
        operations: list[Operation] = []
        after = dict(documents)
        for identity, values in several:
            if values is None:
                operations.append(remove(identity))
                after.pop(encode_key(identity), None)
            else:
                document = {"_id": identity, **values}
                held = draft.view.get(encode_key(identity))
                is_there = is_read and held is not None and held.document is not None and identity not in given_up
                loaded = ReadVersion(held, draft.view.number) if is_there and held is not None else None
                operations.append(Save(ident(identity), json.encode_document(document), loaded))
                after[encode_key(identity)] = document
            given_up.add(identity)
        with suppress(*REFUSALS):
            draft.add(world.rig.batch(*operations))
            documents = after
    return draft, documents


def drafted(draft: Draft) -> list[tuple[bytes, int, bytes | None]]:
    return [(change.id, change.seq, change.after) for change in draft._changes]


def held(view: View) -> dict[bytes, bytes]:
    rows = {key: json.decode_document(one.document, name="") for key, one in view.scan() if one.document is not None}
    return {key: canonical(document) for key, document in rows.items()}


def check_answers(world: World, view: View, documents: Documents, data: st.DataObject) -> None:
    source = EngineSource(view, world.ledger)
    request = data.draw(REQUESTS(documents))
    expected = answer(request, documents)
    for plan in candidates(request, source.facts):
        assert same(shown(list(run_plan(plan.root, request, source))), expected), plan.root
    counted = replace(request, is_count=True)
    for plan in candidates(counted, source.facts):
        assert count_plan(plan.root, counted, source) == len(answer(replace(counted, projection=None), documents))
    whole = QueryRequest(request.filter)
    matching = list(filter(compile_filter(request.filter), documents.values()))
    for functions in ({"distinct": "a"}, {"count": True, "group_by": ["t"], "min": ["n"], "max": ["a.b"]}):
        aggregation = parse_aggregation(functions)
        asked = needed_request(aggregation, whole)
        assert asked is not None
        for plan in candidates(asked, source.facts):
            found = aggregate_plan(plan.root, aggregation, asked, source)
            assert canonical(found) == canonical(aggregate(aggregation, matching)), plan.root


@given(world=WORLDS, data=st.data())
def test_a_state_with_changes_on_top_answers_as_its_documents_do(world: World, data: st.DataObject) -> None:
    draft, documents = data.draw(changed(world))
    note(repr(world))
    expected = {key: canonical(document) for key, document in documents.items()}
    assert held(draft.view) == expected
    assert draft.view.count == len(documents)
    alive = {key: one for key, one in draft.view.get_many(sorted(documents)).items() if one.document is not None}
    assert alive.keys() == documents.keys()
    for _ in range(2):
        check_answers(world, draft.view, documents, data)
    check_answers(world, draft.seen, world.documents, data)
    bare = draft.view.bare
    assert (bare.overlay, bare.count) == (draft.seen.overlay, draft.seen.count)


@given(world=WORLDS, data=st.data())
def test_unique_values_on_top_belong_to_the_documents_that_have_them(world: World, data: st.DataObject) -> None:
    draft, documents = data.draw(changed(world))
    for index in draft.view.definition.unique:
        owners = UniqueOwners.of(index, draft.view, world.ledger.trees)
        for document in documents.values():
            for value in claims_of(index, document):
                assert owners.owner(value) == json.encode(document["_id"])


@given(world=WORLDS, data=st.data())
def test_what_is_drafted_lands_as_one_batch_that_leaves_the_same_documents(world: World, data: st.DataObject) -> None:
    draft, documents = data.draw(changed(world))
    operations = draft.operations()
    if operations:
        done = world.ledger.commit(world.rig.batch(*operations))
        assert [(change.id, change.seq, change.after) for change in done.changes] == drafted(draft)
    assert held(world.ledger.view()) == {key: canonical(document) for key, document in documents.items()}
    assert held(draft.seen) == {key: canonical(document) for key, document in world.documents.items()}
