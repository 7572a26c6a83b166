from __future__ import annotations

import pytest

from tests.engine.rig import Rig, contents, insert, remove, save
from tests.engine.test_validate import EMAIL, definition_of
from wormdb.engine.define import change_definition, duplicates
from wormdb.engine.definition import Definition
from wormdb.errors import ConflictError, InvalidRequestError, UniqueViolationError
from wormdb.format.event import Closed, FilesSwitched, Nothing, SchemaChanged
from wormdb.schema.load import load_model
from wormdb.types import LogNumber

MODEL = load_model("Thing", {"path": "@things/(id:any)", "indexes": {"byEmail": {"field": "email", "unique": True}}})
OTHER = load_model("Thing", {"path": "@things/(id:any)", "fields": {"n": {"type": "number"}}})


def test_without_events_a_definition_is_the_same_object() -> None:
    definition = Definition.decode(EMAIL, LogNumber(1))
    assert definition.after((), LogNumber(2)) is definition
    assert definition.after((Nothing(), FilesSwitched(enabled=True)), LogNumber(2)) is definition
    assert definition.after((SchemaChanged(definition=EMAIL),), LogNumber(2)) is definition


def test_a_change_of_schema_replaces_it_from_its_number_on() -> None:
    definition = Definition.none().after((SchemaChanged(definition=EMAIL),), LogNumber(4))
    assert (definition.number, definition.body) == (4, EMAIL)
    assert definition.model is not None
    assert [(index.name, index.label, index.sparse) for index in definition.unique] == [("byEmail", "email", True)]
    plain = definition.after((SchemaChanged(definition=definition_of()),), LogNumber(5))
    assert plain.unique == ()


def test_a_closed_log_says_so_and_keeps_its_schema() -> None:
    closed = Definition.decode(EMAIL, LogNumber(1)).after((Closed(reason="drop"),), LogNumber(2))
    assert closed.closed == Closed(reason="drop")
    assert closed.body == EMAIL


def test_a_definition_is_changed_by_an_entry() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", email="x")))
    ledger.commit(change_definition("0" * 32, MODEL, seen=ledger.view().definition))
    for process in (ledger, rig.ledger()):
        assert process.view().definition.body == MODEL.canonical()
        with pytest.raises(UniqueViolationError):
            process.commit(rig.batch(insert("b", email="x")))


def test_a_unique_index_is_not_made_over_duplicates() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", email="x"), insert("b", email="x"), insert("c", email="y")))
    with pytest.raises(InvalidRequestError, match="email='x' is on 2 documents: 'a', 'b'"):
        ledger.commit(change_definition("0" * 32, MODEL, seen=ledger.view().definition))
    assert rig.slots() == [1]


def test_a_unique_index_is_not_made_over_duplicates_of_its_own_group() -> None:
    """The batches before it in the same entry count as well."""
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", email="x")))
    change = change_definition("0" * 32, MODEL, seen=ledger.view().definition)
    outcomes = ledger._committer.commit([rig.batch(insert("b", email="x")), change], 1e9)
    assert isinstance(outcomes[1], InvalidRequestError)
    assert sorted(contents(ledger.view())) == ["a", "b"]
    assert ledger.view().definition.model is None


def test_of_two_changes_of_one_definition_the_second_conflicts() -> None:
    rig = Rig()
    first, second = rig.ledger(), rig.ledger()
    seen = second.view().definition
    first.commit(change_definition("0" * 32, MODEL, seen=first.view().definition))
    with pytest.raises(ConflictError, match="somebody else changed it"):
        second.commit(change_definition("1" * 32, OTHER, seen=seen))


def test_a_forwarding_between_is_no_conflict() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(change_definition("0" * 32, MODEL, seen=ledger.view().definition))
    ledger.commit(rig.batch(save("a", n=1)))
    seen = ledger.view().definition
    ledger.forward()
    opened = rig.ledger()
    opened.commit(change_definition("1" * 32, OTHER, seen=seen))
    assert ledger.view().definition.body == OTHER.canonical()


def test_duplicates_are_listed_with_their_ids() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(*(insert(number, email=f"{number % 3}") for number in range(7)), insert(9)))
    (index,) = Definition.decode(EMAIL, LogNumber(1)).unique
    problems = duplicates(index, ledger.view())
    assert [problem.reason for problem in problems] == [
        "email='0' is on 3 documents: 0, 3, 6",
        "email='1' is on 2 documents: 1, 4",
        "email='2' is on 2 documents: 2, 5",
    ]
    assert {problem.path for problem in problems} == {"indexes.byEmail"}


def test_a_delete_of_nothing_makes_no_collection() -> None:
    rig = Rig()
    ledger = rig.ledger()
    assert ledger.commit(rig.batch(remove("a"), events=(SchemaChanged(definition=EMAIL),))).changes == ()
    assert rig.slots() == []
