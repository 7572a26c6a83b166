from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.engine.state.indexes import PRIMARY, IndexStates, check_index_name
from wormdb.engine.tree.definition import Index, encode_index
from wormdb.errors import ConflictError, CorruptionError, InvalidRequestError
from wormdb.format.event import IndexBuilding, IndexCreated, IndexDropped, IndexFailed, IndexReady
from wormdb.format.root import IndexRoot
from wormdb.schema.load import load_model
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.state.indexes import IndexEvent
    from wormdb.schema.model import Model

EMAIL = Index("byEmail", ("email",), unique=True)
CREATED = IndexCreated(name="byEmail", definition=encode_index(EMAIL))
BUILDING = IndexBuilding(name="byEmail", through=1)
READY = IndexReady(name="byEmail")
FAILED = IndexFailed(name="byEmail", reason="why")
DROPPED = IndexDropped(name="byEmail")
WAYS: dict[str, tuple[IndexEvent, ...]] = {
    "unknown": (),
    "waiting": (CREATED,),
    "building": (CREATED, BUILDING),
    "ready": (CREATED, BUILDING, READY),
    "failed": (CREATED, BUILDING, FAILED),
    "dropped": (CREATED, DROPPED),
}
FOLLOWING = {
    "unknown": {"waiting"},
    "waiting": {"building", "failed", "dropped"},
    "building": {"ready", "failed", "dropped"},
    "ready": {"dropped"},
    "failed": {"waiting", "dropped"},
    "dropped": {"waiting"},
}
EVENTS: dict[str, IndexEvent] = {
    "waiting": CREATED,
    "building": BUILDING,
    "ready": READY,
    "failed": FAILED,
    "dropped": DROPPED,
}


def after(*events: IndexEvent, is_empty: bool = False) -> IndexStates:
    states = IndexStates()
    for number, event in enumerate(events, 1):
        states = states.after(event, LogNumber(number), is_empty=is_empty)
    return states


def model(**indexes: dict[str, object]) -> Model:
    return load_model("Thing", {"path": "@things/(id:any)", "indexes": indexes})


def shown(states: IndexStates) -> dict[str, str]:
    return {status.index.name: status.state for status in states}


@pytest.mark.parametrize("before", WAYS)
@pytest.mark.parametrize("following", EVENTS)
def test_each_event_comes_only_where_it_can(before: str, following: str) -> None:
    states, event = after(*WAYS[before]), EVENTS[following]
    if following in FOLLOWING[before]:
        states.check(event)
        status = states.after(event, LogNumber(9), is_empty=False).known["byEmail"]
        assert (status.index, status.state, status.number) == (EMAIL, following, 9)
        assert status.reason == ("why" if following == "failed" else None)
    else:
        with pytest.raises(CorruptionError, match=f"log entry 9.*byEmail is {before} and cannot become {following}"):
            states.after(event, LogNumber(9), is_empty=False)
        with pytest.raises(ConflictError, match=f"byEmail is {before} and cannot become {following}"):
            states.check(event)


def test_a_state_is_a_value() -> None:
    before = after(CREATED)
    before.after(BUILDING, LogNumber(2), is_empty=False)
    assert shown(before) == {"byEmail": "waiting"}


def test_without_documents_an_index_is_ready_at_once() -> None:
    assert shown(after(CREATED, is_empty=True)) == {"byEmail": "ready"}
    assert shown(after(CREATED, DROPPED, CREATED, is_empty=True)) == {"byEmail": "ready"}


def test_what_is_ready_what_is_enforced_and_what_is_to_be_built() -> None:
    tag = IndexCreated(name="byTag", definition=encode_index(Index("byTag", ("tags",))))
    states = after(CREATED, tag)
    assert (states.ready, states.unique, [one.index.name for one in states.unbuilt]) == ((), (), ["byEmail", "byTag"])
    states = states.after(BUILDING, LogNumber(3), is_empty=False).after(READY, LogNumber(4), is_empty=False)
    states = states.after(IndexBuilding(name="byTag", through=4), LogNumber(5), is_empty=False)
    assert [one.index.name for one in states.unbuilt] == ["byTag"]
    states = states.after(IndexReady(name="byTag"), LogNumber(6), is_empty=False)
    assert states.ready == (EMAIL, Index("byTag", ("tags",)))
    assert states.unique == (EMAIL,)


def test_a_definition_that_cannot_be_read_is_damage() -> None:
    for damaged in (b"", b"{}", b'{"fields":[]}', b'{"fields":["a..b"]}', b'{"fields":["a"],"unique":1}'):
        with pytest.raises(CorruptionError, match="definition of index byEmail cannot be read"):
            after(IndexCreated(name="byEmail", definition=damaged))


# --- models ---


def test_indexes_of_a_model_wait_or_are_ready_at_once() -> None:
    wanted = model(byEmail={"field": "email", "unique": True}, byTag={"field": "tags"})
    assert shown(IndexStates().after_model(wanted, LogNumber(1), is_empty=False)) == {
        "byEmail": "waiting",
        "byTag": "waiting",
    }
    states = IndexStates().after_model(wanted, LogNumber(1), is_empty=True)
    assert shown(states) == {"byEmail": "ready", "byTag": "ready"}
    assert states.unique == (EMAIL,)


def test_a_changed_model_touches_only_what_it_changed() -> None:
    states = IndexStates().after_model(
        model(kept={"field": "a"}, changed={"field": "b"}, gone={"field": "c"}), LogNumber(1), is_empty=True
    )
    states = states.after(CREATED, LogNumber(2), is_empty=True)
    wanted = model(kept={"field": "a"}, changed={"field": "b", "unique": True}, new={"field": "d"})
    states = states.after_model(wanted, LogNumber(3), is_empty=False)
    assert shown(states) == {
        "byEmail": "ready",
        "changed": "waiting",
        "gone": "dropped",
        "kept": "ready",
        "new": "waiting",
    }
    assert states.known["kept"].number == 1
    assert states.known["gone"].number == 3
    again = states.after_model(wanted, LogNumber(4), is_empty=False)
    assert again == states


def test_a_model_takes_over_an_index_of_its_name_and_lets_it_go() -> None:
    states = after(CREATED, BUILDING, READY)
    states = states.after_model(model(byEmail={"field": "email", "unique": True}), LogNumber(4), is_empty=False)
    assert shown(states) == {"byEmail": "ready"}
    assert shown(states.after_model(model(), LogNumber(5), is_empty=False)) == {"byEmail": "dropped"}
    assert shown(states.after_model(None, LogNumber(5), is_empty=False)) == {"byEmail": "dropped"}


def test_an_index_that_was_dropped_comes_back_with_the_next_model_that_has_it() -> None:
    wanted = model(byEmail={"field": "email", "unique": True})
    states = IndexStates().after_model(wanted, LogNumber(1), is_empty=True)
    states = states.after_model(model(), LogNumber(2), is_empty=False)
    assert shown(states.after_model(wanted, LogNumber(3), is_empty=False)) == {"byEmail": "waiting"}


def test_a_failed_index_of_the_model_is_created_again_as_it_is_there() -> None:
    states = IndexStates().after_model(model(byEmail={"field": "email", "unique": True}), LogNumber(1), is_empty=False)
    states = states.after(BUILDING, LogNumber(2), is_empty=False).after(FAILED, LogNumber(3), is_empty=False)
    other = IndexCreated(name="byEmail", definition=encode_index(Index("byEmail", ("mail",))))
    with pytest.raises(ConflictError, match="in the model with another definition"):
        states.check(other)
    status = states.after(CREATED, LogNumber(4), is_empty=False).known["byEmail"]
    assert (status.state, status.declared) == ("waiting", True)


def test_the_primary_index_is_not_among_them() -> None:
    wanted = model(_id={"field": "_id"})
    assert shown(IndexStates().after_model(wanted, LogNumber(1), is_empty=False)) == {}


# --- roots ---


def roots_of(states: IndexStates) -> list[IndexRoot]:
    """As a root has them before anything is built."""
    return [
        IndexRoot(
            name=status.index.name,
            definition=status.definition,
            state=status.state,
            applied=status.number,
            reason=status.reason,
        )
        for status in states
        if status.state != "dropped"
    ]


@pytest.mark.parametrize("state", ["waiting", "building", "ready", "failed"])
def test_a_root_has_what_the_log_said(state: str) -> None:
    states = after(*WAYS[state])
    assert IndexStates.from_roots(roots_of(states), None, source="root") == states


def test_a_root_and_its_model_tell_which_indexes_are_declared() -> None:
    wanted = model(byTag={"field": "tags"})
    states = after(CREATED).after_model(wanted, LogNumber(2), is_empty=False)
    read = IndexStates.from_roots(roots_of(states), wanted, source="root")
    assert read == states
    assert [status.declared for status in read] == [False, True]


def test_a_reason_that_waits_for_the_builder_is_not_yet_the_logs() -> None:
    root = IndexRoot(name="byEmail", definition=encode_index(EMAIL), state="building", reason="soon")
    assert IndexStates.from_roots([root], None, source="root").known["byEmail"].reason is None


def test_a_damaged_definition_names_the_root() -> None:
    root = IndexRoot(name="byEmail", definition=b"?", state="ready")
    with pytest.raises(CorruptionError, match="the-root"):
        IndexStates.from_roots([root], None, source="the-root")


@pytest.mark.parametrize("name", ["byEmail", "by-email_2", "a.b", "_x", "9", "x" * 100])
def test_names(name: str) -> None:
    check_index_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "a/b", "a b", "ä", "x" * 101, PRIMARY, "a\n"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_index_name(name)
    assert caught.value.fix
