from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.rig import Rig, contents, insert, remove
from wormdb.engine.commit.define import change_definition, create_index, drop_index, duplicates
from wormdb.engine.commit.operations import Pending
from wormdb.engine.forward.build import Builder
from wormdb.engine.forward.keeper import TailLimits
from wormdb.engine.tree.definition import Index
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UniqueViolationError,
)
from wormdb.schema.load import load_model
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger
    from wormdb.schema.model import Model

EMAIL = Index("byEmail", ("email",), unique=True)
TAG = Index("byTag", ("tags",))
BATCH = "0" * 32


def model(fields: dict[str, Any] | None = None, **indexes: dict[str, Any]) -> Model:
    return load_model("Thing", {"path": "@things/(id:any)", "fields": fields or {}, "indexes": indexes})


def states(ledger: Ledger) -> dict[str, str]:
    return {status.index.name: status.state for status in ledger.view().definition.indexes}


def opened() -> tuple[Rig, Ledger]:
    rig = Rig()
    return rig, rig.ledger(limits=TailLimits(mode="manual"))


def build(rig: Rig, ledger: Ledger) -> None:
    Builder(
        ledger._register,
        ledger.writer,
        SerialPool(),
        lambda events, guard: ledger.commit(Pending(rig.chance.token(16).hex(), events=events, guard=guard)),
        ledger.view,
        forward=ledger._advance.run,
    ).run()


def test_a_model_brings_indexes_that_wait_if_there_are_documents() -> None:
    rig, ledger = opened()
    ledger.commit(rig.batch(insert("a", email="x")))
    wanted = model(byEmail={"field": "email", "unique": True}, byTag={"field": "tags"})
    ledger.commit(change_definition(BATCH, wanted, seen=ledger.view()))
    assert states(ledger) == {"byEmail": "waiting", "byTag": "waiting"}
    build(rig, ledger)
    assert states(ledger) == {"byEmail": "ready", "byTag": "ready"}
    with pytest.raises(UniqueViolationError):
        ledger.commit(rig.batch(insert("b", email="x")))


def test_another_process_is_bound_by_the_entry() -> None:
    rig, ledger = opened()
    wanted = model(byEmail={"field": "email", "unique": True})
    ledger.commit(change_definition(BATCH, wanted, seen=ledger.view()))
    ledger.commit(rig.batch(insert("a", email="x")))
    for process in (ledger, rig.ledger()):
        assert process.view().definition.body == wanted.canonical()
        with pytest.raises(UniqueViolationError):
            process.commit(rig.batch(insert("b", email="x")))


def test_of_two_changes_of_one_definition_the_second_conflicts() -> None:
    rig, first = opened()
    second = rig.ledger()
    seen = second.view()
    first.commit(change_definition(BATCH, model(byTag={"field": "tags"}), seen=first.view()))
    with pytest.raises(ConflictError, match="another process changed it"):
        second.commit(change_definition("1" * 32, model(), seen=seen))


def test_a_forwarding_between_is_no_conflict() -> None:
    rig, ledger = opened()
    ledger.commit(change_definition(BATCH, model(byTag={"field": "tags"}), seen=ledger.view()))
    ledger.commit(rig.batch(insert("a", n=1)))
    seen = ledger.view()
    ledger.forward()
    rig.ledger().commit(change_definition("1" * 32, model(), seen=seen))
    assert ledger.view().definition.body == model().canonical()


def test_duplicates_are_all_listed_and_nothing_is_written() -> None:
    rig, ledger = opened()
    ledger.commit(rig.batch(*(insert(number, email=f"{number % 3}", phone=number // 2) for number in range(7))))
    wanted = model(byEmail={"field": "email", "unique": True}, byPhone={"field": "phone", "unique": True})
    with pytest.raises(InvalidRequestError, match="email='0' is on 3 documents: 0, 3, 6") as caught:
        change_definition(BATCH, wanted, seen=ledger.view())
    assert [problem.path for problem in caught.value.problems] == ["indexes.byEmail"] * 3 + ["indexes.byPhone"] * 3
    with pytest.raises(InvalidRequestError, match="email='0' is on 3 documents: 0, 3, 6") as caught:
        create_index(BATCH, EMAIL, seen=ledger.view())
    assert len(caught.value.problems) == 3
    assert caught.value.fix
    assert rig.slots() == [1]


def test_the_first_hundred_duplicates_are_listed() -> None:
    rig, ledger = opened()
    ledger.commit(rig.batch(*(insert(number, email=number // 2) for number in range(300))))
    problems = duplicates(EMAIL, ledger.view())
    assert len(problems) == 100
    assert problems[0].reason == "email=0 is on 2 documents: 0, 1"
    assert problems[-1].reason == "email=99 is on 2 documents: 198, 199"


def test_deleted_documents_and_missing_values_are_no_duplicates() -> None:
    rig, ledger = opened()
    ledger.commit(rig.batch(insert("a", email="x"), insert("b", email="x"), insert("c"), insert("d")))
    ledger.commit(rig.batch(remove("b")))
    assert duplicates(EMAIL, ledger.view()) == []


def test_an_unchanged_unique_index_is_not_searched_again() -> None:
    rig, ledger = opened()
    ledger.commit(change_definition(BATCH, model(byEmail={"field": "email", "unique": True}), seen=ledger.view()))
    ledger.commit(rig.batch(insert("a", email="x")))
    ledger.forward()
    store = rig.counted()
    other = rig.ledger(store, TailLimits(mode="manual"))
    view = other.view()
    asked = store.requests
    wanted = model(byEmail={"field": "email", "unique": True}, byTag={"field": "tags"})
    change_definition(BATCH, wanted, seen=view)
    assert store.requests == asked


def test_a_document_that_a_unique_index_cannot_take_is_named() -> None:
    rig, ledger = opened()
    ledger.commit(rig.batch(insert("bad", a=[1], b=[2])))
    with pytest.raises(InvalidRequestError, match="document 'bad': index byPair: two fields"):
        create_index(BATCH, Index("byPair", ("a", "b"), unique=True), seen=ledger.view())


def test_what_comes_between_the_check_and_the_commit_is_left_to_the_build() -> None:
    """Also what comes in the same entry."""
    rig, ledger = opened()
    ledger.commit(rig.batch(insert("a", email="x")))
    change = change_definition(BATCH, model(byEmail={"field": "email", "unique": True}), seen=ledger.view())
    ledger._committer.commit([rig.batch(insert("b", email="x")), change], 1e9)
    assert sorted(contents(ledger.view())) == ["a", "b"]
    build(rig, ledger)
    status = ledger.view().definition.indexes.known["byEmail"]
    assert (status.state, status.reason) == ("failed", "email='x' is on 2 documents: 'a', 'b'")
    ledger.commit(rig.batch(insert("c", email="x")))


def test_an_index_is_created_and_dropped() -> None:
    rig, ledger = opened()
    ledger.commit(rig.batch(insert("a", email="x")))
    ledger.commit(create_index(BATCH, EMAIL, seen=ledger.view(), actor="me"))
    build(rig, ledger)
    assert states(ledger) == {"byEmail": "ready"}
    ledger.commit(drop_index("1" * 32, "byEmail", seen=ledger.view()))
    assert states(ledger) == {"byEmail": "dropped"}
    ledger.commit(rig.batch(insert("b", email="x")))
    ledger.forward()
    assert states(rig.ledger()) == {"byEmail": "dropped"}, "until garbage is collected"


@pytest.mark.parametrize("build_it", [True, False])
def test_an_index_that_is_there_is_not_created_again(build_it: bool) -> None:
    rig, ledger = opened()
    ledger.commit(rig.batch(insert("a", email="x")))
    ledger.commit(create_index(BATCH, EMAIL, seen=ledger.view()))
    if build_it:
        build(rig, ledger)
    with pytest.raises(AlreadyExistsError, match="index byEmail: it is there already"):
        create_index("1" * 32, EMAIL, seen=ledger.view())


def test_of_two_who_create_or_drop_an_index_the_second_conflicts() -> None:
    rig, ledger = opened()
    seen = ledger.view()
    ledger.commit(create_index(BATCH, EMAIL, seen=seen))
    with pytest.raises(ConflictError, match="byEmail is ready and cannot become waiting"):
        ledger.commit(create_index("1" * 32, EMAIL, seen=seen))
    seen = ledger.view()
    ledger.commit(drop_index("2" * 32, "byEmail", seen=seen))
    with pytest.raises(ConflictError, match="byEmail is dropped and cannot become dropped"):
        ledger.commit(drop_index("3" * 32, "byEmail", seen=seen))
    assert rig.slots() == [1, 2]


def test_an_unknown_path_of_a_model_with_fields_is_refused_with_the_nearest() -> None:
    _, ledger = opened()
    fields = {"email": {"type": "string"}, "address": {"type": "object", "properties": {"city": {"type": "string"}}}}
    ledger.commit(change_definition(BATCH, model(fields), seen=ledger.view()))
    seen = ledger.view()
    with pytest.raises(InvalidRequestError, match=r"no field 'emial' is declared.*did you mean 'email'\?"):
        create_index("1" * 32, Index("i", ("emial",)), seen=seen)
    with pytest.raises(InvalidRequestError, match=r"no field 'town' is declared in address"):
        create_index("1" * 32, Index("i", ("email", "address.town")), seen=seen)
    for path in ("email", "address.city", "createdAt", "_id"):
        create_index("1" * 32, Index("i", (path,)), seen=seen)


def test_without_declared_fields_any_path_will_do() -> None:
    _, ledger = opened()
    create_index(BATCH, Index("i", ("anything.at.all",)), seen=ledger.view())


@pytest.mark.parametrize("name", ["_id", "", "a/b"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    _, ledger = opened()
    with pytest.raises(InvalidRequestError):
        create_index(BATCH, Index(name, ("a",)), seen=ledger.view())


def test_the_primary_index_cannot_be_dropped() -> None:
    _, ledger = opened()
    with pytest.raises(InvalidRequestError, match=r"primary index is the documents themselves.*drop the collection"):
        drop_index(BATCH, "_id", seen=ledger.view())


def test_an_unknown_index_cannot_be_dropped() -> None:
    _, ledger = opened()
    ledger.commit(create_index(BATCH, EMAIL, seen=ledger.view()))
    with pytest.raises(NotFoundError, match=r"index byEmial.*did you mean 'byEmail'\?"):
        drop_index("1" * 32, "byEmial", seen=ledger.view())
    ledger.commit(drop_index("2" * 32, "byEmail", seen=ledger.view()))
    with pytest.raises(NotFoundError):
        drop_index("3" * 32, "byEmail", seen=ledger.view())


def test_an_index_of_the_model_is_dropped_by_the_model() -> None:
    _, ledger = opened()
    ledger.commit(change_definition(BATCH, model(byTag={"field": "tags"}), seen=ledger.view()))
    with pytest.raises(InvalidRequestError, match=r"the model has it.*remove it from the model"):
        drop_index("1" * 32, "byTag", seen=ledger.view())
    ledger.commit(change_definition("1" * 32, model(), seen=ledger.view()))
    assert states(ledger) == {"byTag": "dropped"}
