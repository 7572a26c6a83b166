"""Queries of a warm process against pyarrow on ready columns, TinyDB, mongomock and bare requests, in one run.

The documents are real: cities of GeoNames. A warm process has asked before, and is allowed to be a minute behind, so
the request that asks the store for newer entries is left out. Every answer is checked against plain Python first.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import wormdb
from benchmarks.cities import MOST, SCHEMA, make_cities
from benchmarks.commits import open_slowly
from benchmarks.measure import Count, Row, compare, still, take
from wormdb.api.options import check_query
from wormdb.api.read import open_state
from wormdb.query.planner.planner import make_plan
from wormdb.storage.open import open_store
from wormdb.storage.store import ByteRange
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    import pyarrow as pa

    from wormdb import Collection, Document
    from wormdb.storage.meter import MeteredRequest

__all__ = ["TITLE", "run"]

DOCUMENTS: Final = int(os.environ.get("WORMDB_BENCH_DOCUMENTS", "100000"))
TITLE: Final = f"queries: {DOCUMENTS:,} cities of GeoNames, warm, without the request for newer entries"
WRITES: Final = 1_000
PLANNED: Final = 10_000
DELAY_MS: Final = 50
ENTITIES: Final = 1_000
SAMPLE: Final = 40
ROUNDS: Final = 60
"""A query takes a millisecond or two: many rounds find one that nothing disturbed."""
SLOW_ROUNDS: Final = 3

COUNTRIES: Final = ("DE", "FR", "IT", "ES")
PEOPLE: Final = 5_000
FIRST: Final = 20
FILTER: Final[dict[str, Any]] = {"countrycode": {"$in": list(COUNTRIES)}, "population": {"$gte": PEOPLE}}
FIELDS: Final = ["name", "countrycode", "population"]

Cities = dict[str, dict[str, Any]]


def run() -> list[Row | Count]:
    """All comparisons."""
    settings = wormdb.Settings(staleness_ms=60_000, forward="manual")
    with tempfile.TemporaryDirectory() as folder:
        with wormdb.connect(f"{folder}/many", schema=SCHEMA, settings=settings) as database:
            warm = _warm(database.model("City"))
        planned = _planned(f"{folder}/planned", settings)
        slow = _slowly(f"{folder}/slow")
        sizes = _sizes(folder)
    with S3Server() as server:
        os.environ.update(server.environment)
        indexed = _indexed(server.url("indexed"))
    return [*warm, planned, indexed, slow, *sizes]


def _load(cities: Collection[Document], count: int) -> Cities:
    made = make_cities(count)
    cities.insert_many(made)
    cities.forward()
    return {city["id"]: city for city in made}


# --- filter, sort and limit; groups ---


def _warm(cities: Collection[Document]) -> list[Row]:
    plain = _load(cities, DOCUMENTS)
    rows = [
        _beside_arrow("filter, sort, first 20", cities, _Ready.of(plain)),
        *_whole(cities, plain),
        _groups(cities, plain, "count and sum by country"),
        *_beside_others(cities, plain),
    ]
    _write(cities, plain)
    return [
        *rows,
        _beside_arrow(f"the same with {WRITES:,} writes not brought forward", cities, _Ready.of(plain)),
        _groups(cities, plain, f"groups with {WRITES:,} such writes"),
    ]


def _write(cities: Collection[Document], plain: Cities) -> None:
    """Updates, inserts and deletes, spread over the collection."""
    for number, identity in enumerate(list(plain)[:: len(plain) // WRITES][:WRITES]):
        city = plain[identity]
        if number % 10 == 0:
            cities.delete(identity)
            del plain[identity]
        elif number % 10 == 1:
            plain[f"new-{number}"] = dict(cities.insert({**city, "id": f"new-{number}"}))
        else:
            plain[identity] = {**city, "population": city["population"] + 1}
            cities.save(plain[identity])


def _expected(plain: Cities) -> list[dict[str, Any]]:
    chosen = [city for city in plain.values() if city["countrycode"] in COUNTRIES and city["population"] >= PEOPLE]
    chosen.sort(key=lambda city: (-city["population"], city["id"]))
    return [{name: city[name] for name in ("id", *FIELDS)} for city in chosen[:FIRST]]


@dataclass(frozen=True)
class _Ready:
    """Columns in memory, and what must come out."""

    table: pa.Table
    expected: list[dict[str, Any]]

    @classmethod
    def of(cls, plain: Cities) -> _Ready:
        import pyarrow as pa

        columns = {name: pa.array([city[name] for city in plain.values()]) for name in ("id", *FIELDS)}
        return cls(pa.table(columns), _expected(plain))

    def first(self) -> list[dict[str, Any]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        table = self.table
        mask = pc.and_(
            pc.is_in(table["countrycode"], value_set=pa.array(COUNTRIES)),
            pc.greater_equal(table["population"], PEOPLE),
        )
        found = table.filter(mask)
        keys = [("population", "descending"), ("id", "ascending")]
        rows: list[dict[str, Any]] = found.take(pc.select_k_unstable(found, FIRST, sort_keys=keys)).to_pylist()
        return rows


def _beside_arrow(what: str, cities: Collection[Document], ready: _Ready) -> Row:
    def ours() -> list[Any]:
        return cities.find(FILTER, sort="-population", limit=FIRST, select=FIELDS).to_list()

    assert ours() == ready.first() == ready.expected
    return compare(what, ours, "pyarrow.compute on ready columns", ready.first, count=1, at_most=2.0, rounds=ROUNDS)


def _whole(cities: Collection[Document], plain: Cities) -> list[Row]:
    """Documents instead of three fields; the reference has them in memory already, so there is no bar."""
    ready = _Ready.of(plain)

    def ours() -> list[Any]:
        return cities.find(FILTER, sort="-population", limit=FIRST).to_list()

    def theirs() -> list[Any]:
        return [plain[row["id"]] for row in ready.first()]

    assert [city["id"] for city in ours()] == [city["id"] for city in theirs()]
    what = "filter, sort, first 20 whole documents"
    return [compare(what, ours, "pyarrow, and a dict of documents", theirs, count=1, rounds=ROUNDS)]


def _groups(cities: Collection[Document], plain: Cities, what: str) -> Row:
    ready = _Ready.of(plain)
    expected: dict[str, dict[str, int]] = {}
    for city in plain.values():
        group = expected.setdefault(city["countrycode"], {"count": 0, "sum": 0})
        group["count"] += 1
        group["sum"] += city["population"]

    def ours() -> dict[str, Any]:
        groups: dict[str, Any] = cities.aggregate(group_by="countrycode", count=True, sum="population")["groups"]
        return groups

    def theirs() -> dict[str, Any]:
        functions = [("population", "count"), ("population", "sum")]
        found = ready.table.group_by("countrycode").aggregate(functions).sort_by("countrycode")
        counts, sums = found["population_count"].to_pylist(), found["population_sum"].to_pylist()
        pairs = zip(found["countrycode"].to_pylist(), counts, sums, strict=True)
        return {country: {"count": count, "sum": total} for country, count, total in pairs}

    assert ours() == theirs() == dict(sorted(expected.items()))
    reference = "pyarrow group_by on ready columns, sorted"
    return compare(what, ours, reference, theirs, count=1, at_most=2.0, rounds=ROUNDS)


def _beside_others(cities: Collection[Document], plain: Cities) -> list[Row]:
    """Both have all documents in memory."""
    import mongomock
    from tinydb import TinyDB, where
    from tinydb.storages import MemoryStorage

    mongo: Any = mongomock.MongoClient().db.cities
    mongo.insert_many({**city, "_id": city["id"]} for city in plain.values())
    tiny = TinyDB(storage=MemoryStorage)
    tiny.insert_multiple(plain.values())
    tiny.clear_cache()
    wanted = where("countrycode").one_of(list(COUNTRIES)) & (where("population") >= PEOPLE)

    def ours() -> list[Any]:
        return cities.find(FILTER, sort="-population", limit=FIRST, select=FIELDS).to_list()

    def by_mongomock() -> list[Any]:
        return list(mongo.find(FILTER).sort([("population", -1), ("_id", 1)]).limit(FIRST))

    def by_tinydb() -> list[Any]:
        tiny.clear_cache()
        return sorted(tiny.search(wanted), key=lambda city: (-city["population"], city["id"]))[:FIRST]

    for other in (by_mongomock, by_tinydb):
        assert [city["id"] for city in other()] == [city["id"] for city in ours()]
    what = "filter, sort, first 20"
    others = {"mongomock": by_mongomock, "TinyDB in memory": by_tinydb}
    with still():
        best = min(take(ours) for _ in range(ROUNDS))
        return [
            Row(what, name, 1, best, min(take(other) for _ in range(SLOW_ROUNDS)), at_least=50)
            for name, other in others.items()
        ]


# --- planning ---


def _planned(url: str, settings: wormdb.Settings) -> Row:
    with wormdb.connect(url, schema=SCHEMA, settings=settings) as database:
        cities = database.model("City")
        expected = _expected(_load(cities, PLANNED))
        access: Any = cities._access  # noqa: SLF001 - a plan without the query around it
        request = check_query(access, FILTER, {"sort": "-population", "limit": FIRST, "select": FIELDS}).request
        state: Any = open_state(access, None)

        def query() -> list[Any]:
            return cities.find_all(FILTER, sort="-population", limit=FIRST, select=FIELDS)

        assert query() == expected
        assert make_plan(request, state.source.facts, access.plans).is_cached
        return compare(
            "planning a shape that is cached",
            lambda: make_plan(request, state.source.facts, access.plans),
            f"the query, over {PLANNED:,} documents",
            query,
            count=1,
            at_most=0.15,
            rounds=ROUNDS,
        )


# --- indexes ---


def _indexed(url: str) -> Row:
    """Without a cache, so that every look-up reads the leaf and the page; what it asks for is asked for again, bare."""
    requests: list[MeteredRequest] = []
    settings = wormdb.Settings(staleness_ms=60_000, forward="manual", cache_bytes=0)
    with (
        wormdb.connect(url, schema=SCHEMA, settings=settings, hook=requests.append) as database,
        open_store(url) as bare,
    ):
        cities = database.model("City")
        plain = _load(cities, PLANNED)
        names = [city["name"] for city in list(plain.values())[:: PLANNED // SAMPLE]]
        for name in names:
            expected = sorted(city["id"] for city in plain.values() if city["name"] == name)
            assert [city["id"] for city in cities.find({"name": name})] == expected
        requests.clear()
        for name in names:
            cities.find_all({"name": name})
        asked = [(each.key, ByteRange(0, each.bytes_down)) for each in requests]
        return compare(
            "equality on an index, on S3, nothing cached",
            lambda: [cities.find_all({"name": name}) for name in names],
            f"its {len(asked) / len(names):.1f} requests, bare",
            lambda: [bare.get_range(key, span) for key, span in asked],
            count=len(names),
            at_most=2.0,
        )


def _sizes(folder: str) -> list[Count]:
    """Requests of a look-up by a process that knows nothing yet."""
    found: dict[int, int] = {}
    for count in (1_000, 10_000, MOST):
        url = f"{folder}/of-{count}"
        with wormdb.connect(url, schema=SCHEMA, settings=wormdb.Settings(forward="manual")) as database:
            wanted = list(_load(database.model("City"), count).values())[count // 2]
        with wormdb.connect(url, schema=SCHEMA) as database:
            cities = database.model("City")
            assert wanted["id"] in {
                city["id"] for city in cities.find({"name": wanted["name"]}, strategy="index_lookup")
            }
            found[count] = database.cost().gets
    shown = ", ".join(f"{requests} of {count:,}" for count, requests in found.items())
    spread = max(found.values()) - min(found.values())
    what = f"more requests of a cold index look-up: {shown}"
    return [Count(what, "the smallest collection", spread, "≤ 1", spread <= 1)]


# --- a distant store ---


def _slowly(url: str) -> Row:
    """All entities, cold, with a delay in each request, beside one GET after the other."""
    plain = {city["id"]: city for city in make_cities(ENTITIES)}
    with open_slowly(url, 0) as database:
        database["cities"].insert_many(plain.values())
        database["cities"].forward()

    def ours() -> list[Any]:
        with open_slowly(url, DELAY_MS) as database:
            return database["cities"].find_all()

    assert {city["id"]: city["name"] for city in ours()} == {key: city["name"] for key, city in plain.items()}
    best = min(take(ours) for _ in range(SLOW_ROUNDS))
    with open_slowly(url, DELAY_MS) as database:
        store, keys = database.store, [f"objects/{number}" for number in range(SAMPLE)]
        for key in keys:
            store.put(key, b"x" * 1_000)
        one = take(lambda: [store.get(key) for key in keys]) / SAMPLE
        loop = take(lambda: list(store.list("objects/"))) + ENTITIES * one
    what = f"find_all of {ENTITIES:,} entities, cold, {DELAY_MS} ms a request"
    return Row(what, f"a LIST and {ENTITIES:,} GETs in a row ({SAMPLE} timed)", 1, best, loop, at_least=250)
