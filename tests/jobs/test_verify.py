"""The audit in parts finds what the audit in one process finds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

import wormdb
from tests.engine.lists.vectors import MANUAL
from tests.jobs.rig import customers, empty_place, pipeline
from wormdb.engine.forward import build
from wormdb.format.key import encode_key
from wormdb.format.root import encode_root
from wormdb.jobs import shares, verify
from wormdb.maintenance.audit import lists as listed
from wormdb.maintenance.audit.block_check import block_faults

if TYPE_CHECKING:
    import pytest

    from wormdb import Database
    from wormdb.format.blocklist import BlockEntry
    from wormdb.maintenance.audit.block_check import Content


def objects(db: Database) -> list[str]:
    """One of each kind: of each folder and ending."""
    keys = [info.key for page in db.store.list("customers/") for info in page.objects]
    return list({(key.rpartition("/")[0], key.rpartition(".")[2]): key for key in keys}.values())


def test_a_sound_collection_is_found_sound_without_checking_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    with customers(count=30) as db:
        db.model("Customer").forward()
        expected = db.verify(["Customer"])[0]
        monkeypatch.setattr(verify, "PIECE_BYTES", 5_000)
        calls: list[str] = []

        def counted(content: Content, entry: BlockEntry) -> list[str]:
            calls.append(entry.name)
            return block_faults(content, entry)

        monkeypatch.setattr(listed, "block_faults", counted)
        monkeypatch.setattr(shares, "TASK_BYTES_MIN", 2_000)

        def refused(*_: Any) -> None:
            raise AssertionError("the driver reads no blocks")

        monkeypatch.setattr(listed.CheckedList, "_rows", refused)
        found = pipeline(db, "Customer").verify()
        assert found == expected
        assert found.is_sound
        assert len(set(calls)) == len(calls) == found.checked.blocks > 2


def test_what_disagrees_is_found_as_by_one_process() -> None:
    """All objects are sound, and one of them is of another time."""
    with customers(count=30) as db:
        model = db.model("Customer")
        model.forward()
        site = db._site("customers/")
        old = site.register.read().root
        model.save({"id": "c0002", "age": 77, "name": "changed"})
        model.forward()
        state = site.register.read()
        assert old is not None
        assert state.root is not None
        mixed = {
            "indexes": tuple(msgspec.structs.replace(one, applied=state.root.applied) for one in old.indexes),
            "history": old.history,
            "blocks": old.blocks,
            "rows": state.root.rows + 1,
        }
        for name, value in mixed.items():
            wrong = msgspec.structs.replace(state.root, **{name: value})
            db.store.put(site.paths.root, encode_root(wrong))
            found = pipeline(db, "Customer").verify()
            assert not found.is_sound
            assert found == db.verify(["Customer"])[0], name


def test_every_damaged_object_is_found_as_by_one_process() -> None:
    with customers(count=12) as db:
        db.model("Customer").forward()
        for place, key in enumerate(objects(db)):
            body = db.store.get(key).body
            if place % 2:
                db.store.delete(key)
            else:
                db.store.put(key, body[: len(body) // 2] + b"!" + body[len(body) // 2 + 1 :])
            assert pipeline(db, "Customer").verify() == db.verify(["Customer"])[0], key
            db.store.put(key, body)
        assert pipeline(db, "Customer").verify().is_sound


def test_lists_that_are_made_anew_are_compared_in_parts_as_far_as_they_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "Builder", partial(build.Builder, chunk_entries=12))
    with wormdb.connect(empty_place(), settings=MANUAL) as db:
        things = db["things"]
        things.insert_many([{"id": number, "v": [1, number]} for number in range(40)])
        things.create_vector_index("v", dimensions=2)
        things._ledger.tend_lists(lambda lists: (lists._begin("v"), lists._step("v"), lists._step("v")))
        expected = db.verify(["things"])[0]
        monkeypatch.setattr(verify, "PIECE_BYTES", 500)
        whole = listed.CheckedList._rows

        def refused(*_: Any) -> None:
            raise AssertionError("the driver reads no blocks")

        monkeypatch.setattr(listed.CheckedList, "_rows", refused)
        found = pipeline(db, collection="things").verify()
        assert found == expected
        assert found.is_sound
        monkeypatch.setattr(listed.CheckedList, "_rows", whole)
        site = db._site("things/")
        state = site.register.read()
        assert state.root is not None
        (index,) = state.root.indexes
        assert index.successor is not None
        further = msgspec.structs.replace(index.successor, cursor=encode_key(30))
        lying = (msgspec.structs.replace(index, successor=further),)
        db.store.put(site.paths.root, encode_root(msgspec.structs.replace(state.root, indexes=lying)))
        wrong = pipeline(db, collection="things").verify()
        assert "it is made anew, and lacks an entry of document" in wrong.findings[-1].what
        assert wrong == db.verify(["things"])[0]
