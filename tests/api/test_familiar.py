"""Habits of pymongo: its names, arguments and results work here too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne

import wormdb
from wormdb.testing.strategies import documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb import Collection, Document


@pytest.fixture
def people() -> Iterator[Collection[Document]]:
    with wormdb.connect("memory://") as database:
        found = database["people"]
        found.insert_many([{"_id": f"p{n}", "n": n, "group": n % 3, "name": f"name {n}"} for n in range(12)])
        yield found


def test_inserts_tell_the_ids(people: Collection[Document]) -> None:
    made = people.insert_one({"n": 1})
    assert (made.acknowledged, people.exists(made.inserted_id)) == (True, True)
    several = people.insert_many([{"_id": 1}, {"_id": ObjectId("6" * 24)}])
    assert several.inserted_ids == [1, ObjectId("6" * 24)] == several
    assert several.acknowledged


def test_changes_tell_counts(people: Collection[Document]) -> None:
    done = people.update_many({"group": 0}, {"$set": {"group": 0, "x": 1}})
    assert (done.matched_count, done.modified_count, done.upserted_id, done.acknowledged) == (4, 4, None, True)
    again = people.update_many({"group": 0}, {"$set": {"x": 1}})
    assert (again.matched_count, again.modified_count) == (4, 0)
    assert people.update_one({"_id": "new"}, {"$set": {"x": 1}}, upsert=True).upserted_id == "new"
    gone = people.delete_many({"x": 1})
    assert (gone.deleted_count, gone.acknowledged) == (5, True)


def test_a_projection_may_be_the_second_argument(people: Collection[Document]) -> None:
    assert people.find({"n": {"$lt": 2}}, ["n"]).to_list() == [{"id": "p0", "n": 0}, {"id": "p1", "n": 1}]
    assert people.find_one({"n": 1}, {"n": 1, "_id": 0}) == {"n": 1}
    assert people.find_all({"n": 1}, {"name": 1}) == people.find_all({"n": 1}, select={"name": 1})


@given(
    sort=st.sampled_from([("n", -1), ("group", 1), ([("group", -1), ("n", 1)],), ("name",), ({"group": 1, "n": -1},)]),
    skip=st.integers(0, 14),
    limit=st.integers(0, 14),
)
def test_chains_are_the_options_of_find(sort: tuple[Any, ...], skip: int, limit: int) -> None:
    with wormdb.connect("memory://") as database:
        people = database["people"]
        people.insert_many([{"_id": f"p{n}", "n": n, "group": n % 3, "name": f"name {n}"} for n in range(12)])
        written = sort[0] if len(sort) == 1 else [sort]
        expected = people.find_all({"n": {"$gt": 0}}, sort=written, offset=skip, limit=limit or None)
        chained = people.find({"n": {"$gt": 0}}).sort(*sort).skip(skip).limit(limit)
        assert chained.to_list() == expected
        assert people.find({"n": {"$gt": 0}}).limit(limit).skip(skip).sort(*sort).to_list() == expected
        assert chained.count() == len(expected)


def test_a_chain_leaves_what_it_was_made_of_as_it_was(people: Collection[Document]) -> None:
    found = people.find({})
    assert len(found.limit(2).to_list()) == 2
    assert len(found.to_list()) == 12


@pytest.mark.parametrize("call", ["skip", "limit"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "3"])
def test_numbers_of_a_chain_are_checked(people: Collection[Document], call: str, value: Any) -> None:
    with pytest.raises(wormdb.InvalidRequestError, match="0 or more"):
        getattr(people.find({}), call)(value)


def test_a_page_keeps_its_order(people: Collection[Document]) -> None:
    page = people.find({}, sort="n", limit=3)
    behind = people.find({}, sort="n", limit=3, page=page.next_page)
    with pytest.raises(wormdb.InvalidRequestError, match="a page goes on"):
        behind.sort("name")
    assert [row["n"] for row in behind.limit(1)] == [3]


def test_one_document_by_its_id(people: Collection[Document]) -> None:
    identity = ObjectId()
    people.insert_many([{"_id": identity, "a": 1}, {"_id": 7, "a": 2}])
    assert people.find_one("p3") == people.find_by_id("p3")
    assert people.find_one(identity) == people.find_by_id(identity)  # type: ignore[call-overload] # as in pymongo
    assert people.find_one(7) == people.find_by_id(7)  # type: ignore[call-overload] # as in pymongo
    assert people.find_one("n=3") == people.find_by_id("p3"), "text with a condition is a filter"
    assert people.find_one("nothing") is None


def test_the_id_has_two_names(people: Collection[Document]) -> None:
    document = people.find_one({"n": 3})
    assert document is not None
    assert document["_id"] == document["id"] == document.id == "p3"
    with pytest.raises(KeyError, match="other"):
        document["other"]
    document["n"] = 30
    assert people.save(document)["_id"] == "p3"
    assert "_id" not in dict(document)
    (row,) = people.find({"_id": "p4"}, ["n"])
    assert row["_id"] == row["id"] == "p4"
    with pytest.raises(KeyError, match="name"):
        row["name"]


@given(documents())
def test_every_document_that_was_read_has_both_names(document: dict[str, Any]) -> None:
    with wormdb.connect("memory://") as database:
        values = {name: value for name, value in document.items() if name != "_id"}
        database["things"].insert({**values, "_id": "x"})
        for found in (*database["things"].find(), *database["things"].scan(), *database["things"].cursor()):
            assert found["_id"] == found.id == "x"


def test_counts(people: Collection[Document]) -> None:
    assert people.count_documents({}) == people.estimated_document_count() == 12
    assert people.count_documents({"group": 1}) == 4


def test_an_estimate_makes_no_request_in_a_process_that_knows() -> None:
    with wormdb.connect("memory://") as database:
        database["things"].insert({"_id": 1})
        database["things"].count()
        before = database.cost()
        assert database["things"].estimated_document_count() == 1
        assert (database.cost() - before).requests == 0


def test_an_index_by_pairs_that_is_there_is_not_made_again(people: Collection[Document]) -> None:
    made = people.create_index([("group", 1), ("n", -1)], unique=True)
    assert made.fields == ("group", "n")
    number = people.insert({"_id": "more", "group": 9, "n": 9}).rev
    assert people.create_index([("group", 1), ("n", -1)], unique=True) == made
    assert people.create_index({"group": 1, "n": -1}, unique=True) == made
    assert people.insert({"_id": "more2", "group": 9, "n": 10}).rev == number + 1, "nothing was written"
    with pytest.raises(wormdb.AlreadyExistsError):
        people.create_index(["group", "n"])
    people.drop_index([("group", 1), ("n", -1)])
    assert [each.name for each in people.indexes()] == ["_id"]


@pytest.mark.parametrize("fields", [[("a", "text")], [("a", "2dsphere")], [("a", 0)], [("a", "hashed")], [("a", True)]])
def test_other_kinds_of_indexes_are_refused(people: Collection[Document], fields: Any) -> None:
    with pytest.raises(wormdb.InvalidRequestError, match="values in their order"):
        people.create_index(fields)


def test_return_document_is_pymongos_too(people: Collection[Document]) -> None:
    before = people.find_one_and_update({"_id": "p1"}, {"$inc": {"n": 1}}, return_document=ReturnDocument.BEFORE)
    after = people.find_one_and_update({"_id": "p1"}, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER)
    assert before is not None
    assert after is not None
    assert (before["n"], after["n"]) == (1, 3)


def test_a_feed_goes_on_after_a_mark(people: Collection[Document]) -> None:
    first, *rest = people.watch()
    assert list(people.watch(resume_after=first.resume)) == rest


def test_a_bulk_write_is_one_batch_in_order(people: Collection[Document]) -> None:
    before = people.insert({"_id": "mark"}).rev
    done = people.bulk_write(
        [
            InsertOne({"_id": "new", "n": 1}),
            UpdateOne({"_id": "new"}, {"$inc": {"n": 1}}),
            UpdateMany({"group": 0}, {"$set": {"hit": True}}),
            ReplaceOne({"_id": "p1"}, {"only": 1}),
            UpdateOne({"_id": "up"}, {"$set": {"a": 1}}, upsert=True),
            DeleteOne({"_id": "p2"}),
            DeleteMany({"hit": True, "n": {"$gt": 3}}),
        ]
    )
    assert (done.inserted_count, done.matched_count, done.modified_count) == (1, 6, 6)
    assert (done.deleted_count, done.upserted_ids, done.upserted_count, done.acknowledged) == (3, {4: "up"}, 1, True)
    assert people.find_by_id("new") == {"id": "new", "n": 2}
    assert {change.number for change in people.watch(before)} == {before + 1}, "one entry"


def test_a_bulk_write_that_fails_writes_nothing(people: Collection[Document]) -> None:
    with pytest.raises(wormdb.AlreadyExistsError) as caught:
        people.bulk_write([InsertOne({"_id": "new"}), InsertOne({"_id": "p1"})])
    assert "request 1, InsertOne" in caught.value.__notes__[0]
    assert not people.exists("new")


@pytest.mark.parametrize("requests", [[], [{"insert": 1}], [InsertOne({"_id": "x"}), "delete"]])
def test_what_is_no_request_is_refused_before_anything_is_written(
    people: Collection[Document], requests: list[Any]
) -> None:
    with pytest.raises(wormdb.InvalidRequestError, match="bulk_write"):
        people.bulk_write(requests)
    assert people.count() == 12


def test_bulk_writes_and_familiar_names_are_part_of_a_transaction() -> None:
    with wormdb.connect("memory://") as database:
        with database.transaction() as tx:
            assert tx["a"].insert_one({"_id": 1}).inserted_id == 1
            done = tx["b"].bulk_write([InsertOne({"_id": 2}), UpdateOne({"_id": 2}, {"$set": {"x": 1}})])
            assert done.matched_count == tx["b"].count_documents({"x": 1}) == 1
            assert database["a"].count() == database["b"].count() == 0
        assert database["a"].count() == database["b"].count() == 1


def test_the_names_of_collections() -> None:
    with wormdb.connect("memory://") as database:
        database["b/c"].insert({"_id": 1})
        database["a"].insert({"_id": 1})
        assert database.list_collection_names() == ["a", "b/c"]
