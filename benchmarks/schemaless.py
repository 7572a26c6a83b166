"""A collection without a model, one with a model, and LanceDB: the same cities on one S3 server, in one run.

Frequent paths are columns whether they are declared or not, so both kinds of collection should take the same time. What
finding these columns costs is told too: the processor time of blocks with and without them, and the bytes stored.
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

import wormdb
from benchmarks.cities import SCHEMA, make_cities
from benchmarks.measure import Count, Row, compare, still
from benchmarks.peer_tables import LanceTables, Server
from wormdb.format import frequent
from wormdb.format.block import Row as BlockRow
from wormdb.format.block import write_block
from wormdb.format.json import encode_document
from wormdb.storage.open import open_store
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb import Collection, Document

__all__ = ["TITLE", "run"]

DOCUMENTS: Final = 10_000
TITLE: Final = f"schemaless: {DOCUMENTS:,} cities of GeoNames on SeaweedFS, with a model and without"
SAMPLE: Final = 20
LOW, HIGH, FIRST = 50_000, 500_000, 20
WRITES: Final = 5
ROUNDS: Final = 25
SETTINGS: Final = wormdb.Settings(forward="manual")

Cities = list[dict[str, Any]]


def run() -> list[Row | Count]:
    """Start a server, load all, compare, stop it."""
    with S3Server() as server:
        os.environ.update(server.environment)
        address = Server(server.endpoint, server.access_key, server.secret_key)
        lance = LanceTables(f"s3://{server.bucket}/lance", address)
        made = make_cities(DOCUMENTS)
        lance.load(made)
        lance.index()
        with (
            wormdb.connect(server.url("declared"), schema=SCHEMA, settings=SETTINGS) as declared,
            wormdb.connect(server.url("bare"), settings=SETTINGS) as bare,
        ):
            model: Collection[Document] = declared.model("City")
            things: Collection[Document] = bare["cities"]
            _load(model, made)
            _load(things, made)
            if not any(index.fields == ("name",) for index in things.indexes()):
                things.create_index("name")
                things.forward()
            rows: list[Row | Count] = []
            for what, ours, theirs, expected in _questions(made, lance):
                asked = [_asked(ours, collection, expected) for collection in (things, model)]
                rows += [
                    compare(f"{what}, no model", asked[0], "LanceDB", theirs, count=1, at_most=1.0),
                    compare(f"{what}, a model", asked[1], "LanceDB", theirs, count=1, at_most=1.0),
                    _processor_row(f"{what}, no model", asked[0], asked[1]),
                ]
        return [*rows, *_sizes(server, made), _writes(made)]


def _processor_row(what: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Row:
    """Both of us, by processor time in turn: they differ by less than what a loaded machine adds to either."""
    with still():
        pairs = [(_processor(ours), _processor(theirs)) for _ in range(ROUNDS)]
    best = [min(side) for side in zip(*pairs, strict=True)]
    return Row(f"{what}, processor", "a model", 1, best[0], best[1], at_most=1.3)


def _load(collection: Collection[Document], made: Cities) -> None:
    collection.insert_many(made)
    collection.forward()


def _questions(made: Cities, lance: LanceTables) -> list[tuple[str, Callable[..., Any], Callable[[], Any], Any]]:
    """What is asked, how of us, how of LanceDB, and the answer in plain Python."""
    names = [city["name"] for city in random.Random(5).sample(made, SAMPLE)]
    turns = iter(range(1_000_000))
    where = {"population": {"$gte": LOW, "$lt": HIGH}}
    chosen = sorted(
        (city for city in made if LOW <= city["population"] < HIGH), key=lambda city: (-city["population"], city["id"])
    )
    groups: dict[str, tuple[int, int]] = {}
    for city in made:
        count, total = groups.get(city["countrycode"], (0, 0))
        groups[city["countrycode"]] = count + 1, total + city["population"]

    def equal(collection: Collection[Document]) -> list[str]:
        return sorted(one["id"] for one in collection.find_all({"name": names[next(turns) % SAMPLE]}))

    def largest(collection: Collection[Document]) -> list[str]:
        found = collection.find_all(where, sort="-population", limit=FIRST, select=["name", "population"])
        return [one["id"] for one in found]

    def grouped(collection: Collection[Document]) -> dict[str, tuple[int, int]]:
        found = collection.aggregate(group_by="countrycode", count=True, sum="population")["groups"]
        return {country: (group["count"], group["sum"]) for country, group in found.items()}

    return [
        ("equality, indexed", equal, lambda: lance.equal(names[next(turns) % SAMPLE]), None),
        ("range and sort", largest, lambda: lance.largest(LOW, HIGH, FIRST), [one["id"] for one in chosen[:FIRST]]),
        ("group-by", grouped, lance.groups, groups),
    ]


def _asked(ours: Callable[..., Any], collection: Collection[Document], expected: object) -> Callable[[], object]:
    found = ours(collection)
    assert found, "there is an answer"
    assert expected is None or found == expected
    return lambda: ours(collection)


def _sizes(server: S3Server, made: Cities) -> list[Row | Count]:
    json_bytes = sum(len(msgspec.json.encode(city)) for city in made)
    found: list[Row | Count] = []
    for what, name in (("no model", "bare"), ("a model", "declared")):
        with open_store(server.url(name)) as store:
            share = sum(one.size for page in store.list("") for one in page.objects) / json_bytes
        found.append(Count(f"stored bytes, {what}", "the documents as JSON", share, "≤ 0.7", share <= 0.7))
    return found


def _writes(made: Cities) -> Row:
    """Processor time of a block whose frequent paths are found, beside one whose columns are all declared, and none."""
    bodies = [encode_document({"_id": one["id"], **{name: one[name] for name in one if name != "id"}}) for one in made]
    ids = [one["id"] for one in made]
    rows = [BlockRow(identity, 1, 1, body) for identity, body in sorted(zip(ids, bodies, strict=True))]
    declared = frequent.frequent_columns([row.cell for row in rows])
    with still():
        found = min(_processor(lambda: write_block(rows, found=True)) for _ in range(WRITES))
        known = min(_processor(lambda: write_block(rows, declared)) for _ in range(WRITES))
    return Row("a block, columns found", "the same, declared", DOCUMENTS, found, known, at_most=1.3)


def _processor(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
