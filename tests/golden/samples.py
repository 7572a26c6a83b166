"""The values behind the golden files: fixed, small, and touching every field of every format."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bson import Binary, Decimal128, ObjectId
from msgspec import structs

from wormdb.format.adopt_record import AdoptRecord, StagedPart
from wormdb.format.block import Row
from wormdb.format.blocklist import BlockEntry, BlockPage, BlockPageRef, ColumnStats, SidecarRef
from wormdb.format.columns import ColumnSpec
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
from wormdb.format.event import (
    BlobCondemned,
    CollectionClosed,
    DocumentErased,
    Event,
    ExpirySet,
    FilesSwitched,
    FunctionDropped,
    FunctionRegistered,
    IndexBuilding,
    IndexCreated,
    IndexDropped,
    IndexFailed,
    IndexReady,
    JobAborted,
    JobAttached,
    JobExpired,
    JobOpened,
    ModeChanged,
    Nothing,
    SchemaChanged,
    ShardsChanged,
    SnapshotTaken,
    StreamAdvanced,
    TransactionFinished,
    TransactionPrepared,
)
from wormdb.format.files_record import FilesFill, FilesPart, FilesPlaces, FilesRecord, FilesTable
from wormdb.format.heartbeat import CollectionActivity, Heartbeat
from wormdb.format.json import decode, encode_document
from wormdb.format.key import encode_key
from wormdb.format.membership import FilterRun
from wormdb.format.node import Child, Inner, Leaf
from wormdb.format.past import SnapshotMark, Version, encode_past, past_id
from wormdb.format.root import (
    AppliedMark,
    CondemnedBlob,
    ErasedMark,
    ExpiryEntry,
    FunctionEntry,
    IndexRoot,
    JobOutcome,
    ObjectRef,
    PendingTransaction,
    RetiredObject,
    Root,
)
from wormdb.format.transaction import TransactionFloor, TransactionRecord
from wormdb.system.types import WriteId

COLLECTION = "c0" * 16
NODE_IDENTITY = f"{COLLECTION}/indexes/email/0006-00000001"
PAGE_IDENTITY = f"{COLLECTION}/blocks/0006-00000002"
PATH = "org/customers"


def write_id(number: int) -> WriteId:
    return WriteId(f"{number:032x}")


def digest(number: int) -> bytes:
    return bytes([number]) * 32


EVENTS: tuple[Event, ...] = (
    SchemaChanged(definition=b'{"name":"Customer"}'),
    ModeChanged(mode="readonly"),
    IndexCreated(name="email", definition=b'{"fields":["email"],"unique":true}'),
    IndexBuilding(name="email", through=6),
    IndexReady(name="email"),
    IndexFailed(name="email", reason="duplicate key"),
    IndexDropped(name="email"),
    FilesSwitched(enabled=True),
    ShardsChanged(count=4),
    CollectionClosed(reason="reshard", follows=("org/customers/shard-000", "org/customers/shard-001")),
    JobOpened(job=write_id(31), kind="import", base=5),
    JobAborted(job=write_id(32), reason="stopped by the user"),
    JobExpired(job=write_id(33)),
    SnapshotTaken(id=b'"a"', seq=1),
    BlobCondemned(sha256=digest(9), suffix=2),
    Nothing(write_id=write_id(34)),
)


def sidecar_ref(number: int) -> SidecarRef:
    return SidecarRef(name=f"0006-{number:08x}.sidecar", sha256=digest(number), length=400, map_bytes=250)


def block_entry(number: int) -> BlockEntry:
    return BlockEntry(
        name=f"0006-{number:08x}.parquet",
        kind="delta",
        level=2,
        key_first=encode_key(number),
        key_last=encode_key(number + 1),
        rows=10,
        deleted=1,
        rev_first=3,
        rev_last=7,
        length=12_345,
        sha256=digest(number),
        sidecar=sidecar_ref(number),
        columns=(
            ColumnStats(
                path="age",
                type="int64",
                values=7,
                nulls=1,
                missing=1,
                others=1,
                low=encode_key(-5),
                high=encode_key(99),
            ),
            ColumnStats(path="tags", type="list<string>", values=10),
        ),
    )


def entry() -> Entry:
    changes = (
        LoggedChange(id=b'"a"', seq=1, after=b'{"_id":"a","n":1}'),
        LoggedChange(id=b'"b"', seq=4, before=b'{"_id":"b","n":1}', after=b'{"_id":"b","n":2}', snapshot=True),
        LoggedChange(id=b'"d"', seq=2, before=b'{"_id":"d"}', trash=b'{"_id":"d","document":{"_id":"d"}}'),
        LoggedChange(id=b'"e"', seq=3, after=b'{"_id":"e"}', op="restore"),
        LoggedChange(id=b'"f"', seq=3, op="purge"),
        LoggedChange(id=b'{"$oid":"0123456789abcdef01234567"}', seq=2, before=b'{"_id":"c"}'),
    )
    return Entry(
        number=7,
        write_id=write_id(1),
        misc=123_456_789_000,
        node=200,
        previous=digest(1),
        batches=(
            LoggedBatch(id=write_id(2), actor="ada", meta=b'{"reason":"test"}', changes=changes),
            LoggedBatch(id=write_id(3), changes=changes[:1]),
        ),
        events=(*EVENTS, JobAttached(job=write_id(35), blocks=(block_entry(3),), result=b"{}")),
    )


def small_entry() -> Entry:
    """Short enough to be stored without compression, so every byte of it is ours."""
    return Entry(
        number=1, write_id=write_id(1), misc=5, node=0, previous=bytes(32), events=(Nothing(write_id=write_id(4)),)
    )


def chosen_block_page() -> BlockPage:
    """Blocks whose frequent paths became columns."""
    changed = structs.replace
    entries = [changed(block_entry(number), sidecar=changed(sidecar_ref(number), choice=1)) for number in (5, 6)]
    return BlockPage(blocks=tuple(entries))


def block_page() -> BlockPage:
    return BlockPage(blocks=tuple(block_entry(number) for number in range(3)))


def filter_run() -> FilterRun:
    node = ObjectRef(name="0006-00000001", sha256=digest(4), length=14_000)
    return FilterRun(20, tuple(number * number for number in range(1, 1000, 7)), (node,))


def root() -> Root:
    node = ObjectRef(name="0006-00000001", sha256=digest(4), length=14_000)
    return Root(
        path=PATH,
        collection=WriteId(COLLECTION),
        revision=17,
        write_id=write_id(5),
        misc=123_456_790_000,
        applied=7,
        hash_applied=digest(2),
        trimmed=3,
        hash_trimmed=digest(3),
        definition=b'{"name":"Customer"}',
        rows=25,
        blocks=(block_entry(1), block_entry(2)),
        block_pages=(
            BlockPageRef(
                name="0006-00000002",
                sha256=digest(6),
                length=900,
                run=7,
                level=1,
                blocks=3,
                rows=30,
                size=9000,
                rev_first=1,
                rev_last=7,
                trashed=0,
                key_first=encode_key(0),
                key_last=encode_key(3),
            ),
        ),
        indexes=(
            IndexRoot(
                name="email",
                definition=b'{"fields":["email"]}',
                state="ready",
                applied=7,
                node=node,
                height=2,
                entries=25,
                membership=node,
                statistics=b"\x01",
            ),
            IndexRoot(
                name="phone", definition=b'{"fields":["phone"]}', state="failed", reason="duplicate key", cursor=b"\x01"
            ),
        ),
        history=(block_entry(8),),
        history_from=2,
        sequence=12,
        retired_older=node,
        jobs=(JobOutcome(job=write_id(31), state="open", number=7),),
        retired=(
            RetiredObject(name="data/0006-00000000.parquet", revision=16),
            RetiredObject(name="data/x", revision=15, at=1_700_000_000_000),
        ),
        condemned=(CondemnedBlob(sha256=digest(9), suffix=2),),
        sample=b"sample",
        statistics=b"statistics",
        closed=CollectionClosed(reason="drop"),
    )


def streamed_entry() -> Entry:
    """A micro-batch of a stream."""
    return Entry(
        number=9,
        write_id=write_id(35),
        misc=1_700_000_000_000_256,
        node=3,
        previous=digest(6),
        batches=(LoggedBatch(id=write_id(36), changes=(LoggedChange(id=b'"s"', seq=1, after=b'{"_id":"s"}'),)),),
        events=(StreamAdvanced(stream=write_id(37), batch=12),),
    )


def function_entry() -> Entry:
    """A name stands for a filter, and another for none any more."""
    return Entry(
        number=10,
        write_id=write_id(38),
        misc=1_700_000_000_000_512,
        node=3,
        previous=digest(7),
        batches=(LoggedBatch(id=write_id(39)),),
        events=(
            FunctionRegistered(name="isAdult", filter=b'{"age":{"$gte":18}}'),
            FunctionDropped(name="isOld"),
        ),
    )


def prepared() -> TransactionPrepared:
    """A transaction over two collections that changes one document here, and has read another and by a filter."""
    return TransactionPrepared(
        tx=write_id(60),
        participants=("org/customers/", "org/orders/"),
        batch=LoggedBatch(
            id=write_id(61),
            actor="ada",
            changes=(LoggedChange(id=b'"a"', seq=4, before=b'{"_id":"a","n":1}', after=b'{"_id":"a","n":2}'),),
        ),
        reads=(b'"b"',),
        filters=('{"n":{"$gt":1}}',),
    )


def transaction_entry() -> Entry:
    """One transaction is finished, with its batch, one is aborted, and one is prepared."""
    return Entry(
        number=11,
        write_id=write_id(62),
        misc=1_700_000_000_000_768,
        node=3,
        previous=digest(7),
        batches=(LoggedBatch(id=write_id(63), changes=(LoggedChange(id=b'"c"', seq=1, after=b'{"_id":"c"}'),)),),
        events=(
            TransactionFinished(tx=write_id(64), committed=True),
            TransactionFinished(tx=write_id(65)),
            prepared(),
        ),
    )


def transaction_root() -> Root:
    """A root that carries a transaction."""
    return structs.replace(root(), pending=(PendingTransaction(number=11, prepared=prepared()),))


def transaction_record() -> TransactionRecord:
    """A transaction that committed."""
    return TransactionRecord(
        tx=write_id(60),
        write_id=write_id(66),
        misc=1_700_000_000_000_769,
        committed=True,
        participants=("org/customers/", "org/orders/"),
    )


def transaction_floor() -> TransactionFloor:
    """Records below it may be gone."""
    return TransactionFloor(floor=write_id(60), following=write_id(61), write_id=write_id(67))


def function_root() -> Root:
    """It needs a release that knows functions."""
    return structs.replace(root(), functions=(FunctionEntry(name="isAdult", filter=b'{"age":{"$gte":18}}', number=10),))


def expiry_entry() -> Entry:
    """Documents end by themselves from here on, and one does."""
    return Entry(
        number=11,
        write_id=write_id(52),
        misc=1_700_000_000_000_768,
        node=3,
        previous=digest(8),
        batches=(
            LoggedBatch(
                id=write_id(53),
                changes=(LoggedChange(id=b'"ada"', seq=2, before=b'{"_id":"ada"}', op="expire"),),
            ),
        ),
        events=(ExpirySet(path="session.until", after_ms=604_800_000, since_ms=1_700_000_000_000),),
    )


def expiry_root() -> Root:
    """It needs a release that knows expiry."""
    rule = ExpirySet(path="session.until", after_ms=604_800_000, since_ms=1_700_000_000_000)
    return structs.replace(root(), expiries=(ExpiryEntry(number=10, rule=rule),))


def closing_entry() -> Entry:
    """The last one of a collection."""
    return Entry(
        number=11,
        write_id=write_id(50),
        misc=1_700_000_000_000_768,
        node=3,
        previous=digest(8),
        batches=(LoggedBatch(id=write_id(51), actor="ada"),),
        events=(CollectionClosed(reason="drop"),),
    )


def closed_root() -> Root:
    """While a removed collection is purged."""
    return Root(
        path=PATH,
        collection=WriteId(COLLECTION),
        revision=18,
        write_id=write_id(52),
        misc=1_700_000_000_001_024,
        applied=11,
        hash_applied=digest(9),
        trimmed=11,
        hash_trimmed=digest(9),
        marks=(AppliedMark(7, 1_700_000_000_000),),
        entered=1_700_000_000_000_768,
        definition=b'{"Customer":{"path":"@org/customers/(id:string)"}}',
        history_from=11,
        blob_newest=11,
        blob_floor=11,
        closed=CollectionClosed(reason="drop"),
        removed=11,
    )


def tombstone() -> Root:
    """What a removed collection leaves: the name is free, and the numbers go on."""
    return structs.replace(
        closed_root(),
        collection=write_id(53),
        revision=19,
        write_id=write_id(54),
        marks=(),
        definition=b"",
        closed=None,
        removed_at=1_700_000_060_000,
    )


def erasing_entry() -> Entry:
    """A document goes with all that there was of it."""
    gone = LoggedChange(id=b'"ada"', seq=3, before=b'{"_id":"ada"}')
    return Entry(
        number=12,
        write_id=write_id(55),
        misc=123_456_789_012,
        node=0,
        previous=digest(1),
        batches=(LoggedBatch(id=write_id(56), changes=(gone,)),),
        events=(DocumentErased(id=b'"ada"'),),
    )


def erased_root() -> Root:
    mark = ErasedMark(digest(3)[:16], 3, 1_700_000_000_000)
    return structs.replace(root(), erased_through=3, erased_salt=digest(2)[:16], erased=(mark,))


def dropped_root() -> Root:
    return structs.replace(root(), dropped_through=2)


def adopting_entry() -> Entry:
    attached = JobAttached(job=write_id(4), blocks=(block_entry(9),), added=2, history=(block_entry(10),))
    return Entry(
        number=1,
        write_id=write_id(2),
        misc=123_456_789_012,
        node=0,
        previous=bytes(32),
        batches=(LoggedBatch(id=write_id(3)),),
        events=(JobOpened(job=write_id(4), kind="adopt", base=0), attached),
    )


def adopted_root() -> Root:
    return structs.replace(root(), brought=(block_entry(10),), attached=(block_entry(9),))


def adopt_record() -> AdoptRecord:
    part = StagedPart(through=encode_key("b"), blocks=(block_entry(9),), history=(block_entry(10),))
    return AdoptRecord(
        path=PATH, job=write_id(4), write_id=write_id(6), limit=123_456_789_000, plan=digest(1), parts=(part,)
    )


def files_record() -> FilesRecord:
    places = FilesPlaces(oplog="root", snapshots="inline", trash="collection", name="customers/")
    part = FilesPart(
        first=encode_key("a"),
        last=encode_key("b"),
        log=6,
        count=2,
        size=300,
        checksum="sha256:00",
        version="v1",
        pending=1,
        since=1_700_000_000_000,
    )
    return FilesRecord(
        path=PATH,
        revision=4,
        write_id=write_id(6),
        through=7,
        misc=123_456_790_000,
        shape=digest(1),
        places=places,
        fill=FilesFill(since=9, cursor=encode_key("a"), former=(places,), is_lost=True),
        tables=(
            FilesTable(kind="manifest", shape=digest(2), parts=(part,)),
            FilesTable(
                kind="index",
                fields=("status", "name"),
                shape=digest(3),
                is_parted=True,
                parts=(part, FilesPart(low=("active", "b"))),
                meta="v2",
                obsolete=("org/customers/.worm.index/status+name.json",),
            ),
        ),
        sentinel="v3",
        is_unannounced=True,
        announced=digest(4),
    )


def leaf() -> Leaf:
    keys = tuple(encode_key(f"user-{number:03}@example.org") for number in range(40))
    return Leaf(keys, tuple(b"%d" % number for number in range(40)))


def inner() -> Inner:
    children = tuple(Child(f"0006-{number:08x}", digest(number), 1000 + number) for number in range(5))
    return Inner(tuple(encode_key(number) for number in (10, 20, 30, 40)), children)


COLUMNS = (
    ColumnSpec("age", "int64"),
    ColumnSpec("score", "double"),
    ColumnSpec("name", "string"),
    ColumnSpec("active", "bool"),
    ColumnSpec("born", "date"),
    ColumnSpec("photo", "binary"),
    ColumnSpec("parent", "objectid"),
    ColumnSpec("balance", "decimal"),
    ColumnSpec("tags", "list<string>"),
    ColumnSpec("address", "json"),
    ColumnSpec("address.city"),
    ColumnSpec("items.price"),
)


def documents() -> list[dict[str, Any]]:
    """Every type a column can have, and everything that does not fit it."""
    full = {
        "_id": 1,
        "age": 30,
        "score": 1.5,
        "name": "Ada",
        "active": True,
        "born": datetime(1815, 12, 10, 1, 2, 3, 4000, tzinfo=UTC),
        "photo": b"\x00\xff",
        "parent": ObjectId("0123456789abcdef01234567"),
        "balance": Decimal128("12.50"),
        "tags": ["x", "y", None],
        "address": {"city": "London", "zip": "1"},
        "items": [{"price": 1}],
    }
    nothing = {"_id": 2}
    nulls = {**dict.fromkeys(full), "_id": 3}
    strange = {
        "_id": 4,
        "age": "thirty",
        "score": 7,
        "name": 5,
        "active": 1,
        "born": "1815",
        "photo": Binary(b"x", 4),
        "parent": "none",
        "balance": Decimal128("12.5"),
        "tags": ["x", 1],
        "address": [{"city": "Paris"}],
        "items": {"price": 2.5},
    }
    others = [{"_id": name, "age": 41, "name": "Bé", "address": {"city": "Rome"}} for name in ("a", "b")]
    return [full, nothing, nulls, strange, *others, {"_id": ObjectId("0123456789abcdef01234567"), "age": 2**62}]


def rows() -> list[Row]:
    stored = [
        Row(document["_id"], 100 + place, 1 + place % 3, encode_document(document))
        for place, document in enumerate(documents())
    ]
    stored.append(Row("c", 300, 5, None))
    stored.append(Row("d", 301, 6, None, b'{"_id":"d","deletedAt":"2026-02-24T12:00:00.000Z","document":{"_id":"d"}}'))
    return sorted(stored, key=lambda row: encode_key(row.id))


def past() -> list[Version | SnapshotMark]:
    """Every kind of row of history, in order."""
    misc = 1_771_934_400_000_000 << 8
    oid = b'{"$oid":"0123456789abcdef01234567"}'
    return [
        Version(b"7", 2, 5, "purge", misc + 5),
        Version(b'"a"', 1, 1, "create", misc + 1, "ada", b'{"why":"test"}', document=b'{"_id":"a","n":1}'),
        Version(b'"a"', 2, 2, "update", misc + 2, snapshot=True, document=b'{"_id":"a","n":2}'),
        SnapshotMark(b'"a"', 2, 6, misc + 6, "bob"),
        Version(b'"a"', 3, 7, "delete", misc + 7, "bob"),
        Version(b'"a"', 4, 8, "restore", misc + 8, document=b'{"_id":"a","n":2}'),
        Version(oid, 1, 3, "create", misc + 3, document=b'{"_id":%b}' % oid),
    ]


def past_rows() -> list[Row]:
    return [Row(decode(past_id(row), name="id"), row.rev, row.seq, encode_past(row)) for row in past()]


def heartbeat() -> Heartbeat:
    """Of a node, as releases wrote it before servers had addresses."""
    return Heartbeat(
        node=3,
        incarnation=WriteId("0123456789abcdef0123456789abcdef"),
        sequence=7,
        misc=435200001280000003,
        interval_ms=5000,
        version="0.1.0",
        name="process 1 on host",
        written=(CollectionActivity(collection="org/notes/", number=12, lag=2, error="why", removed=True),),
    )


def server_heartbeat() -> Heartbeat:
    """Of a server."""
    return structs.replace(heartbeat(), address="resps://db1.internal:5484", state="stopped", written=())
