"""Databases over buckets of another program, and what must be true of one that was adopted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import wormdb
from tests.files.adopt.bucket import iso, plain
from wormdb.api.database import Database
from wormdb.engine.log.paths import bytes_max
from wormdb.schema.load import load_schema
from wormdb.settings import Settings
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import Always
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from pathlib import Path

    from tests.files.adopt.bucket import Bucket
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import Store

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def world(bucket: Bucket, clock: ManualClock | None = None) -> MemoryStore:
    """The bucket as a store."""
    store = MemoryStore(clock=clock or new_clock(), bound=bytes_max)
    ensure_conditions(store, SeededChance(0))
    for key, text in bucket.files.items():
        store.put(key, text.encode(), Always())
    return store


def new_clock() -> ManualClock:
    """It is later than everything in the bucket."""
    return ManualClock(int(NOW.timestamp() * 1000))


def database_on(
    store: Store, schema: dict[str, Any] | None, seed: int = 1, *, later: float = 0, **settings: Any
) -> Database:
    """A database in one thread; no time passes but that it is `later` by so many seconds."""
    clock = new_clock()
    clock.advance(later)
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=Settings(**settings),
        schema=None if schema is None else load_schema(schema),
        actor="adopter",
        clock=clock,
        chance=SeededChance(seed),
    )


def fill_folder(folder: Path, bucket: Bucket) -> None:
    """The bucket as files."""
    for key, text in bucket.files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def fill(url: str, bucket: Bucket) -> None:
    """The bucket at a URL."""
    with wormdb.connect(url) as database:
        for key, text in bucket.files.items():
            database.store.put(key, text.encode(), Always())


def check(customers: Collection[Document], bucket: Bucket) -> None:
    """All that an adopted collection says is what the program remembers."""
    assert {found.id: plain(found) for found in customers} == bucket.alive
    for name, past in bucket.past.items():
        check_history(customers, bucket, name)
        assert [(each.ts, each.seq) for each in customers.list_snapshots(name)] == sorted(bucket.taken.get(name, []))
        assert len(customers.get_history(name)) == len(past)
    trashed = {each.id: (plain(each.document), each.deleted_at, each.deleted_by) for each in customers.list_trashed()}
    assert trashed == bucket.trash
    for moment in {told.ts for past in bucket.past.values() for told in past}:
        assert {found.id: plain(found) for found in customers.scan(as_of=moment)} == bucket.at(moment), iso(moment)


def check_history(customers: Collection[Document], bucket: Bucket, name: str) -> None:
    """The history of a document is its oplog."""
    before: dict[str, Any] | None = None
    for entry, told in zip(customers.get_history(name), bucket.past[name], strict=True):
        shown = (entry.seq, entry.op, entry.ts, entry.actor, entry.metadata)
        assert shown == (told.seq, told.op, told.ts, told.actor, told.metadata)
        if told.op == "update":
            assert entry.diff is not None
            assert plain({one: pair[1] for one, pair in entry.diff.items()}) == _changed(before, told.after)
        else:
            assert entry.snapshot is not None
            assert plain(entry.snapshot) == (before if told.op == "delete" else told.after)
        before = told.after


def _changed(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    assert before is not None
    assert after is not None
    names = [name for name in {**before, **after} if name != "updatedAt"]
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}
