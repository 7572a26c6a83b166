"""A collection gets another name: what goes along, what is refused before anything is written, what others see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.engine.sweeps.commits import World, database_on
from tests.maintenance.removal_rig import SETTINGS
from wormdb.engine.bulk.report import BulkTarget
from wormdb.engine.load import JobSpec, abort, open_job
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    RemovedError,
    SnapshotTooOldError,
    UnavailableError,
    UniqueViolationError,
)
from wormdb.maintenance import renaming
from wormdb.maintenance.renaming import Renaming

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.api.database import Database


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def db(world: World) -> Database:
    return database_on(world, seed=3, **SETTINGS)


def objects(world: World) -> dict[str, bytes]:
    return {info.key: world.get(info.key).body for page in world.list("") for info in page.objects}


def test_everything_goes_along(world: World, db: Database) -> None:
    things = db["things"]
    things.create_index("mail", unique=True)
    things.create_index("n")
    things.create_text_index(["text"])
    things.create_vector_index("v", dimensions=2)
    things.expire("end", after="1d")
    things.functions.register("big", {"n": {"$gt": 5}})
    for number in range(9):
        things.insert(
            {"id": f"t{number}", "n": number, "mail": f"{number}@", "text": f"word{number}", "v": [number, 1.0]}
        )
    things.forward()
    picture = things.put_blob(b"x" * 50)
    first = things.save({"id": "t0", "n": 7, "mail": "0@", "text": "word0", "v": [0.0, 1.0], "picture": picture})
    things.delete("t1")
    things.erase("t2")
    number = things.insert({"id": "last", "n": 100}).rev
    before = {one.id: (one.rev, dict(one)) for one in things.find({})}
    past = [(one.rev, one.op) for one in things.get_history("t0")]
    things.forward()
    indexed = [one.name for one in things.indexes()]
    assert len(indexed) == 5
    old = dict(things.find_by_id("t0", as_of=first.rev - 1) or {})

    assert db.rename("things", "others").documents == len(before) == 8
    for reader in (db, database_on(world, seed=4, **SETTINGS)):
        others = reader["others"]
        assert {one.id: (one.rev, dict(one)) for one in others.find({})} == before
        assert {one.name: one.state for one in others.indexes()} == dict.fromkeys(indexed, "ready")
        assert [one.id for one in others.find({"$text": {"$search": "word3"}})] == ["t3"]
        assert [one.id for one in others.find({}, near={"v": {"vector": [3.0, 1.0], "k": 1}})] == ["t3"]
        assert {one.id for one in others.find({"$fn": "big"})} == {"t0", "t6", "t7", "t8", "last"}
        assert [(one.rev, one.op) for one in others.get_history("t0")] == past
        assert dict(others.find_by_id("t0", as_of=first.rev - 1) or {}) == old
        with others.open_blob(others.find_by_id("t0")["picture"]) as body:  # type: ignore[index] # it is there
            assert body.read() == b"x" * 50
    others = db["others"]
    with pytest.raises(UniqueViolationError):
        others.insert({"mail": "3@"})
    assert others.insert({"id": "t9"}).rev > number
    assert db.find_traces("others", "t2", values=["word2"]) == []
    assert db.collections() == ["others/"]


def test_what_cannot_be_renamed_is_refused_before_anything_is_written(world: World, db: Database) -> None:
    db["things"].insert({"id": "a"})
    db["others"].insert({"id": "b"})
    db["gone"].insert({"id": "c"})
    db.drop("gone")
    before = objects(world)
    with pytest.raises(NotFoundError, match="there is none of this name"):
        db.rename("nothing", "new")
    with pytest.raises(AlreadyExistsError, match="the name is taken"):
        db.rename("things", "others")
    with pytest.raises(InvalidRequestError, match="gone was the name of another collection"):
        db.rename("things", "gone")
    with pytest.raises(InvalidRequestError, match="it has that name"):
        db.rename("things", "things/")
    assert objects(world) == before


def test_an_open_job_is_finished_first(world: World, db: Database) -> None:
    db["things"].insert({"id": "a"})
    ledger = db._ledgers.of("things/")
    target = open_job(ledger, JobSpec("nightly", "test"))
    assert isinstance(target, BulkTarget)
    before = objects(world)
    with pytest.raises(InvalidRequestError, match=f"bulk job {target.job} is open"):
        db.rename("things", "new")
    assert objects(world) == before
    abort(ledger, target.job, "test")
    assert db.rename("things", "new").documents == 1


def test_the_collection_of_a_model_lies_where_the_schema_says(tmp_path: Path) -> None:
    models = {"Note": {"path": "@notes/(id:string)"}}
    with wormdb.connect(tmp_path, schema={"schemaVersion": "1.0", "models": models}) as database:
        database.model("Note").insert({"id": "n"})
        with pytest.raises(InvalidRequestError, match="whose path in the schema says where it lies"):
            database.rename("Note", "letters")
        database["plain"].insert({"id": "n"})
        for target in ("Note", "notes", "notes/"):
            with pytest.raises(InvalidRequestError, match="is where the documents of model Note lie"):
                database.rename("plain", target)
        assert database.collections() == ["notes/", "plain/"]


def ended(db: Database) -> None:
    """Rename up to the entry that ends the old name, as a process does that stops there."""
    old, new = (db._ledgers.of(name) for name in ("things/", "others/"))
    Renaming(db._ledgers.site("things/"), db._ledgers.site("others/"), old, new).run()


def test_who_writes_to_a_name_that_has_ended_is_told_the_new_one(world: World, db: Database) -> None:
    db["things"].insert({"id": "a"})
    other = database_on(world, seed=4, **SETTINGS)
    assert other["things"].count() == 1
    ended(db)
    assert (other["things"].count(), other["others"].count()) == (0, 1)
    with pytest.raises(RemovedError, match="entry 2 renamed it to others"):
        other["things"].insert({"id": "b"})
    with pytest.raises(RemovedError, match="renamed it to others"):
        other.rename("things", "third")
    assert other["others"].insert({"id": "b"}).rev > 2, "the new name takes writes before it is settled"
    assert [one.findings for one in other.verify(["others", "things"])] == [(), ()]
    assert other.rename("things", "others").documents == 2
    assert [one.id for one in db["others"].find({})] == ["a", "b"]


def test_dropping_the_old_name_finishes_the_rename_first(world: World, db: Database) -> None:
    db["things"].insert({"id": "a"})
    ended(db)
    assert db.drop("things") is not None
    assert db["things"].insert({"id": "new"}).rev == 3
    fresh = database_on(world, seed=5, **SETTINGS)
    assert ([one.id for one in fresh["others"].find({})], [one.id for one in fresh["things"].find({})]) == (
        ["a"],
        ["new"],
    )


def staged(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rename up to the stage, as a process does that stops there."""
    with monkeypatch.context() as patch:
        patch.setattr(Renaming, "_end", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ended(db)


def test_a_stage_is_no_collection_yet_and_garbage_collection_leaves_it(
    world: World, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db["things"].insert({"id": "a"})
    staged(db, monkeypatch)
    world.manual.advance(10 * 24 * 3600)
    other = database_on(world, seed=4, **SETTINGS)
    other.gc(["things", "others"])
    assert (other["things"].count(), other["others"].count()) == (1, 0)
    with pytest.raises(RemovedError, match="things is being renamed to it, and that is not finished"):
        other["others"].insert({"id": "b"})
    other["third"].insert({"id": "c"})
    with pytest.raises(RemovedError, match="things is being renamed to it"):
        other.rename("third", "others")
    assert other.rename("things", "others").documents == 1


def test_dropping_the_new_name_undoes_a_stage_for_good(
    world: World, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db["things"].insert({"id": "a"})
    staged(db, monkeypatch)
    root = db._ledgers.site("things/").register.read().root
    assert root is not None
    other = database_on(world, seed=4, **SETTINGS)
    assert other.drop("others") is not None
    late = Renaming(
        db._ledgers.site("things/"), db._ledgers.site("others/"), db._ledgers.of("things/"), db._ledgers.of("others/")
    )
    with pytest.raises(ConflictError, match="it was copied through entry 1"):
        late._end(root.applied)  # type: ignore[arg-type] # a number of the log
    assert [one.id for one in db["things"].find({})] == ["a"]
    assert db["others"].insert({"id": "b"}).rev > 1
    with pytest.raises(AlreadyExistsError):
        db.rename("things", "others")
    assert db.rename("things", "third").documents == 1


def test_an_end_that_comes_into_a_trimmed_slot_does_not_count(
    world: World, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the PUT of a process that slept for days between two requests."""
    db["things"].insert({"id": "a"})
    twin = world.copy()
    staged(db, monkeypatch)
    db["things"].insert({"id": "b"})
    for _ in range(3):
        db["things"].forward()
        world.manual.advance(20 * 24 * 3600)
        db.gc(["things"])
    key = "things/.worm.db/committed/00000000000000000002"
    assert key not in objects(world)
    ended(database_on(twin, seed=3, **SETTINGS))
    world.put(key, twin.get(key).body)
    fresh = database_on(world, seed=5, **SETTINGS)
    assert (fresh["things"].count(), fresh["others"].count()) == (2, 0)


def test_a_writer_without_a_break_keeps_a_rename_from_its_end(
    world: World, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db["things"].insert({"id": "a"})
    other = database_on(world, seed=4, **SETTINGS)
    end = Renaming._end

    def after_another(work: Renaming, number: Any) -> None:
        other["things"].insert({"n": 1})
        end(work, number)

    with monkeypatch.context() as patch:
        patch.setattr(Renaming, "_end", after_another)
        with pytest.raises(UnavailableError, match="others wrote to it 16 times"):
            db.rename("things", "others")
    assert (other["things"].count(), other["others"].count()) == (1 + renaming.ROUNDS_MAX, 0)
    assert db.rename("things", "others").documents == 17


def test_a_feed_under_the_new_name_begins_behind_the_rename(world: World, db: Database) -> None:
    db["things"].insert({"id": "a"})
    db.rename("things", "others")
    stream = db["others"].watch("now")
    db["others"].insert({"id": "b"})
    assert [change.id for change in stream] == ["b"]
    with pytest.raises(SnapshotTooOldError):
        list(db["others"].watch(1))


def test_a_settled_name_costs_no_request_more_than_any_other(world: World, db: Database) -> None:
    for name in ("things", "plain"):
        db[name].insert({"id": "a"})
        db[name].forward()
    db.rename("things", "others")
    costs = []
    for name in ("others", "plain"):
        reader = database_on(world, seed=6, **SETTINGS)
        assert reader[name].count() == 1
        costs.append(reader.cost().gets)
    assert costs == [2, 2]
