"""Names and arguments of pymongo that are not here: each error says what to write instead, and that exists."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import pymongo
import pymongo.collection
import pymongo.cursor
import pymongo.database
import pytest

import wormdb
from wormdb.api.feed import ChangeStream
from wormdb.api.pymongo_names import ARGUMENTS, NAMES
from wormdb.api.results import Results

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS: dict[str, type[Any]] = {
    "Database": wormdb.Database,
    "Collection": wormdb.Collection,
    "Results": Results,
    "ChangeStream": ChangeStream,
}
THEIRS: dict[str, type[Any]] = {
    "Database": pymongo.database.Database,
    "Collection": pymongo.collection.Collection,
    "Results": pymongo.cursor.Cursor,
}


@pytest.fixture
def db() -> Iterator[wormdb.Database]:
    with wormdb.connect("memory://") as database:
        database["c"].insert_many([{"id": 1, "a": 1}, {"id": 2, "a": 2}])
        yield database


@pytest.mark.parametrize("kind", THEIRS)
def test_every_name_of_pymongo_is_here_or_is_told(kind: str) -> None:
    public = {name for name in dir(THEIRS[kind]) if not name.startswith("_")}
    lacking = {name for name in public if not hasattr(OURS[kind], name)}
    # What pymongo has for its own workings, and no program calls.
    lacking -= {"address"}
    assert lacking - NAMES[kind].keys() == set()


def test_no_name_is_told_that_is_here() -> None:
    for kind, ours in OURS.items():
        assert [name for name in NAMES[kind] if hasattr(ours, name)] == []


def test_what_is_told_exists() -> None:
    known = {name for ours in OURS.values() for name in dir(ours)} | {"next", "iter", "connect"}
    for fix in [*(fix for names in NAMES.values() for fix in names.values()), *ARGUMENTS.values()]:
        assert [name for name in re.findall(r"(\w+)\(", fix) if name not in known] == [], fix


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        ("db.users", 'a collection is db["users"]'),
        ("db.get_collection('c')", 'write db["orders"]'),
        ("db.command('ping')", "db.status() and db.cost()"),
        ("db.drop_collection('c')", 'write db.drop("orders")'),
        ("db.client.start_session()", "wormdb.connect(url) is both"),
        ("c.drop()", "write db.drop(collection.name)"),
        ("c.rename('d')", "write db.rename(old, new)"),
        ("c.create_indexes([])", "call create_index(fields) for each"),
        ("c.create_index([('title', 'text')])", "create_text_index"),
        ("c.create_index([('at', '2dsphere')])", "write 1 or -1"),
        ("c.index_information()", "write indexes()"),
        ("c.map_reduce('x', 'y', 'z')", '"$group"'),
        ("c.find().batch_size(3)", "collection.cursor(filter, batch_size=100)"),
        ("c.find().hint('a_1')", "the planner chooses"),
        ("c.find().max_time_ms(500)", "timeout=0.5"),
        ("c.find().rewind()", "asked anew"),
        ("c.find().clone()", "asked anew"),
        ("c.find().distinct('a')", "collection.distinct(field, filter)"),
        ("c.find().where('this.a > 1')", "write a filter"),
        ("c.find()[0]", "found.to_list()[2]"),
        ("c.find()[0:2]", "found.skip(2)"),
        ("c.find().to_list(3)", "found.limit(100).to_list()"),
        ("c.watch().try_next()", "next(stream, None)"),
        ("c.update_one({'a': 77}, {'$set': {'b': 1}}).raw_result", "matched_count"),
        ("c.delete_many({'a': 77}).raw_result", "deleted_count"),
        ("c.bulk_write([pymongo.DeleteOne({'a': 77})]).bulk_api_result", "inserted_count"),
        ("c.insert_many([{'id': 9}], ordered=False)", "in one step, or none"),
        ("c.bulk_write([], ordered=False)", "in one step, or none"),
        ("c.update_one({}, {'$set': {'b': 1}}, True)", "upsert=…"),
        ("c.replace_one({'id': 1}, {}, True)", "upsert=…"),
        ("c.find_one_and_update({}, {'$set': {'b': 1}}, projection={'a': 1})", "it is called 'select' here"),
        ("c.find_one_and_delete({}, {'a': 1})", "name them"),
        ("c.find({}, projection={'a': 1})", "it is called 'select' here"),
        ("c.find({}, batch_size=2)", "batch_size=100"),
        ("c.find({}, max_time_ms=2)", "give seconds: timeout=0.5"),
        ("c.find_one({}, session=None)", "db.transaction()"),
        ("c.insert_one({'id': 9}, session=None)", "db.transaction()"),
        ("c.delete_many({'a': 77}, collation=None)", "small letters"),
        ("c.count_documents({}, limit=2)", "find(filter, limit=…)"),
        ("c.aggregate([], allowDiskUse=True)", "leave it out"),
        ("c.create_index('a', background=True)", "wait=False"),
        ("c.watch(full_document='updateLookup')", "before and after"),
    ],
)
def test_a_call_of_pymongo_that_is_not_here_says_what_to_write(db: wormdb.Database, call: str, fix: str) -> None:
    before = db["c"].find_all()
    with pytest.raises(wormdb.InvalidRequestError) as raised:
        eval(call, {"db": db, "c": db["c"], "pymongo": pymongo})
    assert fix in raised.value.fix
    assert db["c"].find_all() == before


def test_python_sees_the_errors_that_it_expects(db: wormdb.Database) -> None:
    assert not hasattr(db["c"], "drop")
    assert getattr(db["c"].find(), "alive", None) is None
    with pytest.raises(AttributeError):
        db["c"].nothing  # type: ignore[attr-defined] # noqa: B018 - this is what is tested
    with pytest.raises(TypeError):
        db["c"].insert({}, ordered=True)  # type: ignore[call-arg] # as above
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        db["c"].insert({}, nothing=True)  # type: ignore[call-arg] # as above


def test_a_type_error_of_the_callers_own_function_is_left_alone(db: wormdb.Database) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        db["c"].modify(1, lambda one, two: one)  # type: ignore[arg-type,misc] # this is what is tested


def test_the_async_side_says_the_same() -> None:
    from wormdb import aio

    async def run() -> None:
        async with aio.connect("memory://") as db:
            for owner, name in ((db, "users"), (db["c"], "drop"), (db["c"].find(), "rewind")):
                with pytest.raises(wormdb.InvalidRequestError) as raised:
                    getattr(owner, name)
                assert raised.value.fix
            with pytest.raises((wormdb.InvalidRequestError, TypeError)):
                await db["c"].insert_many([{}], ordered=False)  # type: ignore[call-arg] # this is what is tested

    import asyncio

    asyncio.run(run())
    assert inspect.iscoroutinefunction(aio.AsyncCollection.insert_many)
