"""Every call ends in time on a server that does not answer, and what it says is true when the server is back.

The bounds here are no measurements: a call that hangs would take ten times as long (`request_seconds`), or for ever.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pymongo import DeleteOne, InsertOne

import wormdb
from tests.tarpit import Mood, Tarpit
from wormdb.api.database import Database
from wormdb.api.results import Results
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import InvalidRequestError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.testing.s3_server import S3Server

DEADLINE_SECONDS = 0.3
HANGS_SECONDS = 40.0
LIMIT_SECONDS = 12.0
"""Above the deadline and a second, because the machine may be busy with sixty calls at once; far below a hang."""
SETTINGS = wormdb.Settings(
    read_seconds=DEADLINE_SECONDS, commit_seconds=DEADLINE_SECONDS, request_seconds=HANGS_SECONDS, forward="manual"
)
SCHEMA = {
    "specversion": "1.0",
    "models": {
        "Thing": {
            "path": "@things/(id:string)/[data].json",
            "fields": {"name": {"type": "string"}, "n": {"type": "integer"}},
        }
    },
}


def exhaust(items: Any) -> int:
    return sum(1 for _ in items)


READS: Mapping[str, Callable[[Database, Collection[Document]], object]] = {
    "find_by_id": lambda _, c: c.find_by_id("a"),
    "find_by_id as_of": lambda _, c: c.find_by_id("a", as_of=1),
    "exists": lambda _, c: c.exists("a"),
    "refresh": lambda _, c: c.refresh(),
    "scan": lambda _, c: exhaust(c.scan()),
    "scan columns": lambda _, c: exhaust(c.scan(columns=["n"])),
    "to_arrow": lambda _, c: c.to_arrow(["n"]),
    "find scored": lambda _, c: exhaust(c.find(near={"v": {"vector": [1.0], "exact": True}}).scored()),
    "find": lambda _, c: exhaust(c.find({"n": 1})),
    "find timeout": lambda _, c: exhaust(c.find({"n": 1}, timeout=DEADLINE_SECONDS)),
    "find_all": lambda _, c: c.find_all({"n": {"$gt": 0}}),
    "find_one": lambda _, c: c.find_one({"n": 1}),
    "query": lambda _, c: c.query().eq("n", 1).execute(),
    "query aggregate": lambda _, c: c.query().aggregate(count=True),
    "query distinct": lambda _, c: c.query().distinct("n"),
    "explain": lambda _, c: c.explain({"n": 1}, analyze=True),
    "count": lambda _, c: c.count(),
    "count_documents": lambda _, c: c.count_documents({"n": 1}),
    "count filter": lambda _, c: c.count({"n": 1}),
    "distinct": lambda _, c: c.distinct("n"),
    "aggregate": lambda _, c: c.aggregate(sum="n"),
    "cursor": lambda _, c: c.cursor().next_batch(),
    "indexes": lambda _, c: c.indexes(),
    "index_tasks": lambda _, c: c.index_tasks(),
    "get_manifest_status": lambda _, c: c.get_manifest_status(),
    "parquet_files": lambda _, c: c.parquet_files(),
    "get_history": lambda _, c: c.get_history("a"),
    "diff": lambda _, c: c.diff("a", 1, 1),
    "watch": lambda _, c: exhaust(c.watch()),
    "watch follow": lambda _, c: exhaust(c.watch(follow=True)),
    "open_blob": lambda _, c: c.open_blob(f"sha256:{'0' * 64}"),
    "list_blobs": lambda _, c: exhaust(c.list_blobs()),
    "resolve": lambda _, c: c.resolve(f"1-{'0' * 32}-{'0' * 32}"),
    "schema": lambda db, _: db.schema,
    "schema_changes": lambda db, _: db.schema_changes(),
    "plan_schema": lambda db, _: db.plan_schema(),
    "collections": lambda db, _: db.collections(),
    "status": lambda db, c: db.status([c.name]),
    "verify": lambda db, c: db.verify([c.name]),
    "gc": lambda _, c: c.gc(dry_run=True),
    "snapshot": lambda db, c: db.snapshot([c.name]),
    "resolve transaction": lambda db, _: db.resolve(f"tx-{'f' * 32}"),
    "transaction reads": lambda db, c: db.run(lambda tx: tx[c.prefix.rstrip("/")].count({"n": 1})),
}
WRITES: Mapping[str, Callable[[Database, Collection[Document]], object]] = {
    "insert": lambda _, c: c.insert({"id": "new", "n": 5}),
    "insert timeout": lambda _, c: c.insert({"id": "new", "n": 5}, timeout=DEADLINE_SECONDS),
    "insert_frame": lambda _, c: c.insert_frame(pa.table({"id": ["new"]})),
    "insert_one": lambda _, c: c.insert_one({"id": "new"}),
    "bulk_write": lambda _, c: c.bulk_write([InsertOne({"id": "new"}), DeleteOne({"id": "a"})]),
    "insert_many": lambda _, c: c.insert_many([{"id": "new"}, {"id": "newer"}]),
    "save": lambda _, c: c.save({"id": "new"}),
    "batch": lambda _, c: c.batch().insert({"id": "new"}).delete("a").flush(),
    "update_one upsert": lambda _, c: c.update_one({"id": "new"}, {"$set": {"n": 7}}, upsert=True),
    "replace_one upsert": lambda _, c: c.replace_one({"id": "new"}, {"n": 7}, upsert=True),
    "import_records": lambda _, c: c.import_records([{"id": "new"}]),
    "run": lambda db, c: db.run(lambda tx: tx[c].insert({"id": "new"})),
    "transaction": lambda db, c: _inserted(db.transaction(), c).commit(),
}


def _inserted(tx: wormdb.Transaction, collection: Collection[Document]) -> wormdb.Transaction:
    tx[collection].insert({"id": "new"})
    return tx


OTHERS: Mapping[str, Callable[[Database, Collection[Document]], object]] = {
    "delete": lambda _, c: c.delete("a"),
    "modify": lambda _, c: c.modify("a", lambda found: {**found, "n": 9}),
    "update_many": lambda _, c: c.update_many({"n": 1}, {"$inc": {"n": 10}}),
    "delete_one": lambda _, c: c.delete_one({"id": "a"}),
    "delete_many": lambda _, c: c.delete_many({"n": 1}),
    "find_one_and_update": lambda _, c: c.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}),
    "find_one_and_replace": lambda _, c: c.find_one_and_replace({"id": "a"}, {"n": 1}),
    "find_one_and_delete": lambda _, c: c.find_one_and_delete({"id": "a"}),
    "rollback": lambda _, c: c.rollback("b", to_seq=1),
    "put_blob": lambda _, c: c.put_blob(b"bytes"),
    "create_index": lambda _, c: c.create_index("n"),
    "create_vector_index": lambda _, c: c.create_vector_index("v", dimensions=3),
    "create_text_index": lambda _, c: c.create_text_index(["t"]),
    "forward": lambda _, c: c.forward(),
    "erase": lambda _, c: c.erase("a"),
    "drop": lambda d, _: d.drop("things"),
    "rename": lambda d, _: d.rename("things", "others"),
    "database forward": lambda db, c: db.forward([c.name]),
    "build_indexes": lambda _, c: c.build_indexes(),
    "build_manifest": lambda _, c: c.build_manifest(),
    "apply_schema": lambda db, _: db.apply_schema(),
    "repair": lambda db, c: db.repair([c.name]),
    "files": lambda db, _: db.files.sync("Thing"),
    "close": lambda db, c: db.close(),
}
ALL = {**READS, **WRITES, **OTHERS}
NEED_NOTHING = {"close", "schema"}
"""They end without an error: what they want needs no answer."""
COLLECTION_OTHERS = {
    *("name", "mode", "prefix", "source", "create", "invalidate_manifest", "create_blob_target", "resume"),
    *("token", "with_options"),
    *("to_pandas", "to_polars", "drop_index", "describe_index", "analyze_index", "build_index"),
    *("snapshot", "list_snapshots", "restore_snapshot", "list_trashed", "restore", "purge", "purge_expired"),
    *("empty_trash", "functions", "estimated_document_count", "head", "columns", "expire"),
    *("retain", "get_retention"),
}
"""They ask nothing, go through others, or need a model with snapshots or trash."""
DATABASE_OTHERS = {
    "class_change",
    "as_actor",
    "url",
    "store",
    "model",
    "adopt",
    "cost",
    "gc",
    "find_traces",
    "removal",
    "list_collection_names",
}
FOUND_OTHERS = {
    *("to_list", "first", "next_page", "skipped", "to_pandas", "to_polars", "sort", "skip", "limit"),
    *("highlights", "scored"),
}


@dataclass
class Called:
    """One call, in a thread of its own, on a database of its own."""

    name: str
    database: Database
    collection: Collection[Document]
    error: BaseException | None = None
    seconds: float = 0.0

    def run(self) -> None:
        clock = SystemClock()
        begin = clock.monotonic()
        try:
            ALL[self.name](self.database, self.collection)
        except BaseException as error:  # noqa: BLE001 - what it raised is what is looked at
            self.error = error
        self.seconds = clock.monotonic() - begin


@pytest.fixture
def tarpit(s3_server: S3Server) -> Iterator[Tarpit]:
    with Tarpit(s3_server.endpoint) as tarpit:
        yield tarpit


def prepared(
    s3_server: S3Server, tarpits: Sequence[Tarpit], s3_url: str, names: list[str], *, is_warm: bool
) -> list[Called]:
    """A collection with documents in blocks and in the log for each call, and who will call, through which proxy."""
    prefix = s3_url.partition("?")[0].rpartition("/")[2]
    with wormdb.connect(s3_url) as database:
        for number, name in enumerate(names):
            collection = database[f"c{number}"]
            collection.insert_many([{"id": identity, "n": 1} for identity in "ab"])
            if name in WRITES or number % 4 == 0:
                collection.forward()
    urls = [s3_server.url(prefix, endpoint=tarpit.endpoint) for tarpit in tarpits]
    calls = []
    if is_warm:
        with wormdb.connect(urls[0]) as database:
            database["other"].insert({"id": "a"})  # the process asks once whether the store honours conditions
    for number, (name, url) in enumerate(zip(names, cycle(urls), strict=False)):
        database = wormdb.connect(url, settings=SETTINGS, schema=SCHEMA)
        calls.append(Called(name, database, database[f"c{number}"]))
        if is_warm:
            calls[-1].collection.find_by_id("a", timeout=60.0)
    return calls


def run_all(calls: list[Called]) -> None:
    threads = [threading.Thread(target=call.run, name=call.name) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * LIMIT_SECONDS)
    assert not [thread.name for thread in threads if thread.is_alive()], "they hang"


def check(calls: list[Called], url: str) -> None:
    """All have ended in time by an error that is true."""
    slow = {call.name: call.seconds for call in calls if call.seconds > LIMIT_SECONDS}
    assert not slow
    untyped = {call.name: call.error for call in calls if not isinstance(call.error, WormError | None)}
    assert not untyped
    silent = {call.name for call in calls if call.error is None}
    assert silent <= NEED_NOTHING
    odd = {
        call.name: call.error
        for call in calls
        if call.error is not None and not isinstance(call.error, UnavailableError | OutcomeUnknownError)
    }
    assert not odd
    with wormdb.connect(url) as database:
        for number, call in enumerate(calls):
            if call.name in WRITES:
                check_write(database[f"c{number}"], call)


def check_write(collection: Collection[Document], call: Called) -> None:
    if isinstance(call.error, OutcomeUnknownError):
        assert call.error.commit_id is not None, call.name
        fate = collection.resolve(call.error, settle=True)
        assert fate is not Fate.UNKNOWN
        assert collection.exists("new") == (fate is Fate.COMMITTED), call.name
    else:
        assert not collection.exists("new"), call.name


def test_no_call_outlives_its_deadline_in_a_process_that_begins(
    s3_server: S3Server, tarpit: Tarpit, s3_url: str
) -> None:
    calls = prepared(s3_server, [tarpit], s3_url, list(ALL), is_warm=False)
    tarpit.become(Mood.HOLE)
    run_all(calls)
    tarpit.become(Mood.OPEN)
    check(calls, s3_url)
    close_all(calls)


@pytest.mark.parametrize("mood", [Mood.HOLE, Mood.SILENT, Mood.STALL, Mood.DRIP])
def test_no_call_outlives_its_deadline(s3_server: S3Server, tarpit: Tarpit, s3_url: str, mood: Mood) -> None:
    names = list(ALL) if mood is Mood.DRIP else [*WRITES, *OTHERS]
    calls = prepared(s3_server, [tarpit], s3_url, names, is_warm=True)
    tarpit.become(mood)
    run_all(calls)
    tarpit.become(Mood.OPEN)
    check(calls, s3_url)
    if mood in (Mood.SILENT, Mood.HOLE):
        # A process that knows the collection sends its entry at once: then only the log can tell.
        assert {call.name for call in calls if isinstance(call.error, OutcomeUnknownError)} >= {
            "insert",
            "save",
            "batch",
        }
    close_all(calls)


@pytest.mark.parametrize("answers", [1, 2, 3, 5])
def test_a_store_that_falls_silent_in_the_middle(s3_server: S3Server, s3_url: str, answers: int) -> None:
    """Each call has a proxy of its own, which gives it this number of answers and no more."""
    names = ["insert", "update_one upsert", "import_records", "find", "forward"]
    with ExitStack() as stack:
        tarpits = [stack.enter_context(Tarpit(s3_server.endpoint)) for _ in names]
        calls = prepared(s3_server, tarpits, s3_url, names, is_warm=False)
        for tarpit in tarpits:
            tarpit.become(Mood.SILENT, after_answers=answers)
        run_all(calls)
        for tarpit in tarpits:
            tarpit.become(Mood.OPEN)
        assert all(isinstance(call.error, WormError | None) for call in calls)
        assert max(call.seconds for call in calls) < LIMIT_SECONDS
        with wormdb.connect(s3_url) as database:
            for number, call in enumerate(calls):
                if call.name in WRITES and call.error is not None:
                    check_write(database[f"c{number}"], call)
        close_all(calls)


def close_all(calls: list[Called]) -> None:
    for call in calls:
        call.database.close()


def test_every_public_call_is_in_the_sweep() -> None:
    """A call that is added must be swept too, or be named here as one that asks nothing or goes through another."""
    swept = {name.partition(" ")[0] for name in ALL}
    for kind, others in ((wormdb.Collection, COLLECTION_OTHERS), (Database, DATABASE_OTHERS), (Results, FOUND_OTHERS)):
        public = {name for name in vars_of(kind) if not name.startswith("_")}
        assert public - swept - others == set()


def vars_of(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in vars(base)}


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "1", True])
def test_a_timeout_is_a_number_above_nothing(timeout: Any) -> None:
    collection = wormdb.connect("memory://")["things"]
    with pytest.raises(InvalidRequestError, match="timeout="):
        collection.find_by_id("a", timeout=timeout)
    assert not collection.exists("a")
