"""A folder as the database inside of a program, beside SQLite and TinyDB; and what asking for the next entry costs.

SQLite keeps a document as JSON in a column, with an index on an expression, by its defaults: journal_mode DELETE and
synchronous FULL, so that a commit is on the disk when it returns, as ours is. Its faster journal (WAL) is shown beside
it. All are on one disk, in the folder of temporary files, and all answer with a dict. Reads are compared by processor
time, which is all that they take. An insert is one commit of one document and waits for the disk; there the means of
all rounds are compared, because now and then one of ours brings the log forward.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sqlite3
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import wormdb
from benchmarks.measure import Count, Row, compare, still, take
from wormdb.storage.open import open_store
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

__all__ = ["TITLE", "run"]

TITLE = "embedded: a folder beside SQLite and TinyDB, one process, warm; a probe of S3"
SIZES = (10_000, 50_000)
READS = 100
"""Documents that are read again and again: warm for all of them."""
READ_ROUNDS = 30
INSERTS = 80
PROBES = 300
PROBE_MICROSECONDS_MAX = 150


def run() -> list[Row | Count]:
    """Every size, and the probe."""
    rows: list[Row | Count] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="wormdb-bench-") as folder:
            rows += _beside(Path(folder), size)
    return [*rows, *_probe()]


def _documents(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)
    for number in range(count):
        yield {
            "id": f"{chance.getrandbits(96):024x}",
            "email": f"user{number}-{seed}@example.org",
            "name": f"Name {chance.randrange(5_000)} Surname {chance.randrange(20_000)}",
            "city": f"City {chance.randrange(500)}",
            "amount": chance.randrange(1_000_000) / 100,
            "note": f"{chance.getrandbits(256):064x}",
            "number": number,
        }


class _Sqlite:
    """Documents as JSON in a table."""

    def __init__(self, path: Path, journal: str, documents: list[dict[str, Any]]) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        for statement in (
            f"pragma journal_mode={journal}",
            "pragma synchronous=FULL",
            "create table documents (id text primary key, document text)",
            "create index emails on documents (json_extract(document, '$.email'))",
            "begin",
        ):
            self.connection.execute(statement)
        rows = [(document["id"], json.dumps(document)) for document in documents]
        self.connection.executemany("insert into documents values (?, ?)", rows)
        self.connection.execute("commit")

    def get(self, key: str) -> Any:
        return json.loads(self.connection.execute("select document from documents where id = ?", (key,)).fetchone()[0])

    def find(self, email: str) -> list[Any]:
        query = "select document from documents where json_extract(document, '$.email') = ?"
        return [json.loads(text) for (text,) in self.connection.execute(query, (email,))]

    def insert(self, document: dict[str, Any]) -> None:
        self.connection.execute("insert into documents values (?, ?)", (document["id"], json.dumps(document)))


def _beside(folder: Path, size: int) -> list[Row]:
    documents = list(_documents(size))
    read = random.Random(2).sample(documents, READS)
    with wormdb.connect(folder / "wormdb") as database:
        ours = database["documents"]
        ours.insert_many(documents)
        ours.create_index("email")
        ours.forward()
        theirs = {journal: _Sqlite(folder / journal, journal, documents) for journal in ("delete", "wal")}
        try:
            rows = _reads(ours, theirs, read, size)
            if size == SIZES[0]:
                rows += _beside_tinydb(ours, folder, documents, read)
            return [*rows, *_inserts(ours, theirs, size)]
        finally:
            for sqlite in theirs.values():
                sqlite.connection.close()


_JOURNALS = {"delete": "SQLite, FULL", "wal": "SQLite, FULL, WAL"}


def _reads(ours: Collection[Document], theirs: dict[str, _Sqlite], read: list[dict[str, Any]], size: int) -> list[Row]:
    ids, emails = [document["id"] for document in read], [document["email"] for document in read]

    def each(call: Callable[[Any], object], values: list[Any]) -> Callable[[], None]:
        def loop() -> None:
            for value in values:
                call(value)

        return loop

    rows = []
    for journal, sqlite in theirs.items():
        is_bar = journal == "delete"
        assert ours.find_by_id(ids[0]) == sqlite.get(ids[0])
        assert ours.find_all({"email": emails[0]}) == sqlite.find(emails[0])
        rows += [
            compare(
                f"get, {size:,} documents",
                each(ours.find_by_id, ids),
                _JOURNALS[journal],
                each(sqlite.get, ids),
                count=READS,
                at_most=4 if is_bar else None,
                rounds=READ_ROUNDS,
                clock=time.process_time,
            ),
            compare(
                f"find by an index, {size:,} documents",
                each(lambda email: ours.find_all({"email": email}), emails),
                _JOURNALS[journal],
                each(sqlite.find, emails),
                count=READS,
                at_most=8 if is_bar else None,
                rounds=READ_ROUNDS,
                clock=time.process_time,
            ),
        ]
    return rows


def _inserts(ours: Collection[Document], theirs: dict[str, _Sqlite], size: int) -> list[Row]:
    new = _documents(10**9, seed=2)

    def many(insert: Callable[[Any], object]) -> Callable[[], None]:
        def loop() -> None:
            for document in itertools.islice(new, INSERTS):
                insert(document)

        return loop

    return [
        compare(
            f"insert, {size:,} documents",
            many(ours.insert),
            _JOURNALS[journal],
            many(sqlite.insert),
            count=INSERTS,
            at_most=3 if journal == "delete" else None,
            rounds=5,
            by=fmean,
        )
        for journal, sqlite in theirs.items()
    ]


def _beside_tinydb(
    ours: Collection[Document], folder: Path, documents: list[dict[str, Any]], read: list[dict[str, Any]]
) -> list[Row]:
    """It reads its file for each question, and writes all of it for each insert."""
    from tinydb import TinyDB, where

    tiny = TinyDB(folder / "tiny.json")
    tiny.insert_multiple(documents)
    wanted, new = read[0], _documents(10**9, seed=3)

    def by_tinydb() -> None:
        assert tiny.get(where("id") == wanted["id"]) is not None

    def by_search() -> None:
        tiny.clear_cache()
        assert len(tiny.search(where("email") == wanted["email"])) == 1

    sides: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        ("get", lambda: ours.find_by_id(wanted["id"]), by_tinydb),
        (
            "find by an index",
            lambda: ours.find_all({"email": wanted["email"]}),
            by_search,
        ),
        ("insert", lambda: ours.insert(next(new)), lambda: tiny.insert(next(new))),
    ]
    with still():
        return [
            Row(
                f"{what}, {len(documents):,} documents",
                "TinyDB, a file of JSON",
                1,
                min(take(our) for _ in range(20)),
                min(take(their) for _ in range(3)),
                at_least=20,
            )
            for what, our, their in sides
        ]


# --- what it costs to ask a bucket for an entry that is not there, in processor time ---


def _probe() -> list[Row | Count]:
    key = "documents/.worm.db/committed/00000000000000000002"
    with S3Server() as server:
        os.environ.update(server.environment)
        url = server.url("bench")
        with wormdb.connect(url) as database, open_store(url) as bare:
            store: Any = database._store  # noqa: SLF001 - as a collection has it: metered, tried again, cached
            signed = _signed(bare, key)
            library = HTTPConnection(urlsplit(signed).hostname or "", urlsplit(signed).port)
            target = signed[signed.index("/", 8) :]

            def by_library() -> None:
                library.request("GET", target)
                assert b"NoSuchKey" in library.getresponse().read()

            def by_us() -> None:
                assert store.probe(key).found is None

            row = compare(
                "probe of S3, processor time",
                _times(by_us),
                "http.client, signed before",
                _times(by_library),
                count=PROBES,
                at_most=1,
                clock=time.process_time,
            )
            library.close()
    each = row.ours / row.count * 1e6
    bar = f"≤ {PROBE_MICROSECONDS_MAX}"
    return [row, Count("µs of it", "by itself", each, bar, passed=each <= PROBE_MICROSECONDS_MAX)]


def _times(call: Callable[[], None]) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(PROBES):
            call()

    return loop


def _signed(store: Any, key: str) -> str:
    import obstore

    from wormdb.storage.cloud.signed import EXPIRES_IN

    return obstore.sign(store._client, "GET", key, EXPIRES_IN)  # noqa: SLF001 - the same request
