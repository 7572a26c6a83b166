"""A snapshot is one moment over several collections, now or later, for reads, jobs and other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.api.transactions.rig import connect
from tests.jobs.rig import empty_place, pipeline
from wormdb.errors import ClosedError, InvalidRequestError
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.target import store_at
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from wormdb.api.database import Database

NAMES = ("accounts", "savings")


def fill(db: Database) -> None:
    for name in NAMES:
        db[name].insert_many([{"id": identity, "n": 100} for identity in "ab"])


def transfer(db: Database, amount: int) -> None:
    with db.transaction() as tx:
        tx["accounts"].update_one({"id": "a"}, {"$inc": {"n": -amount}})
        tx["savings"].update_one({"id": "a"}, {"$inc": {"n": amount}})


def sums(snapshot: Any) -> list[int]:
    return [snapshot[name].aggregate(sum="n")["sum"] for name in NAMES]


def test_a_snapshot_does_not_move(db: Database) -> None:
    fill(db)
    transfer(db, 10)
    with db.snapshot(NAMES) as moment:
        transfer(db, 20)
        db["accounts"].insert({"id": "c", "n": 1})
        assert sums(moment) == [190, 210]
        assert moment["accounts"].count() == 2
        assert moment["accounts"].find_by_id("a") == {"id": "a", "n": 90}
        assert moment["accounts"].find_by_id("a", raw=True) == b'{"id":"a","n":90}'
        assert moment["savings"].find_all({"n": {"$gt": 100}}, select=["n"]) == [{"id": "a", "n": 110}]
        assert moment["savings"].distinct("n") == [100, 110]
        assert [one.id for one in moment["accounts"]] == ["a", "b"]
        assert [one.id for one in moment["accounts"].query().gt("n", 95).execute()] == ["b"]
        assert ("c" in moment["accounts"], moment["accounts"].exists("a")) == (False, True)
    assert db["accounts"].count() == 3


def test_numbers_name_the_moment_for_good(db: Database, url: str) -> None:
    fill(db)
    transfer(db, 10)
    with db.snapshot(NAMES) as moment:
        numbers = moment.numbers
    transfer(db, 20)
    db.forward(NAMES)
    transfer(db, 30)
    with connect(url) as other, other.snapshot(as_of=numbers) as then:
        assert then.numbers == numbers
        assert sums(then) == [190, 210]
        assert then["accounts"].count({"n": 90}) == 1
        assert then["accounts"].find_by_id("a") == {"id": "a", "n": 90}
        assert then["accounts"].find_one({"n": 90}) == {"id": "a", "n": 90}
        assert then["accounts"].query().eq("n", 90).count() == 1
        assert [one.id for one in then["accounts"]] == ["a", "b"]


def test_jobs_export_the_moment_of_a_snapshot() -> None:
    url = empty_place()
    with connect(url) as db:
        fill(db)
        transfer(db, 10)
        with db.snapshot(NAMES) as moment:
            numbers = moment.numbers
        transfer(db, 20)
        exported = {}
        for name in NAMES:
            place = empty_place()
            options = ExportOptions("ndjson", as_of=str(numbers[f"{name}/"]))
            done = pipeline(db, collection=name).export(place, options)
            exported[name] = b"".join(store_at(place).get(one.name).body for one in done.files)
    assert exported == {
        "accounts": b'{"id":"a","n":90}\n{"id":"b","n":100}\n',
        "savings": b'{"id":"a","n":110}\n{"id":"b","n":100}\n',
    }


def test_a_time_is_a_moment_of_each_collection(url: str) -> None:
    clock = ManualClock()
    with connect(url, clock=clock) as db:
        fill(db)
        clock.advance(10)
        moment = clock.now_ms()
        clock.advance(10)
        db["accounts"].delete("a")
        with db.snapshot(as_of=time_text(moment)) as then:
            assert sums(then) == [200, 200]
            with pytest.raises(InvalidRequestError, match="of a time"):
                _ = then.numbers


def time_text(milliseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def test_it_costs_two_gets_for_each_collection_and_none_later(url: str) -> None:
    with connect(url) as db:
        fill(db)
        assert [db[name].count() for name in NAMES] == [2, 2]
        before = db.cost()
        with db.snapshot(NAMES) as moment:
            assert sums(moment) == [200, 200]
            assert moment["accounts"].find_by_id("a") is not None
        spent = db.cost() - before
        assert (spent.gets, spent.requests) == (4 + 1, 4 + 1), "one for a published schema, which might name models"


def test_without_names_it_has_the_collections_that_were_opened(db: Database) -> None:
    fill(db)
    with db.snapshot() as moment:
        assert sorted(moment.numbers) == ["accounts/", "savings/"]
        with pytest.raises(InvalidRequestError, match="without it"):
            moment["others"]


def test_refs_lead_to_the_same_moment(url: str) -> None:
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {
            "Owner": {"path": "@owners/(id:string)", "fields": {"name": {"type": "string"}}},
            "Pet": {"path": "@pets/(id:string)", "fields": {"owner": {"type": "string", "ref": "Owner"}}},
        },
    }
    with connect(url, schema=schema) as db:
        db.model("Owner").insert({"id": "o", "name": "ann"})
        db.model("Pet").insert({"id": "p", "owner": "o"})
        with db.snapshot() as moment, db.snapshot(["Pet"]) as partial:
            db.model("Owner").update_one({"id": "o"}, {"$set": {"name": "bob"}})
            rows = moment.model("Pet").find_all(populate="owner")
            assert [row["owner"]["name"] for row in rows] == ["ann"]
            with pytest.raises(InvalidRequestError, match="without it"):
                partial.model("Pet").find_all(populate="owner")


def test_a_snapshot_is_for_reading(db: Database) -> None:
    fill(db)
    with db.snapshot(NAMES) as moment:
        for name in ("insert", "save", "delete", "cursor", "create_index", "update_one"):
            with pytest.raises(InvalidRequestError, match=f"{name} of a snapshot"):
                getattr(moment["accounts"], name)({})
        with pytest.raises(InvalidRequestError, match="one moment"):
            moment["accounts"].find(as_of=1)
        with pytest.raises(InvalidRequestError, match="one moment"):
            moment["accounts"].find(stale_ms=5)
        handle = moment["accounts"]
    with pytest.raises(ClosedError):
        handle.count()
    with pytest.raises(ClosedError):
        moment["accounts"]
    with pytest.raises(InvalidRequestError, match="of one collection"):
        db.snapshot(as_of=3)  # type: ignore[arg-type] # a mistake


def test_what_committed_is_finished_so_that_numbers_tell_all(db: Database, url: str) -> None:
    fill(db)
    transfer(db, 10)
    with connect(url) as other, other.snapshot(NAMES) as moment:
        assert sums(moment) == [190, 210]
        numbers = moment.numbers
        assert [other[name].find_by_id("a", as_of=numbers[f"{name}/"])["n"] for name in NAMES] == [90, 110]  # type: ignore[index] # it is there
