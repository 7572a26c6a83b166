"""Readable files of an erased document: none is left, whatever it had, and the others stay."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import wormdb
from wormdb.system.clock import ManualClock, SeededChance

_names = count()
PLACES = ("root", "collection", "inline")


def database(place: str, clock: ManualClock) -> wormdb.Database:
    model: dict[str, Any] = {
        "path": "@people/(id:string)/[profile].json",
        "fields": {"name": {"type": "string"}},
        "oplog": True,
        "snapshots": {"enabled": True, "every": 1},
        "softDelete": {"enabled": True},
    }
    storage = dict.fromkeys(("oplog", "snapshots", "trash"), place)
    return wormdb.connect(
        f"memory://erase-{next(_names)}-{place}",
        schema={"models": {"Person": model}, "storage": storage},
        clock=clock,
        chance=SeededChance(1),
    )


def keys(db: wormdb.Database, text: str) -> list[str]:
    return [info.key for page in db.store.list("") for info in page.objects if text in info.key]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_deleted", [False, True])
def test_no_file_is_left_of_it_and_none_of_another_is_missing(place: str, is_deleted: bool) -> None:
    clock = ManualClock()
    with database(place, clock) as db:
        people = db.model("Person")
        for name in ("ada", "bob"):
            people.insert({"id": name, "name": f"{name} the first"})
            people.save({"id": name, "name": f"{name} the second"})
            people.snapshot(name)
        if is_deleted:
            people.delete("ada")
        people.forward()
        db.files.sync("Person")
        others = keys(db, "/bob/")
        assert keys(db, "/ada/")
        people.erase("ada")
        db.files.sync("Person")
        assert keys(db, "/ada/") == []
        assert keys(db, "/bob/") == others
        for _ in range(2):
            clock.advance(3_601)
            db.gc(["Person"])
        assert db.find_traces("Person", "ada", values=["ada the"]) == []
        (found,) = db.verify(["Person"])
        assert found.findings == ()


def test_what_is_written_under_the_id_later_has_files_again() -> None:
    with database("root", ManualClock()) as db:
        people = db.model("Person")
        people.insert({"id": "ada", "name": "old"})
        people.save({"id": "ada", "name": "older"})
        people.forward()
        people.erase("ada")
        people.insert({"id": "ada", "name": "new"})
        people.forward()
        db.files.sync("Person")
        assert [key for key in keys(db, "/ada/") if ".oplog" in key] == [".oplog/people/ada/0001.json"]
        (found,) = db.verify(["Person"])
        assert found.findings == ()
