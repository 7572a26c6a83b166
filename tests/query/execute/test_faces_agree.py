"""An answer never depends on the plan: any state, any question, any way to ask, held to the pure language."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.query.execute.faces import FACES
from tests.query.execute.questions import QUESTIONS, Question
from tests.query.execute.world import World, answer, same, shown
from tests.query.execute.worlds import WORLDS, as_large_blocks
from wormdb.query.execute.answer import run_plan
from wormdb.query.planner.planner import candidates

QUESTIONS_A_WORLD = 4


@given(st.data())
def test_every_face_gives_the_answer(data: st.DataObject) -> None:
    with as_large_blocks() if data.draw(st.booleans()) else nullcontext():
        world = data.draw(WORLDS)
        note(repr(world))
        for _ in range(QUESTIONS_A_WORLD):
            question = data.draw(QUESTIONS(world.documents))
            face = data.draw(st.sampled_from(sorted(FACES)))
            note(f"{face}: {question}")
            FACES[face](world, question, data)


@pytest.mark.parametrize("written", [{"n": 1}, {"n": 5}, {"_id": {"$gte": 1, "$lte": 1}}, {"_id": "x"}])
def test_removed_rows_below_a_mapping_tell_ids_that_their_column_cannot_hold(written: dict[str, Any]) -> None:
    world = World()
    world.save([{"_id": 1, "n": 0}, {"_id": "x", "n": 0}, {"_id": "y", "n": 1}])
    for identity in (1, "x"):
        world.remove(identity)
    world.upgrade({"$set": {"n": 5}}, is_written=False)
    world.save([{"_id": 1, "n": 1}], staged=True)
    world.save([{"_id": "x", "n": 1}])
    request = Question(written).request
    for source in (world.source(), world.cold()):
        for plan in candidates(request, source.facts):
            assert same(shown(list(run_plan(plan.root, request, source))), answer(request, world.documents)), plan.root
