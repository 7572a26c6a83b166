"""An answer never depends on the plan: any state, any question, any way to ask, held to the pure language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.query.execute.faces import FACES
from tests.query.execute.questions import QUESTIONS
from tests.query.execute.worlds import WORLDS

if TYPE_CHECKING:
    from tests.query.execute.world import World

QUESTIONS_A_WORLD = 4


@settings(max_examples=settings().max_examples * 2)
@given(world=WORLDS, data=st.data())
def test_every_face_gives_the_answer(world: World, data: st.DataObject) -> None:
    note(repr(world))
    for _ in range(QUESTIONS_A_WORLD):
        question = data.draw(QUESTIONS(world.documents))
        face = data.draw(st.sampled_from(sorted(FACES)))
        note(f"{face}: {question}")
        FACES[face](world, question, data)
