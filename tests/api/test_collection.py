"""Documents in, documents out, without a schema."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128, ObjectId

import wormdb
from tests.api.faulty import faulty
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
)
from wormdb.settings import Settings
from wormdb.testing.fault_store import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.engine.state.view import View


@pytest.fixture
def things(db: Database) -> Collection[Document]:
    return db["things"]


# --- insert, find, count, iterate ---


def test_an_inserted_document_is_found_by_its_id(things: Collection[Document]) -> None:
    saved = things.insert({"id": "a", "n": 1})
    assert saved == {"id": "a", "n": 1}
    assert (saved.id, saved.rev, saved.seq) == ("a", 1, 1)
    found = things.find_by_id("a")
    assert found == saved
    assert found is not None
    assert (found.rev, found.seq) == (1, 1)
    assert things.exists("a")
    assert things.count() == 1


def test_what_is_not_there_is_none(things: Collection[Document]) -> None:
    assert things.find_by_id("a") is None
    assert not things.exists("a")
    assert things.count() == 0
    assert list(things) == []


def test_an_id_is_made_where_none_is_given(things: Collection[Document]) -> None:
    ids = {things.insert(given).id for given in ({"n": 1}, {"n": 2})}
    assert len(ids) == 2
    assert all(isinstance(identity, str) and len(identity) == 26 for identity in ids)


def test_id_and_underscore_id_are_the_same_field(things: Collection[Document]) -> None:
    assert things.insert({"_id": "a", "n": 1}) == {"id": "a", "n": 1}
    assert things.insert({"n": 1, "id": "b"}) == {"id": "b", "n": 1}
    assert things.save({"_id": "a", "id": "a", "n": 2}) == {"id": "a", "n": 2}
    with pytest.raises(InvalidRequestError, match="differ"):
        things.insert({"_id": "c", "id": "d"})


def test_the_id_comes_first_whatever_the_order_given(things: Collection[Document]) -> None:
    things.insert({"n": 1, "id": "a", "m": 2})
    found = things.find_by_id("a")
    assert found is not None
    assert list(found) == ["id", "n", "m"]


def test_documents_come_in_order_of_id(things: Collection[Document]) -> None:
    for identity in ["b", "a", 10, 9, "c", 2.5]:
        things.insert({"id": identity})
    assert [document.id for document in things] == [2.5, 9, 10, "a", "b", "c"]


def test_ids_that_are_equal_in_value_are_one_id(things: Collection[Document]) -> None:
    things.insert({"id": 1})
    with pytest.raises(AlreadyExistsError):
        things.insert({"id": 1.0})
    assert things.exists(1.0)
    assert not things.exists("1")


def test_every_type_of_value_comes_back(things: Collection[Document]) -> None:
    values: dict[str, Any] = {
        "text": "häßlich 🙂",
        "int": 2**62,
        "float": 1.5,
        "bool": True,
        "null": None,
        "date": datetime(2024, 1, 2, 3, 4, 5, 678000, UTC),
        "bytes": b"\x00\xff",
        "oid": ObjectId("65f0a1b2c3d4e5f60718293a"),
        "decimal": Decimal128("1.10"),
        "array": [1, [2, {"x": None}]],
        "object": {"a": {"b": 1}},
    }
    things.insert({"id": ObjectId("65f0a1b2c3d4e5f60718293b"), **values})
    found = things.find_by_id(ObjectId("65f0a1b2c3d4e5f60718293b"))
    assert found is not None
    assert {name: found[name] for name in values} == values


def test_what_was_given_is_not_kept_by_reference(things: Collection[Document]) -> None:
    given: dict[str, Any] = {"id": "a", "list": [1]}
    saved = things.insert(given)
    given["list"].append(2)
    saved["list"].append(3)
    assert things.find_by_id("a") == {"id": "a", "list": [1]}
    assert given == {"id": "a", "list": [1, 2]}, "a plain dict is left as it is"


def test_an_insert_of_what_is_there_is_refused(things: Collection[Document]) -> None:
    things.insert({"id": "a", "n": 1})
    with pytest.raises(AlreadyExistsError, match=r"document 'a' in things/: it exists already \(save it instead"):
        things.insert({"id": "a", "n": 2})
    assert things.find_by_id("a") == {"id": "a", "n": 1}


def test_iterating_sees_one_state_however_long_it_takes(things: Collection[Document]) -> None:
    things.insert_many({"id": number, "n": 0} for number in range(5))
    seen = []
    for document in things:
        seen.append(dict(document))
        things.save({"id": 4, "n": document.id})
        things.insert({"id": f"new{document.id}"})
        if document.id == 2:
            things.delete(3)
            things.forward()
    assert seen == [{"id": number, "n": 0} for number in range(5)]


# --- insert_many ---


def test_many_documents_are_inserted_all_or_none(things: Collection[Document]) -> None:
    ids = things.insert_many([{"id": "a"}, {"n": 1}, {"id": 3}])
    assert ids[0] == "a"
    assert ids[2] == 3
    assert things.count() == 3
    with pytest.raises(AlreadyExistsError):
        things.insert_many([{"id": "x"}, {"id": "a"}, {"id": "y"}])
    with pytest.raises(AlreadyExistsError):
        things.insert_many([{"id": "x"}, {"id": "x"}])
    assert things.count() == 3
    assert things.insert_many([]) == []
    assert things.insert_many(iter([{"id": "z"}])) == ["z"]


def test_documents_given_to_insert_many_know_their_revision_afterwards(things: Collection[Document]) -> None:
    documents = [things.create({"n": number}) for number in range(3)]
    things.insert_many(documents)
    assert [document.rev for document in documents] == [1, 1, 1]
    documents[0]["n"] = 9
    things.save(documents[0])
    assert things.count() == 3


# --- an id that was made is new only once ---


@pytest.mark.parametrize("verb", ["insert", "insert_many", "batch"])
def test_a_created_document_is_never_inserted_twice(things: Collection[Document], verb: str) -> None:
    document = things.create({"n": 1})
    inserts: dict[str, Callable[[Document], object]] = {
        "insert": things.insert,
        "insert_many": lambda given: things.insert_many([given]),
        "batch": lambda given: things.batch().insert(given).flush(),
    }
    insert = inserts[verb]
    insert(document)
    with pytest.raises(AlreadyExistsError):
        insert(document)
    assert things.count() == 1
    assert [change.seq for change in things.watch()] == [1]


def test_a_created_document_whose_id_was_changed_overwrites_nothing(things: Collection[Document]) -> None:
    things.insert({"id": "a", "n": 1})
    document = things.create({"n": 2})
    document["id"] = "a"
    with pytest.raises(AlreadyExistsError):
        things.insert(document)
    assert things.find_by_id("a") == {"id": "a", "n": 1}


def test_a_created_document_is_not_inserted_twice_after_an_unknown_outcome() -> None:
    """The write landed, its answer did not: a retry must not start a second history."""
    database, store = faulty(
        {3: Fault.ANSWER_LOST, **dict.fromkeys(range(4, 9), Fault.UNAVAILABLE_503)}, commit_seconds=0
    )
    things = database["things"]
    document = things.create({"n": 1})
    with pytest.raises(OutcomeUnknownError) as caught:
        things.insert(document)
    assert things.resolve(caught.value) is Fate.COMMITTED
    with pytest.raises(AlreadyExistsError):
        things.insert(document)
    assert store.fired


# --- create ---


def test_create_makes_a_document_without_any_request(db: Database, things: Collection[Document]) -> None:
    before = db.cost().requests
    document = things.create({"n": 1}, m=2)
    assert document["n"] == 1
    assert document["m"] == 2
    assert document.id is not None
    assert document.rev == 0
    assert things.create().id is not None
    assert things.create(id="mine").id == "mine"
    assert db.cost().requests == before
    assert things.count() == 0


# --- save ---


def test_a_save_creates_or_replaces(things: Collection[Document]) -> None:
    assert things.save({"id": "a", "n": 1, "old": True}).rev == 1
    assert things.save({"id": "a", "n": 2}) == {"id": "a", "n": 2}
    assert things.find_by_id("a") == {"id": "a", "n": 2}
    assert things.save({"n": 3}).id is not None
    assert things.count() == 2


def test_a_saved_document_can_be_changed_and_saved_again(things: Collection[Document]) -> None:
    document = things.insert({"id": "a", "n": 1})
    for number in range(2, 5):
        document["n"] = number
        assert things.save(document) is document
        assert (document.rev, document.seq) == (number, number)
    assert things.find_by_id("a") == {"id": "a", "n": 4}


def test_a_save_that_changes_nothing_writes_nothing(db: Database, things: Collection[Document]) -> None:
    document = things.insert({"id": "a", "n": 1})
    before = db.cost()
    assert things.save(document) is document
    assert things.save(document | {"n": 1}).rev == 1
    spent = db.cost()
    assert spent.gets - before.gets >= 2, "each time it is looked up"
    assert spent.requests - before.requests == spent.gets - before.gets
    assert [change.op for change in things.watch()] == ["create"]


def test_a_document_that_somebody_else_changed_is_a_conflict(url: str, things: Collection[Document]) -> None:
    things.insert({"id": "a", "n": 1})
    with wormdb.connect(url) as other:
        mine, theirs = things.find_by_id("a"), other["things"].find_by_id("a")
        assert mine is not None
        assert theirs is not None
        theirs["n"] = 2
        other["things"].save(theirs)
        mine["n"] = 3
        with pytest.raises(
            ConflictError, match=r"it changed since it was read at revision 1 \(load it again"
        ) as caught:
            things.save(mine)
        assert "'a'" in caught.value.what
        with pytest.raises(ConflictError):
            things.save(mine | {"n": 4})
        with pytest.raises(ConflictError):
            things.delete(mine)
        things.save(dict(mine))
        assert things.find_by_id("a") == {"id": "a", "n": 3}


def test_a_document_that_somebody_else_deleted_is_a_conflict_too(things: Collection[Document]) -> None:
    document = things.insert({"id": "a", "n": 1})
    things.delete("a")
    document["n"] = 2
    with pytest.raises(ConflictError):
        things.save(document)
    assert things.insert(document).seq == 3


def test_a_conflict_is_noticed_behind_a_forwarding_too(
    things: Collection[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document is read from one state while another thread moves on and brings the log into a block."""
    things.insert({"id": "a", "n": 1})
    look = things._ledger.view

    def look_and_move_on(**options: Any) -> View:
        view = look(**options)
        monkeypatch.undo()
        things.save({"id": "a", "n": 2})
        things.forward()
        return view

    monkeypatch.setattr(things._ledger, "view", look_and_move_on)
    document = things.find_by_id("a")
    assert document == {"id": "a", "n": 1}
    document["n"] = 3
    with pytest.raises(ConflictError):
        things.save(document)
    assert things.find_by_id("a") == {"id": "a", "n": 2}


def test_the_id_of_a_document_that_was_read_cannot_change(things: Collection[Document]) -> None:
    document = things.insert({"id": "a", "n": 1})
    document["id"] = "b"
    with pytest.raises(InvalidRequestError, match="an id stays for life"):
        things.save(document)
    assert things.insert(document).rev == 2, "inserting it under the new id is fine"
    assert things.count() == 2
    del document["id"]
    document["n"] = 5
    assert things.save(document) == {"id": "b", "n": 5}, "a document that was read needs no id to be known"


def test_a_document_read_from_one_collection_is_not_saved_in_another(
    db: Database, things: Collection[Document]
) -> None:
    document = things.insert({"id": "a", "n": 1})
    archive = db["archive"]
    for verb in (archive.save, archive.delete, archive.batch().update, archive.batch().delete):
        with pytest.raises(InvalidRequestError, match=r"it was read from .*/things/, and this is .*/archive/"):
            verb(document)
    assert archive.count() == 0
    copied = archive.insert(document)
    assert (copied.seq, archive.count(), things.count()) == (1, 1, 1)
    assert [change.before for change in archive.watch()] == [None]


def test_documents_of_two_handles_of_one_place_are_the_same(url: str, things: Collection[Document]) -> None:
    document = things.insert({"id": "a", "n": 1})
    with wormdb.connect(url) as other:
        document["n"] = 2
        other["things"].save(document)
    assert things.find_by_id("a") == {"id": "a", "n": 2}


def test_two_memories_without_a_name_have_nothing_in_common() -> None:
    with wormdb.connect("memory://") as one, wormdb.connect("memory://") as two:
        document = one["things"].insert({"id": "a"})
        with pytest.raises(InvalidRequestError):
            two["things"].save(document | {"n": 1})


# --- delete ---


def test_a_delete_says_whether_there_was_something(things: Collection[Document]) -> None:
    things.insert({"id": "a"})
    document = things.insert({"id": "b"})
    assert things.delete("a") is True
    assert things.delete("a") is False
    assert things.delete(document) is True
    things.insert({"id": "c"})
    assert things.delete({"id": "c"}) is True
    assert things.count() == 0


def test_a_document_that_comes_back_goes_on_counting_its_changes(things: Collection[Document]) -> None:
    things.insert({"id": "a"})
    things.delete("a")
    assert things.insert({"id": "a"}).seq == 3
    things.forward()
    things.delete("a")
    things.forward()
    assert things.insert({"id": "a"}).seq == 5


# --- modify ---


def test_modify_loads_changes_and_saves(things: Collection[Document]) -> None:
    things.insert({"id": "a", "n": 1})

    def bump(document: Document) -> None:
        document["n"] += 1

    assert things.modify("a", bump) == {"id": "a", "n": 2}
    assert things.modify("a", lambda document: document | {"m": 1}) == {"id": "a", "n": 2, "m": 1}
    assert things.modify("a", lambda _: {"n": 9}) == {"id": "a", "n": 9}, "the id need not be repeated"
    assert things.find_by_id("a") == {"id": "a", "n": 9}


def test_modify_starts_again_when_somebody_else_was_faster(url: str, things: Collection[Document]) -> None:
    things.insert({"id": "a", "n": 0})
    calls = []
    with wormdb.connect(url) as other:

        def bump(document: Document) -> None:
            calls.append(document["n"])
            if len(calls) < 4:
                other["things"].modify("a", lambda theirs: theirs | {"n": theirs["n"] + 10})
            document["n"] += 1

        assert things.modify("a", bump)["n"] == 31
    assert calls == [0, 10, 20, 30]


def test_modify_gives_up_after_many_losses(url: str) -> None:
    with wormdb.connect(url, settings=Settings(modify_attempts=3)) as database, wormdb.connect(url) as other:
        things = database["things"]
        things.insert({"id": "a", "n": 0})

        def lose(document: Document) -> None:
            other["things"].modify("a", lambda theirs: theirs | {"n": theirs["n"] + 1})
            document["n"] = -1

        with pytest.raises(ConflictError, match="another writer changed it 3 times in a row"):
            things.modify("a", lose)
        assert things.find_by_id("a") == {"id": "a", "n": 3}


def test_modify_of_nothing_and_of_the_id_is_refused(db: Database, things: Collection[Document]) -> None:
    with pytest.raises(NotFoundError, match="document 'a' in things: it does not exist"):
        things.modify("a", lambda document: document)
    things.insert({"id": "a", "n": 1})
    with pytest.raises(InvalidRequestError, match="an id stays for life"):
        things.modify("a", lambda document: document | {"id": "b"})
    before = db.cost().puts
    things.modify("a", lambda document: document)
    assert db.cost().puts == before


@pytest.mark.parametrize("bad", [None, 5, {"n": 2}])
def test_a_change_must_be_a_function(db: Database, things: Collection[Document], bad: Any) -> None:
    with pytest.raises(InvalidRequestError, match="give a function"):
        things.modify("a", bad)
    assert db.cost().requests == 0


def test_an_error_in_the_change_leaves_everything_as_it_was(things: Collection[Document]) -> None:
    things.insert({"id": "a", "n": 1})

    def fail(document: Document) -> None:
        document["n"] = 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        things.modify("a", fail)
    assert things.find_by_id("a") == {"id": "a", "n": 1}


# --- names ---


def test_a_collection_knows_its_name_and_place(db: Database) -> None:
    nested = db["org/eu/customers"]
    assert (nested.name, nested.prefix, nested.mode) == ("org/eu/customers", "org/eu/customers/", "readwrite")
    nested.insert({"id": "a"})
    assert db["org/eu"].count() == 0


# --- resolve ---


def test_an_unknown_outcome_is_resolved_with_the_error_itself_or_its_commit_id() -> None:
    database, store = faulty({3: Fault.LANDS_LATE}, commit_seconds=0)
    things = database["things"]
    with pytest.raises(OutcomeUnknownError) as caught:
        things.insert({"id": "a"})
    assert caught.value.commit_id is not None
    assert things.resolve(caught.value) is Fate.UNKNOWN
    assert things.resolve(caught.value.commit_id) is Fate.UNKNOWN
    assert things.resolve(caught.value, settle=True) is Fate.NOT_COMMITTED
    store.land()
    assert things.count() == 0
    assert str(Fate.NOT_COMMITTED) == "not committed"


@pytest.mark.parametrize("bad", ["", "1-2-3", OutcomeUnknownError("something else"), 5, None])
def test_what_names_no_commit_is_refused(db: Database, things: Collection[Document], bad: Any) -> None:
    for settle in (False, True):
        with pytest.raises(InvalidRequestError) as caught:
            things.resolve(bad, settle=settle)
        assert caught.value.reason
    assert db.cost().requests == 0
