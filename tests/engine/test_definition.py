from __future__ import annotations

from tests.engine.rig import Rig, remove
from tests.engine.test_validate import EMAIL, definition_of
from wormdb.engine.definition import Definition
from wormdb.format.event import Closed, FilesSwitched, Nothing, SchemaChanged
from wormdb.schema.load import load_model
from wormdb.types import LogNumber

MODEL = load_model("Thing", {"path": "@things/(id:any)", "indexes": {"byEmail": {"field": "email", "unique": True}}})
OTHER = load_model("Thing", {"path": "@things/(id:any)", "fields": {"n": {"type": "number"}}})


def test_without_events_a_definition_is_the_same_object() -> None:
    definition = definition_at(EMAIL)
    assert definition.after((), LogNumber(2)) is definition
    assert definition.after((Nothing(), FilesSwitched(enabled=True)), LogNumber(2)) is definition
    assert definition.after((SchemaChanged(definition=EMAIL),), LogNumber(2)) is definition


def test_a_change_of_schema_replaces_it_from_its_number_on() -> None:
    definition = definition_at(EMAIL, 4)
    assert (definition.number, definition.body) == (4, EMAIL)
    assert definition.model is not None
    assert [(index.name, index.label, index.sparse) for index in definition.unique] == [("byEmail", "email", True)]
    plain = definition.after((SchemaChanged(definition=definition_of()),), LogNumber(5))
    assert plain.unique == ()


def test_a_closed_log_says_so_and_keeps_its_schema() -> None:
    closed = definition_at(EMAIL).after((Closed(reason="drop"),), LogNumber(2))
    assert closed.closed == Closed(reason="drop")
    assert closed.body == EMAIL


def test_a_delete_of_nothing_makes_no_collection() -> None:
    rig = Rig()
    ledger = rig.ledger()
    assert ledger.commit(rig.batch(remove("a"), events=(SchemaChanged(definition=EMAIL),))).changes == ()
    assert rig.slots() == []
