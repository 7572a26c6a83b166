"""What a database costs: a bill estimated from a few numbers, and what a bucket really holds.

The formulas follow from how the engine works; `docs/how-to/cost.md` explains each. Where a node or a client does
something at most N times, N is taken, so an estimate is rather too high than too low.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from math import sqrt
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError
from wormdb.jobs.node.pace import LEAF_ENTRIES, CollectionLoad, Pace
from wormdb.settings import DAY_MS, MIB, Settings
from wormdb.storage.meter import AZURE_HOT, GCS_STANDARD, S3_EXPRESS, S3_STANDARD, Prices, RequestKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Store

__all__ = ["PRICE_LISTS", "Bill", "BillItem", "BucketUsage", "ObjectUsage", "Workload", "measure_usage", "predict"]

PRICE_LISTS: dict[str, Prices] = {
    "s3": S3_STANDARD,
    "express": S3_EXPRESS,
    "gcs": GCS_STANDARD,
    "azure": AZURE_HOT,
}

DAYS = 30.4
"""Days in a month."""
DAY_SECONDS = 86_400
INDEX_BYTES = 45
"""Of one entry of an index, about."""
VECTOR_BYTES = 20
"""Of a vector in a list beside its code of a byte for each number, about: its id, what its score is made of."""
LISTS_MERGED = 1.0
"""Runs of lists that a forwarding reads to merge them, about."""
LISTS_JOINED = 0.35
"""Ranges that are asked for, for each list that is read: those close together are one."""
LIST_ROWS = 128
"""Vectors of a list, about."""
LISTS_STALE = 0.1
"""The share of vectors that changed from which on a node measures lists again."""
LISTS_READ = 2.4
"""Lists that are read, as a multiple of the root of their number, where nothing is measured."""
PACKED = 0.5
"""Stored bytes of documents in relation to their JSON, about: most compress better."""
SPARE = 1.5
"""Versions that are replaced and not merged away yet, about; never above 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a database is used for. All numbers are of the whole database."""

    documents: float = 0
    """Documents that there are in the end."""
    bytes: float = 1_000
    """Bytes of one document as JSON."""
    writes_per_day: float = 0
    """Documents inserted, changed or deleted."""
    batch: float = 1
    """Documents in one commit."""
    transactions_per_day: float = 0
    """Transactions over several collections: what they write is not among `writes_per_day`."""
    transaction_collections: float = 2
    """Collections of each of them."""
    reads_per_day: float = 0
    """Questions that find a few documents, by id or by an index."""
    collections: float = 1
    indexes: float = 0
    """Indexes of each collection."""
    vector_indexes: float = 0
    """Vector indexes of each collection."""
    dimensions: float = 384
    """Numbers of a vector."""
    searches_per_day: float = 0
    """Questions for the nearest vectors."""
    nodes: float = 1
    """Services that run all day; without any, writers bring their log forward themselves."""
    months: float = 1
    """Months of changes that are kept as history."""
    keep_days: float = 0
    """For how many days the model keeps older versions; 0: for ever."""
    versions: float = 0
    """How many versions of a document it keeps; 0: all."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1 if each.name in ("batch", "collections", "transaction_collections", "dimensions") else 0
            if not least <= value < 1e18:
                raise InvalidRequestError(f"{each.name}={value:g}", reason=f"it must be a number, {least} or more")


@dataclass(frozen=True, slots=True)
class BillItem:
    """One line of a bill: a count of requests or bytes in a month."""

    name: str
    unit: str
    """A kind of request, or bytes."""
    count: float
    dollars: float
    formula: str


@dataclass(frozen=True, slots=True)
class Bill:
    """The bill of one month."""

    prices: str
    items: tuple[BillItem, ...]

    @property
    def dollars(self) -> float:
        """Of all items."""
        return sum(item.dollars for item in self.items)

    def count(self, unit: str) -> float:
        """Of all items of one unit."""
        return sum(item.count for item in self.items if item.unit == unit)


def predict(workload: Workload, prices: Prices = S3_STANDARD) -> Bill:
    """The bill of a month. No requests. The counts of requests are right within a factor of two for even loads."""
    lines = [
        *_commits(workload),
        *_transactions(workload),
        *_forwarding(workload),
        *_reading(workload),
        *_vectors(workload),
        *_nodes(workload),
        *_storage(workload),
    ]
    return Bill(prices.name, tuple(_item(line, prices) for line in lines if line.count))


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    unit: str
    count: float
    formula: str


def _item(line: _Line, prices: Prices) -> BillItem:
    if line.unit == "bytes":
        dollars = prices.of_storage(line.count)
    else:
        dollars = prices.of_requests(RequestKind(line.unit), 1) * line.count
    return BillItem(line.name, line.unit, line.count, dollars, line.formula)


def _commits_per_day(workload: Workload) -> float:
    return workload.writes_per_day / workload.batch


def _forwards_per_day(workload: Workload) -> tuple[float, str]:
    """Of all collections together."""
    commits = _commits_per_day(workload) / workload.collections
    if not workload.nodes:
        each = commits / Settings().forward_entries
        return each * workload.collections, f"commits / {Settings().forward_entries} (setting forward_entries)"
    entries, seconds = Pace().breath(
        CollectionLoad(
            entries=commits,
            seconds=DAY_SECONDS,
            changes=commits * workload.batch,
            leaves=workload.indexes * workload.documents / workload.collections / LEAF_ENTRIES,
            entry_bytes=max(workload.batch * workload.bytes * PACKED * 2, 1),
        )
    )
    each = min(commits, max(DAY_SECONDS / seconds, commits / entries))
    how = f"one in {seconds:g} s or in {entries} entries"
    return each * workload.collections, f"collections x min(commits of one, {how})"


def _commits(workload: Workload) -> Iterator[_Line]:
    commits = _commits_per_day(workload) * DAYS
    yield _Line("commits", "put", commits, "writes / batch: a log entry each")
    yield _Line("commits", "get", commits, "1 a commit: what others wrote, or the root if nothing was known for 60 s")


def _transactions(workload: Workload) -> Iterator[_Line]:
    count, each = workload.transactions_per_day * DAYS, workload.transaction_collections
    reads = each * (each + 1) / 2
    yield _Line(
        "transactions: before the answer", "put", count * (each + 1), "collections + 1: an entry each, a record"
    )
    yield _Line(
        "transactions: finishing", "put", count * each, "collections at most: less where other commits carry it"
    )
    yield _Line(
        "transactions: one moment", "get", count * reads, "1 + 2 + ... + collections: each looks at those before"
    )


def _forwarding(workload: Workload) -> Iterator[_Line]:
    daily, how = _forwards_per_day(workload)
    forwards = daily * DAYS
    if not forwards:
        return
    leaves = max(workload.documents / workload.collections / LEAF_ENTRIES, 1)
    new = workload.writes_per_day / daily
    nodes = workload.indexes * (min(leaves, new) + 1)
    yield _Line("forwarding: root, data, history", "put", forwards * 5, f"5 x forwards; forwards = {how}")
    yield _Line("forwarding: merging", "get", forwards * 4, "4 x forwards: root, newest run of data and of history")
    if workload.nodes:
        entries = _commits_per_day(workload) * DAYS * 2
        yield _Line("forwarding: the log", "get", entries, "2 x commits: a node looks for each entry and reads it")
    if nodes:
        formula = f"forwards x indexes x (min(documents / {LEAF_ENTRIES}, writes in a forward) + 1)"
        yield _Line("forwarding: indexes", "put", forwards * nodes, formula)
        yield _Line("forwarding: indexes", "get", forwards * nodes, "as many as are written")


def _reading(workload: Workload) -> Iterator[_Line]:
    formula = "2 x reads: newer entries, and a page that is not in the cache"
    yield _Line("reads", "get", workload.reads_per_day * DAYS * 2, formula)


def _list_bytes(workload: Workload) -> float:
    """Of one vector index, without what newer runs take back."""
    return workload.documents / workload.collections * (workload.dimensions + VECTOR_BYTES)


def _vectors(workload: Workload) -> Iterator[_Line]:
    """What vector indexes ask for: runs of lists, searches, and making lists anew."""
    indexes, size = workload.vector_indexes, _list_bytes(workload)
    if not indexes:
        return
    forwards = _forwards_per_day(workload)[0] * DAYS
    yield _Line("forwarding: vectors", "put", forwards * indexes, "forwards x vector indexes: a run each")
    formula = f"{LISTS_MERGED:g} x forwards x vector indexes: the runs that are merged"
    yield _Line("forwarding: vectors", "get", forwards * indexes * LISTS_MERGED, formula)
    lists = max(workload.documents / workload.collections / LIST_ROWS, 1)
    is_kept = size * indexes * workload.collections <= Settings().cache_bytes
    each, how = 2.0, "newer entries, and documents; lists are in the cache"
    if not is_kept:
        ranges = LISTS_JOINED * min(lists, LISTS_READ * sqrt(lists))
        each, how = 2.0 + ranges, f"newer entries, documents, {ranges:.0f} ranges of lists"
    yield _Line("searches", "get", workload.searches_per_day * DAYS * each, f"{each:.0f} x searches: {how}")
    if workload.nodes and workload.documents and lists > 1:
        changed = workload.writes_per_day * DAYS / workload.documents
        measured = min(changed / LISTS_STALE, 24 * DAYS) * indexes * workload.collections
        pieces = 3 + 2 * size / (4 * MIB)
        formula = "(3 + 2 for each 4 MiB) x once for each tenth that changed, at most once an hour"
        yield _Line("nodes: lists measured", "get", measured * pieces, formula)


def _nodes(workload: Workload) -> Iterator[_Line]:
    if not workload.nodes:
        return
    pace = Pace()
    hours = 24 * DAYS
    gap = DAY_SECONDS / _commits_per_day(workload) if workload.writes_per_day else float("inf")
    is_busy = gap <= pace.busy_seconds
    beat = pace.interval * (1 if is_busy else pace.idle_factor)
    yield _Line("nodes: heartbeats", "put", workload.nodes * hours * 3600 / beat, f"nodes x one in {beat:g} s")
    looks = workload.nodes * hours * 3600 / pace.look_seconds
    yield _Line("nodes: which are alive", "list", looks, f"nodes x one in {pace.look_seconds:g} s")
    each = 3600 / pace.discover_seconds
    searches = min(each * (workload.collections + 1), 3600 / pace.discover_list_seconds) * hours * workload.nodes
    formula = (
        f"nodes x (collections + 1) in {pace.discover_seconds:g} s, at most one in {pace.discover_list_seconds:g} s"
    )
    yield _Line("nodes: which collections", "list", searches, formula)
    most = 3600 / pace.probes_apart_seconds
    probes = min(workload.collections * 3600 / pace.probe_seconds_max, most) + (
        3600 / pace.interval / 2 if is_busy else 0
    )
    formula = f"collections x one in {pace.probe_seconds_max:g} s, at most {most:g} an hour; more beside writes"
    yield _Line("nodes: new entries", "get", probes * hours, formula)
    schema = workload.nodes * hours * 3600 / pace.probe_seconds_max
    yield _Line("nodes: new models", "get", schema, f"nodes x one in {pace.probe_seconds_max:g} s")
    rounds = min(_commits_per_day(workload), 24 * workload.collections) * DAYS
    yield _Line("gc", "put", rounds * 2, "2 x rounds; a round an hour for each collection that changes")
    yield _Line("gc", "list", rounds, "1 x rounds, for each 1,000 objects")


def _storage(workload: Workload) -> Iterator[_Line]:
    size = workload.bytes * PACKED
    live = workload.documents * size * SPARE
    yield _Line("documents", "bytes", live, f"documents x bytes x {PACKED} (compressed) x {SPARE} (not merged yet)")
    indexes = workload.documents * workload.indexes * INDEX_BYTES * SPARE
    yield _Line("indexes", "bytes", indexes, f"documents x indexes x {INDEX_BYTES} x {SPARE}")
    vectors = _list_bytes(workload) * workload.collections * workload.vector_indexes * SPARE
    formula = f"documents x vector indexes x (dimensions + {VECTOR_BYTES}) x {SPARE}"
    yield _Line("vectors", "bytes", vectors, formula)
    days = Settings().log_retention_ms / DAY_MS
    older, how = workload.writes_per_day * DAYS * workload.months, "writes of all months"
    logged = workload.writes_per_day * days
    if workload.keep_days:
        older, how = min(older, max(workload.writes_per_day * workload.keep_days, logged)), "writes that are kept"
    if workload.versions:
        older, how = min(older, max(workload.documents * workload.versions, logged)), "writes that are kept"
    kept = (workload.documents + older) * size
    yield _Line("history", "bytes", kept, f"(documents + {how}) x bytes x compressed")
    log = workload.writes_per_day * days * size
    yield _Line("log", "bytes", log, f"writes of {days:g} days x bytes x compressed")


# --- what is really used ---


@dataclass(frozen=True, slots=True)
class ObjectUsage:
    """All objects of one kind."""

    name: str
    objects: int
    bytes: int
    dollars: float
    """For keeping them a month."""
    written: int
    """Of the objects that are there, those written in the time looked at."""


@dataclass(frozen=True, slots=True)
class BucketUsage:
    """What lies in a bucket."""

    store: str
    prices: str
    days: float
    """The time looked at for `written`."""
    kinds: tuple[ObjectUsage, ...]
    write_dollars: float
    """At least, for a month like the time looked at: what was written and deleted again is not seen."""

    @property
    def bytes(self) -> int:
        """Of all objects."""
        return sum(kind.bytes for kind in self.kinds)

    @property
    def storage_dollars(self) -> float:
        """A month."""
        return sum(kind.dollars for kind in self.kinds)


NAMES = {
    "committed": "log",
    "data": "documents",
    "indexes": "indexes",
    "history": "history",
    "blobs": "blobs",
    "block0": "roots",
}


def _kind_of(key: str) -> str:
    below = key.partition(".worm.db/")[2]
    if below.startswith("shard-"):
        below = below.partition("/")[2]
    if below:
        return NAMES.get(below.partition("/")[0], "other")
    if key.startswith(".worm.tx/"):
        return "transactions"
    return "nodes" if key.startswith(".worm.nodes/") else "files"


def measure_usage(store: Store, *, now_ms: int, prices: Prices = S3_STANDARD, days: float = 7) -> BucketUsage:
    """Objects and bytes by kind, and what was written in the last `days`. 1 LIST for each 1,000 objects."""
    if not 0 < days <= 3_650:
        raise InvalidRequestError(f"days={days:g}", reason="it must be above 0, and at most 3650")
    objects: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    written: Counter[str] = Counter()
    since = now_ms - days * DAY_MS
    for page in store.list():
        for entry in page.objects:
            kind = _kind_of(entry.key)
            objects[kind] += 1
            sizes[kind] += entry.size
            written[kind] += entry.modified >= since
    kinds = tuple(
        ObjectUsage(name, objects[name], size, prices.of_storage(size), written[name])
        for name, size in sizes.most_common()
    )
    puts = prices.of_requests(RequestKind.PUT, written.total()) * DAYS / days
    return BucketUsage(store.name, prices.name, days, kinds, puts)
