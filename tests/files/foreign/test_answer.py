"""Whatever documents, queries, strategies and damages: the answer is that of the pure language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.foreign import plain
from tests.files.foreign.worm_bucket import FOLDER, STAMP, Bucket, as_document, checksum_of
from wormdb.errors import InvalidRequestError
from wormdb.query.request import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.query.request import Strategy

TEXTS = st.sampled_from(["a", "b", "ab", "", "5", "true", "é"])
DATES = st.sampled_from(
    ["2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00Z", "2026-01-01T02:00:00.000+02:00", "2026-01-01", "soon", None, 7]
)
SCORES = st.sampled_from([0, 1, 1.0, 1.5, -2, 2**53, None, "1", {"$numberDecimal": "1.5"}])
TAGS = st.lists(TEXTS | st.sampled_from([1, None]), max_size=3) | TEXTS | st.none()
ADDRESSES = st.fixed_dictionaries({}, optional={"city": TEXTS, "zip": st.integers(0, 2)}) | st.none() | TEXTS
EXTRAS = st.sampled_from([1, "x", [1, {"deep": 2}], {"deep": 1}, {"deep": [1, 2]}])
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "name": TEXTS,
    "status": TEXTS | st.just(5),
    "score": SCORES,
    "tags": TAGS,
    "joined": DATES,
    "address": ADDRESSES | st.lists(ADDRESSES, max_size=2),
    "notes": TEXTS,
    "extra": EXTRAS,
}
IDS = st.sampled_from(["a", "b", "c-1", "d.x", "E", "f f", "ü", "9"])
STAMPS = {"createdAt": STAMP, "updatedAt": STAMP}


def _with_id(identity: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"id": identity, **fields, **STAMPS}


ENTITIES = st.builds(_with_id, IDS, st.fixed_dictionaries({}, optional=OPTIONAL))
COLLECTIONS = st.lists(ENTITIES, max_size=6, unique_by=lambda each: each["id"])
SCALARS = TEXTS | st.sampled_from([0, 1, 1.5, None, True])
CONDITIONS = st.one_of(
    SCALARS,
    st.builds(lambda name, value: {name: value}, st.sampled_from(["$ne", "$gt", "$lte", "$contains"]), SCALARS),
    st.builds(lambda values: {"$in": values}, st.lists(SCALARS, min_size=1, max_size=3)),
    st.builds(lambda value: {"$exists": value}, st.booleans()),
)
PATHS = st.sampled_from(["name", "status", "score", "tags", "joined", "address.city", "address", "notes", "extra.deep"])
FILTERS = st.one_of(
    st.dictionaries(PATHS, CONDITIONS, max_size=2),
    st.builds(lambda each: {"status": each}, CONDITIONS),
    st.builds(lambda each: {"tags": each}, CONDITIONS),
    st.builds(lambda ids: {"id": {"$in": ids}}, st.lists(IDS, min_size=1, max_size=2)),
    st.builds(
        lambda one, two: {"$or": [one, two]}, st.dictionaries(PATHS, CONDITIONS), st.dictionaries(PATHS, CONDITIONS)
    ),
)
QUERIES = st.fixed_dictionaries(
    {"filter": FILTERS},
    optional={
        "sort": st.sampled_from(["name", "-score", ["status", "-joined"], "tags", "-id", "extra"]),
        "limit": st.integers(1, 3),
        "offset": st.integers(0, 2),
        "select": st.sampled_from([["name"], ["status", "score"], ["address.city"], ["tags", "notes"], {"notes": 0}]),
    },
)


# --- damages ---


def _edited(bucket: Bucket, key: str, change: Callable[[dict[str, Any]], None]) -> None:
    if bucket.store.probe(FOLDER + key).found is not None:
        value = bucket.read(FOLDER + key)
        change(value)
        bucket.put(FOLDER + key, value)


def _edit_row(body: dict[str, Any]) -> None:
    for row in body["entities"].values():
        row["status"] = "edited"


def _drop_row(body: dict[str, Any]) -> None:
    body["entities"] = dict(list(body["entities"].items())[1:])


def _forget_field(body: dict[str, Any]) -> None:
    for row in list(body["entities"].values())[:1]:
        row.pop("status", None)
    body["checksum"] = checksum_of(body["entities"])


def _wrong_entry(body: dict[str, Any]) -> None:
    body["entries"] = {"a": ["nobody"], **dict(list(body["entries"].items())[1:])}


MANIFEST, INDEX = ".worm.manifest.json", ".worm.index/status.json"
DAMAGES: dict[str, Callable[[Bucket], None]] = {
    "none": lambda _: None,
    "edited row": lambda bucket: _edited(bucket, MANIFEST, _edit_row),
    "missing row": lambda bucket: _edited(bucket, MANIFEST, _drop_row),
    "forgotten field": lambda bucket: _edited(bucket, MANIFEST, _forget_field),
    "wrong count": lambda bucket: _edited(bucket, MANIFEST, lambda body: body.update(count=99)),
    "wrong model": lambda bucket: _edited(bucket, MANIFEST, lambda body: body.update(model="Other")),
    "wrong version": lambda bucket: _edited(bucket, MANIFEST, lambda body: body.update(version=2)),
    "no checksum": lambda bucket: _edited(bucket, MANIFEST, lambda body: body.pop("checksum")),
    "truncated": lambda bucket: bucket.put(FOLDER + MANIFEST, bucket.store.get(FOLDER + MANIFEST).body[:-40]),
    "no manifest": lambda bucket: bucket.store.delete(FOLDER + MANIFEST),
    "no index": lambda bucket: bucket.store.delete(FOLDER + INDEX),
    "wrong entry": lambda bucket: _edited(bucket, INDEX, _wrong_entry),
    "wrong index model": lambda bucket: _edited(bucket, INDEX, lambda body: body.update(model="Other")),
    "truncated index": lambda bucket: bucket.put(FOLDER + INDEX, b'{"version": 1'),
}


def by_strategy(
    customers: Collection[Document], strategy: Strategy | None, written: dict[str, Any], options: dict[str, Any]
) -> list[Any] | None:
    """The rows by one strategy; None if it cannot be used, and says so."""
    try:
        return list(customers.find_all(written, strategy=strategy, **options))
    except InvalidRequestError as error:
        if strategy is None or "not available" not in error.what:
            raise
        return None


def check(customers: Collection[Document], documents: list[dict[str, Any]], query: dict[str, Any]) -> None:
    """Every strategy that can be used, and every kind of answer, against the pure language."""
    options = {name: value for name, value in query.items() if name != "filter"}
    written = query["filter"]
    expected = plain.rows(documents, written, **options)
    for strategy in (None, *STRATEGIES):
        found = by_strategy(customers, strategy, written, options)
        assert found is None or [dict(row) for row in found] == expected, strategy
    assert customers.count(written) == len(plain.matching(documents, written))
    expected_sums = plain.sums(documents, written, group_by="status", count=True, avg="score", max="joined")
    assert (
        customers.aggregate(group_by="status", count=True, avg="score", max="joined", filter=written) == expected_sums
    )
    assert (
        customers.distinct("address.city", written)
        == plain.sums(documents, written, distinct="address.city")["distinct"]
    )


@settings(max_examples=settings().max_examples // 3)
@given(entities=COLLECTIONS, queries=st.lists(QUERIES, min_size=1, max_size=3), damage=st.sampled_from(sorted(DAMAGES)))
def test_every_strategy_gives_the_answer_of_the_pure_language(
    entities: list[dict[str, Any]], queries: list[dict[str, Any]], damage: str
) -> None:
    bucket = Bucket()
    bucket.fill(entities)
    DAMAGES[damage](bucket)
    with bucket.customers() as customers:
        for query in queries:
            check(customers, [as_document(each) for each in entities], query)
    assert {kind for kind, _ in bucket.requests} <= {"get", "list"}


# --- several files, and files that are newer ---


def _part(change: Callable[[dict[str, Any]], None]) -> Callable[[Bucket], None]:
    return lambda bucket: _edited(bucket, ".worm.manifest/partition-1.json", change)


PARTED: dict[str, Callable[[Bucket], None]] = {
    "none": lambda _: None,
    "missing part": lambda bucket: bucket.store.delete(f"{FOLDER}.worm.manifest/partition-1.json"),
    "edited part": _part(_edit_row),
    "wrong count": _part(lambda body: body.update(count=99)),
    "row twice": lambda bucket: bucket.put(
        f"{FOLDER}.worm.manifest/partition-1.json", bucket.store.get(f"{FOLDER}.worm.manifest/partition-0.json").body
    ),
    "wrong total": lambda bucket: _edited(bucket, ".worm.manifest/_meta.json", lambda meta: meta.update(totalCount=99)),
    "fewer parts": lambda bucket: _edited(
        bucket, ".worm.manifest/_meta.json", lambda meta: meta.update(partitionCount=1)
    ),
    "no meta": lambda bucket: bucket.put(f"{FOLDER}.worm.manifest/_meta.json", b"{"),
}


@settings(max_examples=settings().max_examples // 6)
@given(entities=COLLECTIONS, query=QUERIES, damage=st.sampled_from(sorted(PARTED)))
def test_a_manifest_in_several_files(entities: list[dict[str, Any]], query: dict[str, Any], damage: str) -> None:
    bucket = Bucket()
    bucket.fill(entities)
    bucket.store.delete(FOLDER + MANIFEST)
    bucket.partitions(entities, 2)
    PARTED[damage](bucket)
    with bucket.customers() as customers:
        check(customers, [as_document(each) for each in entities], query)


@settings(max_examples=settings().max_examples // 6)
@given(entities=COLLECTIONS, newer=COLLECTIONS, gone=IDS, queries=st.lists(QUERIES, min_size=2, max_size=2))
def test_with_a_listing_no_answer_is_older_than_the_files(
    entities: list[dict[str, Any]], newer: list[dict[str, Any]], gone: str, queries: list[dict[str, Any]]
) -> None:
    """The manifest and the indexes are right in themselves, and of a state before some changes."""
    bucket = Bucket()
    bucket.fill(entities)
    with bucket.customers(foreign_check="listing") as customers:
        check(customers, [as_document(each) for each in entities], queries[0])
        for key in (MANIFEST, INDEX, ".worm.index/tags.json"):
            _edited(bucket, key, lambda body: body.update(lastUpdated=STAMP))
        for each in newer:
            bucket.entity(each)
        bucket.store.delete(f"{FOLDER}{gone}/profile.json")
        there = {each["id"]: each for each in (*entities, *newer) if each["id"] != gone}
        check(customers, [as_document(each) for each in there.values()], queries[1])
