"""Manifest and index files of a large collection: what a stream of random updates makes them write again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

import wormdb
from benchmarks.measure import Count
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from wormdb.storage.meter import MeteredRequest

__all__ = ["TITLE", "run"]

TITLE = "manifest and index files under random updates"
ENTITIES = 100_000
ROUNDS = 25
UPDATES = 1_000
"""In each round, which takes a second."""
TIMES_MAX = 12
STAMPS_BYTES = len('"createdAt":"2026-02-24T12:00:00.000Z","updatedAt":"2026-02-24T12:00:00.000Z"')
PLACE = "bench-tables"
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "remote",
    "models": {
        "Customer": {
            "path": "@customers/(id:string)/[profile].json",
            "fields": {"name": {"type": "string"}, "email": {"type": "string"}, "status": {"type": "string"}},
            "manifest": {"enabled": True},
            "indexes": {"byStatus": {"field": "status"}, "byEmail": {"field": "email", "unique": True}},
        }
    },
}


def run() -> list[Row | Count]:
    """Bytes written for each byte that changed; no server is needed."""
    written = {"manifest": 0, "index": 0}

    def count(request: MeteredRequest) -> None:
        for kind in written:
            if request.kind.value == "put" and f"/.worm.{kind}" in request.key:
                written[kind] += request.bytes_up

    clock, chance = ManualClock(), SeededChance(7)
    settings = Settings(forward="manual", forward_interval_ms=0)
    with wormdb.connect(
        f"memory://{PLACE}", schema=SCHEMA, settings=settings, hook=count, clock=clock, chance=chance
    ) as database:
        customers = database.model("Customer")
        customers.insert_many(_customer(number, 0) for number in range(ENTITIES))
        customers.forward()
        while database.files.status(["Customer"])[0].is_filling:
            customers.forward()
        written.update(dict.fromkeys(written, 0))
        changed = {"manifest": 0, "index": 0}
        known: dict[int, int] = {}
        for again in range(1, ROUNDS + 1):
            with customers.batch() as batch:
                for number in {int(chance.fraction() * ENTITIES) for _ in range(UPDATES)}:
                    before, after = _customer(number, known.get(number, 0)), _customer(number, again)
                    known[number] = again
                    batch.save(after)
                    changed["manifest"] += len(msgspec.json.encode(after)) + STAMPS_BYTES
                    changed["index"] += _postings_bytes(before, after)
            customers.forward()
            clock.advance(1)
    drop_memory(PLACE)
    what = f"files written, {ENTITIES:,} entities, {ROUNDS * UPDATES:,} updates"
    rows: list[Row | Count] = []
    for kind, reference in (("manifest", "bytes of rows that changed"), ("index", "bytes of postings that changed")):
        times = written[kind] / changed[kind]
        rows.append(Count(f"bytes of {kind} {what}", reference, times, f"≤ {TIMES_MAX}x", times <= TIMES_MAX))
    return rows


def _postings_bytes(before: dict[str, Any], after: dict[str, Any]) -> int:
    """What an update takes from index files and adds to them."""
    emails = len(f'"{before["email"]}":"{before["id"]}",') + len(f'"{after["email"]}":"{after["id"]}",')
    return emails + (2 * len(f'"{after["id"]}",') if before["status"] != after["status"] else 0)


def _customer(number: int, again: int) -> dict[str, Any]:
    status = ("active", "gone", "new")[(number + again) % 3]
    identity = f"{number * 7919 % 1_000_003:07}"
    return {"id": identity, "name": f"Name {number}", "email": f"{number}.{again}@example.org", "status": status}
