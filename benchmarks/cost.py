"""What it costs: requests of a million inserts and of an idle node, and the room that random updates take.

Metered on simulated time at the prices of S3; no number depends on the machine. WORMDB_COST_DOCUMENTS is how many
documents are inserted, and how many updates are made of a tenth as many documents. The bars are meant for a million,
which takes half an hour; unless told it is 100,000, held to their share of the bar. Fewer say little: what is done
once counts most, and an index has few leaves to write again.
"""

from __future__ import annotations

import os
import random
from itertools import islice
from typing import TYPE_CHECKING

from benchmarks.measure import Count
from benchmarks.metered import BATCH_SECONDS, DAY, HOUR, Rig, documents

if TYPE_CHECKING:
    from wormdb.storage.meter import Usage

__all__ = ["TITLE", "Inserted", "Updated", "idle", "insert_all", "run", "update_all"]

MILLION = 1_000_000
SIZE = int(float(os.environ.get("WORMDB_COST_DOCUMENTS", "1e5")))
BATCH = 1_000
PACES = (BATCH_SECONDS, 1.0)
"""Seconds from one batch to the next: the slower, the fewer of them a forwarding has."""
HOURS_A_MONTH = 730
INSERT_DOLLARS_MAX = 0.05
IDLE_DOLLARS_MAX = 3.0
ROOM_MAX = 2.0

TITLE = f"cost: requests at the prices of S3 Standard, simulated time, {SIZE:,} inserts and updates" + (
    " (full size)" if SIZE >= MILLION else " (full size: WORMDB_COST_DOCUMENTS=1e6)"
)


def run() -> list[Count]:
    """All three, and what each may cost."""
    inserts = [_insert_row(SIZE, pace) for pace in PACES]
    return [*inserts, *(_idle_row(collections) for collections in (1, 100)), _update_row(SIZE)]


class Inserted:
    """What inserting cost: all requests, those to collect garbage among them."""

    def __init__(self, count: int, pace: float) -> None:
        """Insert a thousand each `pace` seconds, with a unique index, a node that brings them forward, and gc."""
        with Rig() as rig:
            users = rig.database["users"]
            users.create_index("email", unique=True)
            rig.serve()
            waiting = documents(count)
            while batch := list(islice(waiting, BATCH)):
                users.insert_many(batch)
                rig.pass_time(pace)
            rig.pass_time(120)
            collect(rig)
            assert users.count() == count
            self.used = rig.used()
            self.counted = rig.counted
            self.stored = rig.stored()


def insert_all(count: int, pace: float = BATCH_SECONDS) -> Inserted:
    """See `Inserted`."""
    return Inserted(count, pace)


def collect(rig: Rig) -> None:
    """End the node, and collect garbage as it would have: by the hour, and when the log is kept no longer."""
    if rig.node is not None:
        rig.node.stop()
        rig.node = None
    for seconds in (HOUR, HOUR, 8 * DAY, 2 * HOUR):
        rig.pass_time(seconds)
        rig.database.gc(["users"])


def idle(collections: int, *, hours: float = 1.0) -> Usage:
    """What a node asks of the store with nothing to do; it has been running for ten minutes."""
    with Rig() as rig:
        for number in range(collections):
            rig.database[f"c{number}"].insert({"id": "a"})
        rig.serve()
        rig.pass_time(600)
        mark = rig.used()
        rig.pass_time(hours * HOUR)
        return rig.used() - mark


class Updated:
    """The room taken after random updates and gc, by kind, and what the same documents take in a new database."""

    def __init__(self, count: int, updates: int) -> None:
        """Insert `count` documents and update random ones, each batch a thousand of them."""
        with Rig() as rig:
            users = rig.database["users"]
            users.create_index("email", unique=True)
            rig.serve()
            kept = list(documents(count))
            for start in range(0, count, BATCH):
                users.insert_many(kept[start : start + BATCH])
                rig.pass_time(BATCH_SECONDS)
            chance = random.Random(7)
            for _ in range(0, updates, BATCH):
                with users.batch() as batch:
                    for at in chance.sample(range(count), min(BATCH, count)):
                        kept[at] = {**kept[at], "amount": chance.randrange(1_000_000) / 100}
                        batch.save(kept[at])
                rig.pass_time(BATCH_SECONDS)
            rig.pass_time(120)
            collect(rig)
            assert users.count() == count
            self.stored = rig.stored()
            self.used = rig.used()
        with Rig() as fresh:
            users = fresh.database["users"]
            users.create_index("email", unique=True)
            for start in range(0, count, BATCH):
                users.insert_many(kept[start : start + BATCH])
            fresh.database.forward(["users"])
            self.fresh = fresh.stored()

    @property
    def live(self) -> int:
        """Bytes of data and indexes in a new database: what has to be there."""
        return self.fresh["data"] + self.fresh["indexes"]

    @property
    def room(self) -> float:
        """All bytes but those of history, as a multiple of what has to be there."""
        return (self.stored.total() - self.stored["history"]) / self.live


def update_all(count: int, updates: int) -> Updated:
    """See `Updated`."""
    return Updated(count, updates)


def _insert_row(count: int, pace: float) -> Count:
    used = insert_all(count, pace).used
    bar = INSERT_DOLLARS_MAX * count / MILLION
    return Count(
        f"cents for {count:,} inserts, {BATCH:,} each {pace:g} s",
        f"{used.puts:,} PUT, {used.gets:,} GET, {used.lists:,} LIST",
        100 * used.dollars,
        f"≤ {100 * bar:g}",
        used.dollars <= bar,
    )


def _idle_row(collections: int) -> Count:
    dollars = idle(collections).dollars * HOURS_A_MONTH
    return Count(
        f"dollars a month of an idle node, {collections} collection{'s' if collections > 1 else ''}",
        "one hour of simulated time",
        dollars,
        f"≤ {IDLE_DOLLARS_MAX}",
        dollars <= IDLE_DOLLARS_MAX,
    )


def _update_row(updates: int) -> Count:
    found = update_all(updates // 10, updates)
    return Count(
        f"bytes stored after {updates:,} updates and gc, without history",
        f"a new database with the same {updates // 10:,} documents",
        found.room,
        f"≤ {ROOM_MAX}x",
        found.room <= ROOM_MAX,
    )
