from __future__ import annotations

import msgspec
import pytest

from tests.engine.commit.test_validate import EMAIL, definition_of
from tests.engine.rig import Rig, definition_at, insert, remove
from wormdb.engine.forward.keeper import TailLimits
from wormdb.engine.state.definition import Definition, settled
from wormdb.engine.tree.definition import Index, encode_index
from wormdb.errors import CorruptionError
from wormdb.format.columns import ColumnSpec
from wormdb.format.event import (
    FilesSwitched,
    FunctionRegistered,
    IndexBuilding,
    IndexCreated,
    IndexReady,
    Nothing,
    SchemaChanged,
)
from wormdb.schema.load import load_model
from wormdb.system.types import LogNumber

BY_N = IndexCreated(name="byN", definition=encode_index(Index("byN", ("n",))))


def test_without_events_a_definition_is_the_same_object() -> None:
    definition = definition_at(EMAIL)
    assert definition.after((), LogNumber(2)) is definition
    assert definition.after((Nothing(),), LogNumber(2)) is definition


def test_files_are_kept_from_the_entry_on_that_says_so() -> None:
    on = FilesSwitched(enabled=True, oplog="inline", name="things/")
    definition = definition_at(EMAIL)
    assert not definition.keeps_files
    switched = definition.after((on,), LogNumber(2))
    assert switched.keeps_files
    assert switched.files == on
    assert switched.number == 2
    assert switched.after((on,), LogNumber(3)) is switched
    assert not switched.after((FilesSwitched(enabled=False),), LogNumber(4)).keeps_files
    assert definition.after((SchemaChanged(definition=EMAIL),), LogNumber(2)) is definition


def test_a_change_of_schema_replaces_it_from_its_number_on() -> None:
    definition = definition_at(EMAIL, 4)
    assert (definition.number, definition.body) == (4, EMAIL)
    assert definition.model is not None
    assert [(index.name, index.label, index.sparse) for index in definition.unique] == [("byEmail", "email", True)]
    plain = definition.after((SchemaChanged(definition=definition_of()),), LogNumber(5))
    assert plain.unique == ()


def test_over_documents_an_index_waits_until_its_build_says_that_it_is_ready() -> None:
    definition = Definition.none().after((SchemaChanged(definition=EMAIL),), LogNumber(4))
    assert definition.unique == ()
    assert [status.index.name for status in definition.unbuilt] == ["byEmail"]
    building = definition.after((IndexBuilding(name="byEmail", through=4),), LogNumber(5))
    assert (building.number, building.unique, len(building.unbuilt)) == (5, (), 1)
    ready = building.after((IndexReady(name="byEmail"),), LogNumber(6))
    assert ([index.name for index in ready.unique], ready.unbuilt) == (["byEmail"], ())
    assert ready.body == EMAIL


def test_an_event_of_an_index_that_cannot_come_now_is_damage() -> None:
    with pytest.raises(CorruptionError, match="log entry 2: index byEmail is ready and cannot become ready"):
        definition_at(EMAIL).after((IndexReady(name="byEmail"),), LogNumber(2))


def test_the_commit_says_whether_there_were_documents_before_an_index() -> None:
    events = (SchemaChanged(definition=EMAIL), BY_N, Nothing())
    for is_empty in (True, False):
        written = settled(events, is_empty=is_empty)
        assert [getattr(event, "empty", None) for event in written] == [is_empty, is_empty, None]
        assert written[2] is events[2]
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(mode="manual"))
    ledger.commit(rig.batch(insert("a"), events=(SchemaChanged(definition=EMAIL),)))
    ledger.commit(rig.batch(events=(BY_N,)))
    states = {status.index.name: status.state for status in rig.ledger().view().definition.indexes}
    assert states == {"byEmail": "ready", "byN": "waiting"}


def test_a_root_tells_the_same_definition_as_the_log() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", email="x"), events=(SchemaChanged(definition=EMAIL),)))
    ledger.commit(rig.batch(events=(FunctionRegistered(name="isAdult", filter=b'{"age":{"$gte":18}}'),)))
    before = ledger.view().definition
    ledger.forward()
    root = rig.register.read().root
    assert root is not None
    told = Definition.of_root(root)
    assert len(before.functions) == 1
    assert (told.body, told.functions, told.unique, told.model) == (
        EMAIL,
        before.functions,
        before.unique,
        before.model,
    )
    assert told.number == 2


def test_blocks_have_columns_for_what_is_declared_and_for_what_is_indexed() -> None:
    assert Definition.none().columns == ()
    model = load_model(
        "Thing",
        {
            "path": "@things/(id:any)",
            "fields": {"email": {"type": "string"}, "born": {"type": "datetime"}},
            "indexes": {"byEmail": {"field": "email"}, "byBirth": {"fields": ["born", "email"]}},
        },
    )
    definition = definition_at(model.canonical()).after((msgspec.structs.replace(BY_N, empty=True),), LogNumber(2))
    columns = {column.path: column for column in definition.columns}
    assert columns["email"] == ColumnSpec("email", "string")
    assert columns["born"] == ColumnSpec("born", "date")
    assert columns["n"] == ColumnSpec("n"), "nobody declared it"
    assert "_id" not in columns


def test_a_delete_of_nothing_makes_no_collection() -> None:
    rig = Rig()
    ledger = rig.ledger()
    assert ledger.commit(rig.batch(remove("a"), events=(SchemaChanged(definition=EMAIL),))).changes == ()
    assert rig.slots() == []
