"""The audit in parts finds what the audit in one process finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.jobs.rig import customers, pipeline
from wormdb.jobs import verify
from wormdb.maintenance import listed
from wormdb.maintenance.block_check import block_faults

if TYPE_CHECKING:
    import pytest

    from wormdb import Database
    from wormdb.format.blocklist import BlockEntry
    from wormdb.maintenance.block_check import Content


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
        found = pipeline(db, "Customer").verify()
        assert found == expected
        assert found.is_sound
        assert len(set(calls)) == len(calls) == found.checked.blocks > 2


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
