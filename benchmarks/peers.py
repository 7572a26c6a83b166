"""What users would pick instead: LanceDB, Delta and SlateDB with the same cities on one S3 server, in one run.

The operations, and the bars, are those of the comparison that the project was begun with. Every side sees what others
wrote before: LanceDB and Delta are told to look, and we ask at every read. Answers are checked against plain Python.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

import wormdb
from benchmarks.cities import SCHEMA, make_cities
from benchmarks.measure import Count, Row, compare, still, take
from benchmarks.peer_tables import DeltaTables, LanceTables, Server
from benchmarks.slate import Slate
from wormdb.storage.open import open_store
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.synchronize import Barrier

    from benchmarks.peer_tables import PeerTables
    from wormdb import Collection, Document

__all__ = ["TITLE", "run"]

DOCUMENTS: Final = 10_000
LOADED: Final = (10_000, 100_000)
FEW: Final = 500
ROUNDS: Final = 2
MODEL: Final = "a model"
KINDS: Final = (MODEL, "no model")
TITLE: Final = f"peers: {DOCUMENTS:,} cities of GeoNames on SeaweedFS, every read asks for newer entries"
SAMPLE: Final = 20
WRITES: Final = 100
INSERTS: Final = 620
THREADS: Final = 16
EACH: Final = 20
PROCESSES: Final = 4
EACH_PROCESS: Final = 50
LOW, HIGH, FIRST = 50_000, 500_000, 20
SETTINGS: Final = wormdb.Settings(forward="manual")

Cities = list[dict[str, Any]]


def run() -> list[Row | Count]:
    """Start a server, load all, compare, stop it."""
    with S3Server() as server:
        os.environ.update(server.environment)
        address = Server(server.endpoint, server.access_key, server.secret_key)
        lance = LanceTables(f"s3://{server.bucket}/lance", address)
        delta = DeltaTables(f"s3://{server.bucket}/delta", address)
        rows = [row for count in LOADED for row in _Loads(server, address, count).rows()]
        made = make_cities(DOCUMENTS)
        delta.load(made)
        lance.load(made)
        lance.index()
        with_model, without = (_Bench(server, address, lance, delta, made, kind) for kind in KINDS)
        for bench in (with_model, without):
            bench.load()
            rows += [bench.cold(), *bench.reads()]
        return [*rows, *with_model.writes(), *with_model.many_writers(), *with_model.after_inserts()]


def _open(url: str, kind: str = MODEL) -> wormdb.Database:
    return wormdb.connect(url, schema=SCHEMA if kind == MODEL else None, settings=SETTINGS)


def _cities_of(database: wormdb.Database, kind: str) -> Collection[Document]:
    return database.model("City") if kind == MODEL else database["cities"]


def _load(database: wormdb.Database, kind: str, made: Cities) -> Collection[Document]:
    """All cities, with an index by name that the model has or that is made, brought forward."""
    cities = _cities_of(database, kind)
    cities.insert_many(made)
    if kind != MODEL:
        cities.create_index("name")
    cities.forward()
    return cities


class _Loads:
    """One load after the other, each side into a place of its own; of two rounds the better one."""

    def __init__(self, server: S3Server, address: Server, count: int) -> None:
        for name in ("lancedb", "deltalake", "pyarrow.dataset"):
            importlib.import_module(name)
        self.server, self.address = server, address
        self.made = make_cities(count)
        self.places = (f"{count}-{number}" for number in range(1_000_000))

    def rows(self) -> list[Row | Count]:
        for kind in KINDS:  # what is imported by the first load is not what is timed
            self._ours(kind, self.made[:FEW])
        self._delta(self.made[:FEW]), self._lance(self.made[:FEW])
        delta = min(self._delta(self.made) for _ in range(ROUNDS))
        lance = min(self._lance(self.made) for _ in range(ROUNDS))
        size = sum(len(msgspec.json.encode(city)) for city in self.made)
        count, rows = len(self.made), list[Row | Count]()
        for kind in KINDS:
            taken = [self._ours(kind, self.made) for _ in range(ROUNDS)]
            mine, share = min(seconds for seconds, _ in taken), taken[0][1] / size
            what = f"load and index {count:,}, {kind}"
            rows += [
                Row(what, "Delta, without an index", count, mine, delta, at_least=0.5),
                Row(what, "LanceDB, with indexes", count, mine, lance, at_least=0.25),
                Count(f"stored bytes of {count:,}, {kind}", "the documents as JSON", share, "≤ 0.7", share <= 0.7),
            ]
        return rows

    def _ours(self, kind: str, made: Cities) -> tuple[float, int]:
        """Seconds, and the bytes that are stored then."""
        url = self.server.url(f"load-{next(self.places)}")
        with _open(url, kind) as database:
            seconds = take(lambda: _load(database, kind, made))
        return seconds, _stored(url)

    def _delta(self, made: Cities) -> float:
        tables = DeltaTables(f"s3://{self.server.bucket}/delta-{next(self.places)}", self.address)
        return take(lambda: tables.load(made))

    def _lance(self, made: Cities) -> float:
        tables = LanceTables(f"s3://{self.server.bucket}/lance-{next(self.places)}", self.address)

        def load() -> None:
            tables.load(made)
            tables.index()

        return take(load)


class _Bench:
    def __init__(
        self, server: S3Server, address: Server, lance: LanceTables, delta: DeltaTables, made: Cities, kind: str
    ) -> None:
        self.kind = kind
        self.server = server
        self.address = address
        self.lance, self.delta = lance, delta
        self.made = made
        self.url = server.url("worm-" + kind.replace(" ", "-"))
        self.database = _open(self.url, kind)
        self.cities = _cities_of(self.database, kind)
        self.chosen = random.Random(5).sample(made, SAMPLE)
        self.before: dict[str, float] = {}
        self.new = 0

    # --- loading ---

    def load(self) -> None:
        _load(self.database, self.kind, self.made)
        self.json_bytes = sum(len(msgspec.json.encode(city)) for city in self.made)
        self.size = _stored(self.url)

    def cold(self) -> Row:
        city = self.chosen[0]

        def ours() -> None:
            with _open(self.url, self.kind) as database:
                assert _cities_of(database, self.kind).find_by_id(city["id"]) is not None

        def theirs() -> None:
            self.lance.open()
            assert len(self.lance.get(city["id"])) == 1

        return compare(self._named("open and get, cold"), ours, "LanceDB", theirs, count=1, at_most=2.0)

    # --- reads ---

    def reads(self) -> list[Row | Count]:
        return [*self._get(), *self._equal(), *self._largest(), *self._groups()]

    def _get(self) -> list[Row | Count]:
        ids = [city["id"] for city in self.chosen]
        for city in self.chosen:
            found = self.cities.find_by_id(city["id"])
            assert found is not None
            assert found["name"] == city["name"] == self.lance.get(city["id"])[0]["name"]
        with open_store(self.url) as bare:
            bare.put("bare", b"x" * 1_000)
            row = compare(
                self._named("get"),
                lambda: [self.cities.find_by_id(identity) for identity in ids],
                "a bare GET",
                lambda: [bare.get("bare") for _ in ids],
                count=SAMPLE,
                at_most=1.2,
            )
        return [row, self._requests("get", lambda: self.cities.find_by_id(ids[0]), 1)]

    def _named(self, what: str) -> str:
        return f"{what}, {self.kind}"

    def _beside(self, what: str, ours: Callable[[], object], sides: dict[str, Callable[[], object]], bar: float) -> Row:
        """Against the faster one of several."""
        what = self._named(what)
        rows = [compare(what, ours, name, theirs, count=1, at_most=bar) for name, theirs in sides.items()]
        return min(rows, key=lambda row: row.theirs)

    def _requests(self, what: str, call: Callable[[], object], most: int) -> Count:
        before = self.database.cost()
        call()
        used = self.database.cost() - before
        requests = used.gets + used.puts + used.lists + used.heads + used.deletes
        return Count(self._named(f"requests of {what}"), "", requests, f"≤ {most}", requests <= most)

    def _equal(self) -> list[Row | Count]:
        names = [city["name"] for city in self.chosen]
        for name in names:
            expected = sorted(city["id"] for city in self.made if city["name"] == name)
            for found in (self.cities.find_all({"name": name}), self.lance.equal(name), self.delta.equal(name)):
                assert sorted(city["id"] for city in found) == expected
        turns = {"ours": 0, "LanceDB": 0, "Delta": 0}

        def turn(side: str) -> str:
            turns[side] += 1
            return str(names[turns[side] % SAMPLE])

        row = self._beside(
            "find by an indexed field",
            lambda: self.cities.find_all({"name": turn("ours")}),
            {"LanceDB": lambda: self.lance.equal(turn("LanceDB")), "Delta": lambda: self.delta.equal(turn("Delta"))},
            1.5,
        )
        self.before["equal"] = _median(lambda: self.cities.find_all({"name": turn("ours")}))
        return [row, self._requests("find by an indexed field", lambda: self.cities.find_all({"name": names[0]}), 2)]

    def _largest(self) -> list[Row | Count]:
        where = {"population": {"$gte": LOW, "$lt": HIGH}}
        chosen = sorted(
            (city for city in self.made if LOW <= city["population"] < HIGH),
            key=lambda city: (-city["population"], city["id"]),
        )
        expected = [city["id"] for city in chosen[:FIRST]]

        def ours() -> list[Any]:
            return self.cities.find_all(where, sort="-population", limit=FIRST, select=["name", "population"])

        def theirs(peer: PeerTables) -> Callable[[], list[Any]]:
            return lambda: peer.largest(LOW, HIGH, FIRST)

        for found in (ours(), theirs(self.lance)(), theirs(self.delta)()):
            assert [city["id"] for city in found] == expected
        sides: dict[str, Callable[[], object]] = {"LanceDB": theirs(self.lance), "Delta": theirs(self.delta)}
        return [self._beside("range and sort", ours, sides, 2.0), self._requests("range and sort", ours, 3)]

    def _groups(self) -> list[Row | Count]:
        expected: dict[str, tuple[int, int]] = {}
        for city in self.made:
            count, total = expected.get(city["countrycode"], (0, 0))
            expected[city["countrycode"]] = count + 1, total + city["population"]

        def ours() -> dict[str, Any]:
            return self.cities.aggregate(group_by="countrycode", count=True, sum="population")

        found = {country: (group["count"], group["sum"]) for country, group in ours()["groups"].items()}
        assert found == self.lance.groups() == self.delta.groups() == expected
        sides: dict[str, Callable[[], object]] = {"LanceDB": self.lance.groups, "Delta": self.delta.groups}
        return [self._beside("aggregate by country", ours, sides, 2.0), self._requests("aggregate", ours, 3)]

    # --- writes ---

    def _city(self) -> dict[str, Any]:
        self.new += 1
        return {**self.made[self.new % DOCUMENTS], "id": f"new-{self.new:06d}"}

    def writes(self) -> list[Row | Count]:
        identity = self.chosen[3]["id"]
        numbers = iter(range(1, 1_000_000))

        def update() -> None:
            self.cities.update_one({"id": identity}, {"$set": {"population": next(numbers)}})

        def insert() -> None:
            self.cities.insert(self._city())

        with open_store(self.url) as bare:

            def put() -> None:
                bare.put(f"bare-{next(numbers)}", b"x" * 1_000)

            rows = [_medians(what, call, put) for what, call in (("update", update), ("insert", insert))]
        self.cities.update_one({"id": identity}, {"$set": {"population": 77}})
        changed = self.cities.find_by_id(identity)
        assert changed is not None
        assert changed["population"] == 77
        return [*rows, self._requests("update", update, 2), self._requests("insert", insert, 2)]

    # --- many writers ---

    def many_writers(self) -> list[Row | Count]:
        total = THREADS * EACH
        mine = _by_threads(self.cities.insert, [self._city() for _ in range(total)])
        lances = iter([self._lance() for _ in range(THREADS)])
        few = [self._city() for _ in range(THREADS * 5)]
        theirs = _by_threads_of([next(lances).insert for _ in range(THREADS)], few)
        slate = Slate(self.server)
        slate.open()
        other = slate.insert([self._city() for _ in range(total)], THREADS)
        slate.close()
        slate.end()
        ours, lance = self._by_processes("ours"), self._by_processes("LanceDB")
        assert self._missing(self.lance.ids()) == 0, "LanceDB acknowledged what is not there"
        expected = self.cities.count()
        ids = [city["id"] for city in self.cities.find(select=["id"])]
        lost = abs(len(set(ids)) - len(ids)) + abs(expected - len(ids)) + self._missing(ids)
        each = "an insert by 16 threads"
        return [
            Row(each, "LanceDB, refused ones tried again", 1, mine / total, theirs / len(few), at_least=5),
            Row(each, "SlateDB, 16 at once", 1, mine / total, other / total, at_least=1),
            Row("an insert by 4 processes", "LanceDB", 1, ours, lance, at_least=3),
            Count("lost, doubled or refused", f"{total + PROCESSES * EACH_PROCESS} inserts", lost, "0", lost == 0),
        ]

    def _missing(self, ids: Sequence[str]) -> int:
        wanted = {f"p{process}-{number}" for process in range(PROCESSES) for number in range(EACH_PROCESS)}
        return len(wanted - set(ids))

    def _lance(self) -> LanceTables:
        tables = LanceTables(f"s3://{self.server.bucket}/lance", self.address)
        tables.open()
        return tables

    def _by_processes(self, side: str) -> float:
        """Seconds for one insert, all processes together."""
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(PROCESSES + 1)
        place = _Place(side, self.url if side == "ours" else f"s3://{self.server.bucket}/lance", self.address)
        workers = [
            context.Process(target=insert_some, args=(place, number, self.made[:EACH_PROCESS], barrier))
            for number in range(PROCESSES)
        ]
        for worker in workers:
            worker.start()
        barrier.wait()
        start = time.perf_counter()
        barrier.wait()
        seconds = time.perf_counter() - start
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
        return seconds / (PROCESSES * EACH_PROCESS)

    # --- after many inserts ---

    def after_inserts(self) -> list[Row | Count]:
        with wormdb.connect(self.url, schema=SCHEMA) as database:
            cities = database.model("City")
            for _ in range(INSERTS):
                cities.insert(self._city())
        names = [city["name"] for city in self.chosen]
        turns = iter(range(1_000_000))
        after = _median(lambda: self.cities.find_all({"name": names[next(turns) % SAMPLE]}))
        share = _stored(self.url) / (self.json_bytes + INSERTS * self.json_bytes / DOCUMENTS)
        before = self.size / self.json_bytes
        return [
            Row(f"look-up after {INSERTS} more inserts", "before", 1, after, self.before["equal"], at_most=2.0),
            Count("stored bytes then", f"{before:.2f} of JSON before", share, "≤ 1.5x", share <= 1.5 * before),
        ]


def _stored(url: str) -> int:
    with open_store(url) as bare:
        return sum(found.size for page in bare.list("") for found in page.objects if not found.key.startswith("bare"))


def _median(call: Callable[[], object]) -> float:
    call()
    with still():
        return statistics.median(take(call) for _ in range(3 * SAMPLE))


def _medians(what: str, call: Callable[[], None], put: Callable[[], None]) -> Row:
    """Single writes in turn. Medians, because a writer that is alone leaves a gap for others now and then."""
    for first in (call, put):
        first()
    with still():
        taken = [(take(call), take(put)) for _ in range(WRITES)]
    ours, theirs = (statistics.median(side) for side in zip(*taken, strict=True))
    return Row(f"{what}, median", "a bare PUT", 1, ours, theirs, at_most=2.0)


def _by_threads(insert: Callable[[dict[str, Any]], object], cities: Cities) -> float:
    return _by_threads_of([insert] * THREADS, cities)


def _by_threads_of(inserts: Sequence[Callable[[dict[str, Any]], object]], cities: Cities) -> float:
    """Seconds until every thread has inserted its share."""

    def work(number: int) -> None:
        for city in cities[number::THREADS]:
            inserts[number](city)

    with ThreadPoolExecutor(THREADS) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(THREADS)))
        return time.perf_counter() - start


@dataclass(frozen=True)
class _Place:
    side: str
    url: str
    server: Server


def insert_some(place: _Place, process: int, cities: Cities, barrier: Barrier) -> None:
    """A process of its own: opens, inserts one, waits for the others, inserts, waits again.

    The first insert is not timed: connections are made for it, and we ask the store whether it keeps conditions.
    """
    first = {**cities[0], "id": f"p{process}-first"}
    new = [{**city, "id": f"p{process}-{number}"} for number, city in enumerate(cities)]
    if place.side == "ours":
        with _open(place.url) as database:
            collection = database.model("City")
            collection.insert(first)
            barrier.wait()
            for city in new:
                collection.insert(city)
            barrier.wait()
        return
    tables = LanceTables(place.url, place.server)
    tables.open()
    tables.insert(first)
    barrier.wait()
    for city in new:
        tables.insert(city)
    barrier.wait()
