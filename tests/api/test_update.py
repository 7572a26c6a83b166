"""Updates, replacements and deletes by filter: what they do, what they tell, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    UniqueViolationError,
)
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

Things = wormdb.Collection[wormdb.Document]


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    """An empty database in which no time passes by itself."""
    with wormdb.connect(url, clock=ManualClock()) as database:
        yield database


@pytest.fixture(params=[False, True], ids=["tail", "forwarded"])
def things(request: pytest.FixtureRequest, db: Database) -> Collection[Document]:
    """Three documents, in the log or in a block."""
    made = db["things"]
    made.insert_many([{"id": "a", "n": 1, "tags": ["x"]}, {"id": "b", "n": 2}, {"id": "c", "n": 3}])
    if request.param:
        made.forward()
    return made


def contents(things: Collection[Document]) -> dict[Any, dict[str, Any]]:
    return {document.id: {name: document[name] for name in document if name != "id"} for document in things}


# --- what they do ---


def test_update_one_changes_the_first_by_id_or_by_sort(things: Things) -> None:
    assert things.update_one({}, {"$set": {"k": 1}}) == wormdb.UpdateResult(1, 1, None, 2)
    assert things.update_one({"n": {"$gt": 0}}, {"$inc": {"n": 10}}, sort="-n").modified == 1
    assert contents(things) == {"a": {"n": 1, "tags": ["x"], "k": 1}, "b": {"n": 2}, "c": {"n": 13}}


def test_an_update_by_id_looks_at_the_rest_of_the_filter_too(things: Things) -> None:
    assert things.update_one({"id": "a", "n": 2}, {"$set": {"k": 1}}).matched == 0
    assert things.update_one({"_id": "a", "n": 1}, {"$set": {"k": 1}}).matched == 1
    assert things.update_many({"$and": [{"id": "b"}, {"id": "c"}]}, {"$set": {"k": 1}}).matched == 0
    assert things.update_one({"id": None}, {"$set": {"k": 1}}).matched == 0
    assert things.update_one({"id": ["a"]}, {"$set": {"k": 1}}).matched == 0


def test_ids_that_are_equal_numbers_are_the_same(db: Database) -> None:
    db["n"].insert({"id": 1})
    assert db["n"].update_one({"id": 1.0}, {"$set": {"k": 1}}).modified == 1
    assert db["n"].replace_one({"id": 1}, {"id": 1.0, "k": 2}).modified == 1
    assert db["n"].find_by_id(1) == {"id": 1, "k": 2}


def test_update_many_is_one_entry_and_counts_what_matched_and_what_changed(things: Things) -> None:
    result = things.update_many({"n": {"$lte": 2}}, {"$max": {"n": 2}})
    assert result == wormdb.UpdateResult(matched=2, modified=1, upserted_id=None, number=2)
    result = things.update_many({}, {"$mul": {"n": 2}})
    assert (result.matched, result.modified, result.number) == (3, 3, 3)
    assert [(change.id, change.number) for change in things.watch(after=2)] == [("a", 3), ("b", 3), ("c", 3)]


def test_what_stays_as_it_is_is_not_written(things: Things) -> None:
    before = things.find_by_id("a")
    assert things.update_many({}, {"$unset": {"nothing": ""}}) == wormdb.UpdateResult(3, 0, None, 1)
    assert things.update_one({"id": "a"}, {"$addToSet": {"tags": "x"}}).modified == 0
    assert things.replace_one({"id": "b"}, {"n": 2}).modified == 0
    after = things.find_by_id("a")
    assert before is not None
    assert after is not None
    assert (after.rev, after.seq) == (before.rev, before.seq) == (1, 1)


def test_nothing_matches(things: Things) -> None:
    assert things.update_one({"n": 9}, {"$set": {"k": 1}}) == wormdb.UpdateResult(0, 0, None, 1)
    assert things.update_many({"n": 9}, {"$set": {"k": 1}}) == wormdb.UpdateResult(0, 0, None, 1)
    assert things.replace_one({"n": 9}, {"k": 1}) == wormdb.UpdateResult(0, 0, None, 1)
    assert things.delete_one({"n": 9}) == wormdb.DeleteResult(0, 1)
    assert things.delete_many({"n": 9}) == wormdb.DeleteResult(0, 1)
    assert things.find_one_and_update({"n": 9}, {"$set": {"k": 1}}) is None
    assert things.find_one_and_update({"n": 9}, {"$set": {"k": 1}}, return_document="after") is None
    assert things.find_one_and_replace({"n": 9}, {"k": 1}) is None
    assert things.find_one_and_delete({"n": 9}) is None


def test_a_filter_as_on_the_command_line(things: Things) -> None:
    assert things.update_many("n>=2", {"$set": {"big": True}}).modified == 2
    assert things.delete_many("big=true").deleted == 2


def test_positions_and_array_filters(db: Database) -> None:
    orders = db["orders"]
    orders.insert({"id": 1, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}, {"sku": "b", "n": 3}]})
    assert orders.update_one({"lines.sku": "b"}, {"$set": {"lines.$.n": 9}}).modified == 1
    assert [line["n"] for line in orders.find_by_id(1)["lines"]] == [1, 9, 3]  # type: ignore[index] # it is there
    orders.update_many({}, {"$inc": {"lines.$[].n": 1}})
    orders.update_many({}, {"$inc": {"lines.$[b].n": 100}}, array_filters=[{"b.sku": "b"}])
    assert [line["n"] for line in orders.find_by_id(1)["lines"]] == [2, 110, 104]  # type: ignore[index] # it is there
    with pytest.raises(InvalidRequestError, match="the filter has no condition on lines"):
        orders.update_one({"id": 1}, {"$set": {"lines.$.n": 9}})
    with pytest.raises(InvalidRequestError, match="there is no array filter b"):
        orders.update_one({"id": 1}, {"$set": {"lines.$[b].n": 9}})


def test_the_time_is_the_database_s(url: str) -> None:
    clock = ManualClock(1_800_000_000_000)
    with wormdb.connect(url, clock=clock) as database:
        things = database["things"]
        things.insert({"id": "a"})
        clock.advance(5)
        now = clock.now_ms()
        things.update_one({"id": "a"}, {"$currentDate": {"at": True}})
        assert things.find_by_id("a") == {"id": "a", "at": datetime.fromtimestamp(now / 1000, UTC)}


def test_a_replacement_keeps_the_id_and_nothing_else(things: Things) -> None:
    assert things.replace_one({"n": 2}, {"m": 1}).modified == 1
    assert things.replace_one({"id": "a"}, {"id": "a", "k": [1]}).modified == 1
    assert contents(things) == {"a": {"k": [1]}, "b": {"m": 1}, "c": {"n": 3}}


def test_a_document_that_was_read_may_be_a_replacement(things: Things) -> None:
    read = things.find_by_id("a")
    assert read is not None
    things.update_one({"id": "a"}, {"$inc": {"n": 5}})
    assert things.replace_one({"id": "a"}, read | {"k": 1}).modified == 1
    assert contents(things)["a"] == {"n": 1, "tags": ["x"], "k": 1}


def test_deletes(things: Things) -> None:
    assert things.delete_one({"n": {"$gt": 0}}, sort="-n") == wormdb.DeleteResult(1, 2)
    assert sorted(contents(things)) == ["a", "b"]
    assert things.delete_one({"id": "a"}).deleted == 1
    things.insert({"id": "d"})
    assert things.delete_many({}).deleted == 2
    assert things.count() == 0
    assert [entry.seq for entry in things.get_history("b")] == [1, 2]


# --- the document before and after ---


def test_find_one_and_update_gives_the_document_before_or_after(things: Things) -> None:
    before = things.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}})
    assert before == {"id": "a", "n": 1, "tags": ["x"]}
    assert before is not None
    assert (before.rev, before.seq) == (1, 1)
    after = things.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}, return_document="after")
    assert after == {"id": "a", "n": 3, "tags": ["x"]}
    assert after is not None
    assert (after.rev, after.seq) == (3, 3)
    after["n"] = 10
    assert things.save(after)["n"] == 10
    with pytest.raises(ConflictError):
        things.save(before | {"n": 0})


def test_find_one_and_update_of_what_stays_as_it_is(things: Things) -> None:
    same = things.find_one_and_update({"id": "b"}, {"$set": {"n": 2}}, return_document="after")
    assert same == {"id": "b", "n": 2}
    assert same is not None
    assert same.rev == 1
    assert things.save(same | {"n": 3}).rev == 2


def test_find_one_and_update_that_inserts(things: Things) -> None:
    assert things.find_one_and_update({"id": "x"}, {"$inc": {"n": 1}}, upsert=True) is None
    after = things.find_one_and_update({"id": "y"}, {"$inc": {"n": 1}}, upsert=True, return_document="after")
    assert after == {"id": "y", "n": 1}
    assert after is not None
    assert (after.rev, after.seq) == (3, 1)
    replaced = things.find_one_and_replace({"id": "z"}, {"n": 1}, upsert=True, return_document="after")
    assert replaced == {"id": "z", "n": 1}


def test_find_one_and_replace_and_delete(things: Things) -> None:
    assert things.find_one_and_replace({"n": {"$gt": 0}}, {"m": 1}, sort="-n") == {"id": "c", "n": 3}
    gone = things.find_one_and_delete({}, sort={"n": -1})
    assert gone == {"id": "b", "n": 2}
    assert gone is not None
    things.save(gone)
    assert contents(things) == {"a": {"n": 1, "tags": ["x"]}, "b": {"n": 2}, "c": {"m": 1}}


def test_parts_of_the_document(things: Things) -> None:
    assert things.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}, select=["n"]) == {"id": "a", "n": 1}
    after = things.find_one_and_update(
        {"id": "a"}, {"$inc": {"n": 1}}, select={"n": 1, "_id": 0}, return_document="after"
    )
    assert after == {"n": 3}
    assert type(after) is dict
    matched = things.find_one_and_replace({"tags": "x"}, {"n": 0}, select={"tags.$": 1})
    assert matched == {"id": "a", "tags": ["x"]}
    assert things.find_one_and_delete({"id": "a"}, select={"n": 0}) == {"id": "a"}


def test_what_cannot_be_shown_is_refused_before_anything_is_written(things: Things) -> None:
    wrong: list[Callable[[], object]] = [
        lambda: things.find_one_and_update(
            {"tags": "x"}, {"$set": {"k": 1}}, select={"tags.$": 1}, return_document="after"
        ),
        lambda: things.find_one_and_update({"id": "a"}, {"$set": {"k": 1}}, select={"tags.$": 1}),
        lambda: things.find_one_and_update({"id": "a"}, {"$set": {"k": 1}}, select="tags"),
        lambda: things.find_one_and_update({"id": "a"}, {"$set": {"k": 1}}, return_document="new"),  # type: ignore[call-overload] # on purpose
        lambda: things.find_one_and_delete({"id": "a"}, select={"n": 1, "tags": 0}),
    ]
    for call in wrong:
        with pytest.raises(InvalidRequestError):
            call()
    assert things.count() == 3
    assert [change.number for change in things.watch(after=1)] == []


# --- upserts ---


def test_an_upsert_inserts_the_equalities_of_the_filter_and_the_update(things: Things) -> None:
    result = things.update_one({"id": "x", "n": {"$gt": 1}, "k": 2}, {"$inc": {"m": 1}}, upsert=True)
    assert result == wormdb.UpdateResult(0, 0, "x", 2)
    assert things.find_by_id("x") == {"id": "x", "k": 2, "m": 1}
    made = things.update_many({"kind": "new"}, {"$setOnInsert": {"first": True}, "$set": {"n": 0}}, upsert=True)
    assert things.find_by_id(made.upserted_id) == {"id": made.upserted_id, "kind": "new", "first": True, "n": 0}
    again = things.update_many({"kind": "new"}, {"$setOnInsert": {"first": False}, "$set": {"n": 0}}, upsert=True)
    assert (again.matched, again.modified, again.upserted_id) == (1, 0, None)


def test_an_upsert_of_a_replacement(things: Things) -> None:
    assert things.replace_one({"id": "x", "k": 1}, {"m": 1}, upsert=True).upserted_id == "x"
    assert things.find_by_id("x") == {"id": "x", "m": 1}
    assert things.replace_one({"k": 1}, {"_id": "y", "m": 1}, upsert=True).upserted_id == "y"
    assert len(things.replace_one({"k": 1}, {"m": 1}, upsert=True).upserted_id) == 26
    with pytest.raises(InvalidRequestError, match="is not the id"):
        things.replace_one({"id": "z"}, {"id": "other"}, upsert=True)


def test_an_upsert_with_the_id_of_a_document_that_does_not_match(things: Things) -> None:
    with pytest.raises(AlreadyExistsError, match=r"document 'a' in things.*does not match"):
        things.update_one({"id": "a", "n": 9}, {"$set": {"k": 1}}, upsert=True)
    with pytest.raises(AlreadyExistsError):
        things.update_one({"n": 9}, {"$setOnInsert": {"_id": "a"}}, upsert=True)
    assert things.count() == 3


def test_an_upsert_after_a_delete_goes_on_counting(things: Things) -> None:
    things.delete_one({"id": "a"})
    after = things.find_one_and_update({"id": "a"}, {"$set": {"n": 5}}, upsert=True, return_document="after")
    assert after is not None
    assert (after.seq, after["n"]) == (3, 5)


# --- mistakes ---


@pytest.mark.parametrize(
    ("update", "told"),
    [
        ({"n": 1}, r"it has no operator \(write .*replace_one"),
        ({"$set": {"n": 1}, "k": 1}, "fields and operators are mixed"),
        ({}, "it has no operator"),
        ([{"$set": {"n": 1}}], "an update is a document of operators"),
        ({"$sett": {"n": 1}}, r"there is no operator \$sett of updates \(did you mean '\$set'"),
        ({"$zzz": {"n": 1}}, r"known are: \$addToSet, .*\$unset"),
        ({"$set": {"_id": 1}}, "the id of a document never changes"),
        ({"$inc": {"id": 1}}, "the id of a document never changes"),
        ({"$rename": {"n": "_id"}}, "the id of a document never changes"),
    ],
)
def test_updates_that_are_none(things: Things, update: Any, told: str) -> None:
    for call in (things.update_one, things.update_many, things.find_one_and_update):
        with pytest.raises(InvalidRequestError, match=told):
            call({}, update)


def test_replacements_that_are_none(things: Things) -> None:
    for call in (things.replace_one, things.find_one_and_replace):
        with pytest.raises(InvalidRequestError, match=r"no operators \(call update_one"):
            call({}, {"$set": {"n": 1}})
        with pytest.raises(InvalidRequestError, match="'x' is not the id 'a'"):
            call({"id": "a"}, {"_id": "x"})
        with pytest.raises(InvalidRequestError, match="must be a mapping"):
            call({"id": "a"}, 5)  # type: ignore[call-overload, arg-type] # on purpose


@pytest.mark.parametrize("wrong", [None, "", "  ", 5, ["a"], {"$where": "1"}, {"n": {"$foo": 1}}])
def test_filters_that_are_none_change_nothing(things: Things, wrong: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: things.update_one(wrong, {"$set": {"k": 1}}),
        lambda: things.update_many(wrong, {"$set": {"k": 1}}),
        lambda: things.replace_one(wrong, {}),
        lambda: things.delete_one(wrong),
        lambda: things.delete_many(wrong),
        lambda: things.find_one_and_delete(wrong),
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError, match="filter"):
            call()
    assert things.count() == 3


def test_an_operator_that_does_not_fit_names_the_document_and_nothing_is_written(things: Things) -> None:
    with pytest.raises(InvalidRequestError, match=r"\$push cannot be applied to document 'b': n: "):
        things.update_many({"id": {"$ne": "a"}}, {"$push": {"n": 1}})
    things.update_one({"id": "c"}, {"$set": {"n": "text"}})
    with pytest.raises(InvalidRequestError, match=r"\$inc cannot be applied to document 'c': n: it holds a string"):
        things.update_many({}, {"$inc": {"n": 1}})
    with pytest.raises(LimitExceededError, match=r"document 'a'"):
        things.update_one({"id": "a"}, {"$inc": {"n": 2**63 - 1}})
    assert contents(things) == {"a": {"n": 1, "tags": ["x"]}, "b": {"n": 2}, "c": {"n": "text"}}


def test_a_document_that_grows_too_large_is_named(things: Things) -> None:
    things.update_one({"id": "a"}, {"$set": {"text": "x" * 9_000_000}})
    with pytest.raises(LimitExceededError, match="document 'a' in things cannot be changed"):
        things.update_one({"id": "a"}, {"$set": {"more": "x" * 9_000_000}})


# --- unique values ---


def test_unique_values_are_kept_and_may_be_traded(things: Things) -> None:
    things.create_index("n", unique=True)
    with pytest.raises(UniqueViolationError) as caught:
        things.update_one({"id": "a"}, {"$inc": {"n": 1}})
    assert caught.value.owner == "b"
    assert things.update_many({}, {"$inc": {"n": 1}}).modified == 3
    assert {key: values["n"] for key, values in contents(things).items()} == {"a": 2, "b": 3, "c": 4}
    with pytest.raises(UniqueViolationError):
        things.update_one({"k": 1}, {"$set": {"n": 4}}, upsert=True)


# --- who and why ---


def test_actor_and_metadata_are_kept(things: Things) -> None:
    things.update_many({"id": "a"}, {"$set": {"k": 1}}, actor="ada", metadata={"why": 1})
    things.replace_one({"id": "a"}, {"k": 2}, actor="ada", metadata={"why": 2})
    things.find_one_and_update({"id": "a"}, {"$set": {"k": 3}}, actor="ada", metadata={"why": 3})
    things.find_one_and_delete({"id": "a"}, actor="ada", metadata={"why": 4})
    told = [(entry.actor, entry.metadata) for entry in things.get_history("a")][1:]
    assert told == [("ada", {"why": number}) for number in (1, 2, 3, 4)]
    with pytest.raises(InvalidRequestError, match="actor"):
        things.delete_many({}, actor="")
