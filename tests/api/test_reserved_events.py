"""An event that this version does not act on stops every reader and every writer, and nothing is changed or removed."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest

import wormdb
from tests.jobs.node.rig import Rig, live
from tests.jobs.rig import pipeline
from tests.spark.read.rig import read
from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import UnsupportedFormatError
from wormdb.format.entry import Entry, decode_entry, encode_entry, entry_hash
from wormdb.format.event import EVENT_KINDS, RESERVED, CollectionClosed, Event, ModeChanged, ShardsChanged
from wormdb.format.root import decode_root, encode_root
from wormdb.settings import Settings
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.database import Database
    from wormdb.storage.store import Store

MANUAL = Settings(forward="manual", forward_interval_ms=0)
PATHS = EnginePaths.of_collection("things/")
SPARED = WriteId("f" * 32)
DAY = 24 * 3_600

EVENTS: dict[str, Event] = {
    "mode": ModeChanged(mode="readonly"),
    "shards": ShardsChanged(count=4),
}
FOLLOWED = CollectionClosed(reason="reshard", follows=("things/shard-000",))
_numbers = itertools.count()


def prepared(database: Database) -> None:
    """Documents in blocks and in the tail of the log, an index, and objects that were replaced."""
    things = database["things"]
    things.create_index("n")
    things.insert_many([{"id": f"t{number}", "n": number} for number in range(5)])
    things.forward()
    things.save({"id": "t0", "n": 7})
    things.forward()
    things.insert({"id": "later", "n": 9})


def append(store: Store, event: Event) -> None:
    """An entry with an event at the end of the log, as a newer version would write it."""
    last = max(info.key for page in store.list(PATHS.entries) for info in page.objects)
    number = int(last.rpartition("/")[2])
    body = store.get(last).body
    before = decode_entry(body, name=last, number=number, collection="things/")
    entry = Entry(
        number=number + 1,
        write_id=SPARED,
        misc=before.misc + 256,
        node=0,
        previous=entry_hash(body),
        events=(event,),
    )
    store.put(PATHS.entry(LogNumber(number + 1)), encode_entry(entry, collection="things/"))


def close_root(store: Store) -> None:
    """A root that says that the log has ended."""
    root = decode_root(store.get(PATHS.root).body, name="root", path="things/")
    store.put(PATHS.root, encode_root(msgspec.structs.replace(root, closed=FOLLOWED)))


def objects(store: Store) -> dict[str, bytes]:
    keys = [info.key for page in store.list("things/") for info in page.objects]
    return {key: store.get(key).body for key in keys}


def batch_of(db: Database) -> None:
    with db["things"].batch() as batch:
        batch.insert({"id": "new"})


CALLS: dict[str, Callable[[Database], Any]] = {
    "find": lambda db: list(db["things"].find({"n": 3})),
    "find by id": lambda db: db["things"].find_by_id("t1"),
    "count": lambda db: db["things"].count(),
    "aggregate": lambda db: db["things"].aggregate(sum=["n"]),
    "arrow": lambda db: db["things"].to_arrow(),
    "insert": lambda db: db["things"].insert({"id": "new"}),
    "save": lambda db: db["things"].save({"id": "t1", "n": 8}),
    "modify": lambda db: db["things"].modify("t1", lambda document: document),
    "delete": lambda db: db["things"].delete("t1"),
    "update": lambda db: db["things"].update_many({"n": 3}, {"$set": {"n": 4}}),
    "batch": batch_of,
    "import": lambda db: db["things"].import_records([{"id": "new"}]),
    "create index": lambda db: db["things"].create_index("other"),
    "drop index": lambda db: db["things"].drop_index("n"),
    "history": lambda db: db["things"].get_history("t1"),
    "snapshot": lambda db: db["things"].snapshot("t1"),
    "feed": lambda db: list(db["things"].watch()),
    "status": lambda db: db["things"].get_manifest_status(),
    "function": lambda db: db["things"].functions.register("f", "n>1"),
    "forward": lambda db: db["things"].forward(),
    "forward by name": lambda db: db.forward(["things"]),
    "verify": lambda db: db.verify(["things"]),
    "verify in parts": lambda db: pipeline(db, collection="things").verify(),
    "repair": lambda db: db.repair(["things"], accept_loss=True),
    "gc": lambda db: db.gc(["things"]),
    "gc, dry run": lambda db: db.gc(["things"], dry_run=True),
    "compact": lambda db: pipeline(db, collection="things").compact(),
    "rebuild": lambda db: pipeline(db, collection="things").rebuild(),
    "analyze": lambda db: pipeline(db, collection="things").analyze(),
    "Spark": lambda db: read(path=db.url, collection="things"),
    "Spark, a schema given": lambda db: read(_schema(), path=db.url, collection="things"),
}


def _schema() -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType([StructField("n", LongType())])


@pytest.fixture(scope="module", params=[*EVENTS, "closed", "closed in the root"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A database whose log or root a newer version has written to, and the kind of event."""
    url = f"memory://reserved-{next(_numbers)}"
    with wormdb.connect(url, settings=MANUAL) as database:
        prepared(database)
        if request.param == "closed in the root":
            close_root(database.store)
        else:
            append(database.store, EVENTS.get(request.param, FOLLOWED))
    return url, request.param.partition(" ")[0]


@pytest.mark.parametrize("call", CALLS)
def test_every_call_is_refused_and_changes_nothing(place: tuple[str, str], call: str) -> None:
    url, kind = place
    with wormdb.connect(url, settings=MANUAL) as database:
        before = objects(database.store)
        with pytest.raises(UnsupportedFormatError, match=f"does not act on: {kind}.*upgrade wormdb") as caught:
            CALLS[call](database)
        assert caught.value.key is not None
        assert caught.value.key.startswith("things/.worm.db/")
        assert objects(database.store) == before


@pytest.mark.parametrize("kind", EVENTS)
def test_a_process_that_is_running_stops_too(kind: str) -> None:
    with wormdb.connect("memory://", settings=MANUAL) as database:
        prepared(database)
        things = database["things"]
        assert things.count() == 6
        feed = things.watch()
        assert next(feed).number > 0
        append(database.store, EVENTS[kind])
        before = objects(database.store)
        for call in (things.count, things.forward, lambda: things.insert({}), lambda: list(things.watch())):
            with pytest.raises(UnsupportedFormatError, match=kind):
                call()
        assert objects(database.store) == before


@pytest.mark.parametrize("kind", ["closed", "closed in the root"])
def test_a_node_leaves_the_collection_alone_and_looks_after_the_others(kind: str) -> None:
    rig = Rig()
    database = rig.database()
    prepared(database)
    database["others"].insert({"id": "a"})
    append(rig.store, FOLLOWED) if kind == "closed" else close_root(rig.store)
    before = objects(rig.store)
    node = rig.started()
    live(rig, 3 * DAY, node)
    assert objects(rig.store) == before
    assert rig.database()["others"].parquet_files().lag_entries == 0


def test_every_kind_is_acted_on_or_reserved() -> None:
    """A kind that is parsed and ignored would be read over by an older release."""
    assert {event.__struct_config__.tag for event in RESERVED} == set(EVENTS) <= EVENT_KINDS
    source = Path(wormdb.__file__).parent
    acting = "\n".join(path.read_text() for name in ("engine", "maintenance") for path in (source / name).rglob("*.py"))
    for kind in get_args(Event):
        assert (kind in RESERVED) != bool(re.search(rf"\b{kind.__name__}\b", acting)), kind
