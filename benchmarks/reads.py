"""Point reads on S3: what they ask for, and how long they take beside a bare request and beside SlateDB."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import msgspec

import wormdb
from benchmarks.documents import make_documents
from benchmarks.measure import Count, Row, compare
from benchmarks.slate import Slate
from wormdb.engine.index.read import read_index
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key
from wormdb.storage.open import open_store
from wormdb.storage.store import ByteRange
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from wormdb import Collection, Database, Document
    from wormdb.storage.meter import Usage

__all__ = ["TITLE", "run"]

SMALL = 10_000
LARGE = int(os.environ.get("WORMDB_BENCH_DOCUMENTS", "100000"))
TITLE = f"reads: S3 on SeaweedFS, {SMALL:,} and {LARGE:,} documents of 1 KB, brought forward"
READS = 50
KIB = 1024
SCHEMA = {
    "models": {
        "Customer": {
            "path": "@customers/(id:string)",
            "fields": {
                "name": {"type": "string"},
                "email": {"type": "string"},
                "status": {"type": "string"},
                "age": {"type": "integer"},
                "balance": {"type": "number"},
            },
            "indexes": {"byEmail": {"field": "email", "unique": True}},
        }
    }
}


def run() -> list[Row | Count]:
    """Start a server, load two collections, compare, stop it."""
    with S3Server() as server:
        os.environ.update(server.environment)
        sizes = {count: _load(server.url(f"docs-{count}"), count) for count in (SMALL, LARGE)}
        cold = {count: _cold(server.url(f"docs-{count}"), ids) for count, ids in sizes.items()}
        warm = {count: _warm(server.url(f"docs-{count}"), ids) for count, ids in sizes.items()}
        ids = sizes[LARGE]
        url = server.url(f"docs-{LARGE}")
        return [
            *_requests("cold get", cold, gets=4, kilobytes=128),
            *_requests("warm get, staleness allowed", warm, gets=1, kilobytes=64),
            *_opened(url),
            _beside_a_bare_get(url, ids),
            _indexed(url, ids),
            *_beside_slatedb(server, url, ids),
        ]


def _open(url: str, **settings: Any) -> tuple[Database, Collection[Document]]:
    database = wormdb.connect(url, schema=SCHEMA, settings=wormdb.Settings(**settings))
    return database, database.model("Customer")


def _load(url: str, count: int) -> list[str]:
    database, customers = _open(url, forward="manual")
    with database:
        made = make_documents(count)
        for start in range(0, count, 100_000):
            customers.insert_many([{**each, "id": each["_id"]} for each in made[start : start + 100_000]])
            customers.forward()
        return [each["_id"] for each in made]


def _cold(url: str, ids: list[str]) -> Usage:
    database, customers = _open(url)
    with database:
        assert customers.find_by_id(ids[len(ids) // 3]) is not None
        return database.cost()


def _warm(url: str, ids: list[str]) -> Usage:
    """The most that one of several reads asks for, in a process that knows the root and the maps of blocks."""
    database, customers = _open(url, staleness_ms=60_000, cache_bytes=0)
    with database:
        chosen = random.Random(1).sample(ids, READS)
        for identity in chosen:
            customers.find_by_id(identity)
        usages = []
        for identity in chosen:
            before = database.cost()
            assert customers.find_by_id(identity) is not None
            usages.append(database.cost() - before)
        return max(usages, key=lambda usage: (usage.gets, usage.bytes_down))


def _requests(what: str, usages: dict[int, Usage], *, gets: int, kilobytes: int) -> list[Count]:
    rows = []
    for count, usage in usages.items():
        size = usage.bytes_down / KIB
        rows += [
            Count(f"{what}: GETs", f"{count:,} documents", usage.gets, f"≤ {gets}", usage.gets <= gets),
            Count(f"{what}: KB", f"{count:,} documents", size, f"≤ {kilobytes}", size <= kilobytes),
        ]
    small, large = (usages[count].bytes_down for count in (SMALL, LARGE))
    rows.append(
        Count(f"{what}: bytes", f"{LARGE:,} / {SMALL:,} documents", large / small, "≤ 1.5x", large <= 1.5 * small)
    )
    return rows


def _opened(url: str) -> list[Count]:
    database, customers = _open(url)
    with database:
        customers.count()
        usage = database.cost()
    return [
        Count("open and count: GETs", "the root and the tail", usage.gets, "≤ 2", usage.gets <= 2),
        Count("open and count: LISTs", "none", usage.lists, "0", usage.lists == 0),
    ]


def _beside_a_bare_get(url: str, ids: list[str]) -> Row:
    """Strong reads: the log is asked for each."""
    database, customers = _open(url, cache_bytes=0)
    chosen = random.Random(2).sample(ids, READS)
    with database, open_store(url) as bare:
        (block,) = [
            found.key
            for page in bare.list("customers/.worm.db/data/")
            for found in page.objects
            if found.key.endswith(".parquet")
        ][:1]
        for identity in chosen:
            customers.find_by_id(identity)
        before = database.cost()
        customers.find_by_id(chosen[0])
        size = (database.cost() - before).bytes_down
        return compare(
            "warm get, nothing stale",
            lambda: [customers.find_by_id(identity) for identity in chosen],
            "a bare ranged GET of a page",
            lambda: [bare.get_range(block, ByteRange(4, size)) for _ in chosen],
            count=READS,
            at_most=2.0,
        )


def _indexed(url: str, ids: list[str]) -> Row:
    database, customers = _open(url)
    with database:
        wanted = customers.find_by_id(ids[len(ids) // 2])
        assert wanted is not None
        email = wanted["email"]

        def by_index() -> list[Any]:
            view = customers._access.view()  # noqa: SLF001 - the query language that uses indexes comes later
            (index,) = view.definition.indexes.ready
            found = read_index(view, index, customers._ledger.trees)  # noqa: SLF001 - as above
            assert found is not None
            (entries,) = found.ranges([Range.prefix(encode_key(email))])
            return [customers.find_by_id(msgspec.json.decode(value)) for _, value in entries]

        def by_scan() -> list[Any]:
            return [each for each in customers.scan() if each["email"] == email]

        assert by_index() == by_scan() == [wanted]
        return compare("equality by an index", by_index, "a scan of all", by_scan, count=1, at_least=20, rounds=3)


def _beside_slatedb(server: S3Server, url: str, ids: list[str]) -> list[Row]:
    """Whole documents by key in both; both keep blocks in memory."""
    slate = Slate(server)
    slate.open()
    slate.load(make_documents(LARGE))
    slate.close()

    def cold_get() -> None:
        slate.open()
        slate.get(ids[7:8])
        slate.close()

    cold = compare("cold open and get", lambda: _cold(url, ids), "slatedb", cold_get, count=1)
    chance = random.Random(3)
    database, customers = _open(url, staleness_ms=60_000)
    with database:
        slate.open()

        def ours() -> None:
            for identity in chance.sample(ids, READS):
                customers.find_by_id(identity)

        warm = compare(
            "get of random documents", ours, "slatedb", lambda: slate.get(chance.sample(ids, READS)), count=READS
        )
        slate.close()
    slate.end()
    return [cold, warm]
