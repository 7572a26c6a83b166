"""Files that we wrote ourselves, read as if they were somebody else's: the engine, the reader of files and a stranger
give the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.files.foreign.test_answer import ENTITIES, QUERIES, by_strategy
from tests.files.foreign.tiny_reader import TinyReader
from tests.files.foreign.worm_bucket import CUSTOMER, FOLDER, Bucket, customer, schema_of
from wormdb.query.request import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTS = [customer(number, status=("active", "5")[number % 2]) for number in range(9)]
WHOLE = {**CUSTOMER["manifest"]}
PARTED = {**WHOLE, "partitionThreshold": 2, "maxPartitions": 4}


def written(bucket: Bucket, documents: list[dict[str, Any]], manifest: dict[str, Any]) -> dict[str, Any]:
    """The schema of a bucket in which we keep these documents, and their files."""
    model = {**CUSTOMER, "fields": {}, "refs": {}, "files": True, "manifest": manifest, "mode": "readwrite"}
    schema = schema_of(model)
    with wormdb.connect(bucket.url, schema=schema, settings=wormdb.Settings(files_seconds=0)) as database:
        customers = database.model("Customer")
        customers.insert_many(documents)
        customers.save({**documents[0], "name": "Changed"})
        database.forward()
    return schema


@pytest.mark.parametrize("manifest", [WHOLE, PARTED], ids=["one file", "several files"])
def test_a_stranger_reads_what_the_engine_has(manifest: dict[str, Any]) -> None:
    bucket = Bucket()
    schema = written(bucket, DOCUMENTS, manifest)
    stranger = TinyReader(bucket.store, FOLDER, "profile.json")
    with wormdb.connect(bucket.url, schema=schema) as database:
        customers = database.model("Customer")
        for path, value in (("status", "active"), ("tags", "vip")):
            assert stranger.ids(path, value) == [each.id for each in customers.find_all({path: value})]
        entities, rows = stranger.entities(), stranger.rows()
        assert [each["id"] for each in entities] == list(rows) == [each.id for each in customers.find_all()]
        for entity in entities:
            row = {
                name: value for name, value in entity.items() if name in (*WHOLE["fields"], "createdAt", "updatedAt")
            }
            assert rows[entity["id"]] == row
        tests: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
            ({"score": {"$gt": 3}}, lambda each: each["score"] > 3),
            ({"name": "Changed"}, lambda each: each["name"] == "Changed"),
            ({"address.city": "Oslo"}, lambda each: each["address"]["city"] == "Oslo"),
        ]
        for asked, holds in tests:
            expected = [each.id for each in customers.find_all(asked)]
            assert [one for one, row in rows.items() if holds(row)] == expected
            assert [each["id"] for each in entities if holds(each)] == expected


@pytest.mark.parametrize("manifest", [WHOLE, PARTED], ids=["one file", "several files"])
def test_every_file_is_used(manifest: dict[str, Any]) -> None:
    bucket = Bucket()
    schema = written(bucket, DOCUMENTS, manifest)
    readonly = schema_of({**schema["models"]["Customer"], "mode": "readonly"})
    with bucket.customers(schema=readonly) as customers:
        assert customers.explain(select=["name"]).strategy == "manifest_scan"
        assert customers.explain({"status": "5"}).strategy == "index_lookup"
        assert len(customers.find_all({"status": "5"})) == 4
        assert {each.state for each in customers.indexes()} == {"ready"}
        assert customers.describe_index("byStatus").entries == 9
        status = customers.get_manifest_status()
        assert (status.fresh, status.count, status.partitioned) == (True, 9, manifest is PARTED)


@settings(max_examples=settings().max_examples // 6)
@given(
    documents=st.lists(ENTITIES, min_size=1, max_size=6, unique_by=lambda each: each["id"]),
    queries=st.lists(QUERIES, min_size=1, max_size=2),
    is_parted=st.booleans(),
)
def test_the_reader_of_files_agrees_with_the_engine(
    documents: list[dict[str, Any]], queries: list[dict[str, Any]], is_parted: bool
) -> None:
    bucket = Bucket()
    schema = written(bucket, [{**each, "score": 1} for each in documents], PARTED if is_parted else WHOLE)
    readonly = schema_of({**schema["models"]["Customer"], "mode": "readonly"})
    with wormdb.connect(bucket.url, schema=schema) as database, bucket.customers(schema=readonly) as customers:
        for query in queries:
            asked, options = query["filter"], {name: value for name, value in query.items() if name != "filter"}
            expected = database.model("Customer").find_all(asked, **options)
            for strategy in (None, *STRATEGIES):
                found = by_strategy(customers, strategy, asked, options)
                assert found is None or found == expected


@pytest.mark.parametrize("asked", [{"address": {"zip": 1, "city": "Oslo"}}, {"address": {"$lt": {"zip": 2}}}])
def test_documents_in_a_manifest_are_compared_as_they_are_in_their_files(asked: dict[str, Any]) -> None:
    bucket = Bucket()
    schema = written(bucket, [{**customer(1), "address": {"zip": 1, "city": "Oslo"}}, customer(2)], WHOLE)
    readonly = schema_of({**schema["models"]["Customer"], "mode": "readonly"})
    with wormdb.connect(bucket.url, schema=schema) as database, bucket.customers(schema=readonly) as customers:
        expected = database.model("Customer").find_all(asked)
        assert len(expected) == 1
        assert customers.find_all(asked) == expected
        assert customers.explain(asked).reason == "manifest has documents with sorted names in: address"
        assert customers.explain({"address.city": "Oslo"}, select=["name"]).strategy == "manifest_scan"
