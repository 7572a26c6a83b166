from __future__ import annotations

import hashlib
import json as plain_json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.models import CUSTOMER, model_of
from tests.files.table_contents import contents_of
from wormdb.engine.tree.definition import Index
from wormdb.errors import CorruptionError
from wormdb.files.contents.index import (
    IndexFile,
    IndexMeta,
    decode_index_file,
    decode_index_meta,
    encode_index_file,
    encode_index_meta,
    index_texts,
)
from wormdb.files.contents.manifest import (
    ManifestFile,
    ManifestMeta,
    decode_manifest,
    decode_manifest_meta,
    encode_manifest,
    encode_manifest_meta,
)
from wormdb.files.contents.sentinel import (
    BucketSentinel,
    CollectionSentinel,
    bucket_sentinel,
    collection_sentinel,
    read_bucket_sentinel,
    read_collection_sentinel,
)
from wormdb.format import json
from wormdb.testing.strategies import strings

MODEL = model_of(CUSTOMER)
NOON = datetime(2026, 2, 24, 12, tzinfo=UTC)
INDEXES = [Index.of(name, index) for name, index in MODEL.indexes.items()]
cells = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | strings() | st.sampled_from([0.5, 1e300, -2.25]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings(), inner, max_size=3),
    max_leaves=6,
)
rows = st.dictionaries(strings(), st.dictionaries(strings(), cells, max_size=3), max_size=5)


def manifest(entities: dict[str, Any], **changes: Any) -> ManifestFile:
    return ManifestFile("Customer", len(entities), NOON, "", entities, log=7, fields=MODEL.manifest_fields, **changes)


# --- manifest ---


@settings(max_examples=30)
@given(rows, st.none() | st.integers(0, 15))
def test_a_manifest_comes_back(entities: dict[str, Any], partition: int | None) -> None:
    made = manifest(entities, partition=partition)
    body = encode_manifest(made)
    found = decode_manifest(body, key="k")
    assert replace(found, checksum="", content=b"") == made
    assert found.fault(MODEL) is None
    assert encode_manifest(replace(made, entities=dict(reversed(entities.items())))) == body


@settings(max_examples=30)
@given(rows)
def test_the_checksum_is_over_canonical_json(entities: dict[str, Any]) -> None:
    read = plain_json.loads(encode_manifest(manifest(entities)))
    text = plain_json.dumps(read["entities"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    plain = text.replace("1e+300", "1e300")
    assert read["checksum"] == f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def test_the_checksum_holds_for_any_way_to_write_the_same_entities() -> None:
    body = encode_manifest(manifest({"b": {"name": "x", "email": "é"}, "a": {}}))
    read = plain_json.loads(body)
    read["entities"] = {"b": {"email": "é", "name": "x"}, "a": {}}
    assert decode_manifest(plain_json.dumps(read, indent=4).encode(), key="k").fault(MODEL) is None


@settings(max_examples=30)
@given(rows, st.data())
def test_any_edit_of_the_entities_is_seen(entities: dict[str, Any], data: st.DataObject) -> None:
    body = encode_manifest(manifest(entities))
    start = body.index(b'"entities"')
    place = data.draw(st.integers(start, len(body) - 2))
    other = data.draw(st.integers(32, 126))
    edited = body[:place] + bytes([other]) + body[place + 1 :]
    try:
        found = decode_manifest(edited, key="k")
    except CorruptionError:
        return
    assert found.fault(MODEL) is not None or found.entities == entities


def test_why_a_manifest_is_not_used() -> None:
    good = decode_manifest(encode_manifest(manifest({"a": {}})), key="k")
    assert good.fault(MODEL) is None
    assert good.fault(model_of(CUSTOMER, "Invoice")) == "it is of model Customer"
    assert replace(good, count=2).fault(MODEL) == "it says that it has 2 entities, and has 1"
    assert replace(good, fields=("name",)).fault(MODEL) == "its fields are name, not those of the schema"
    assert replace(good, fields=None).fault(MODEL) is None
    assert replace(good, checksum="sha256:00").fault(MODEL) == "its checksum is wrong"
    assert replace(good, checksum="").fault(MODEL) == "it has no checksum"


def test_the_manifest_of_the_pages_is_read() -> None:
    body = b"""{ "version": 1, "model": "Customer", "count": 1, "lastUpdated": "2026-02-24T14:30:00.000Z",
        "checksum": "sha256:abc123...", "entities": { "a1b2c3d4-...": { "name": "Acme Corp", "tags": ["vip"] } } }"""
    found = decode_manifest(body, key="k")
    assert found.entities == {"a1b2c3d4-...": {"name": "Acme Corp", "tags": ["vip"]}}
    assert (found.count, found.log, found.fields) == (1, None, None)
    assert found.fault(MODEL) == "its checksum is wrong"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"version": 2, "model": "C", "count": 0, "entities": {}}',
        b'{"version": 1, "model": "C", "count": -1, "entities": {}}',
        b'{"version": 1, "model": "C", "count": 0, "entities": []}',
        b'{"version": 1, "model": "C", "count": 1, "entities": {"a": 5}}',
        b'{"version": 1, "model": "C", "count": 0}',
    ],
)
def test_what_is_no_manifest_names_the_key(body: bytes) -> None:
    with pytest.raises(CorruptionError, match=r"manifest\.json"):
        decode_manifest(body, key="x/.worm.manifest.json")


def test_partitions_are_found_by_id() -> None:
    meta = ManifestMeta(
        total_count=5,
        ranges=(("", "g"), ("g", "p"), ("p", None)),
        model="Customer",
        fields=("name",),
        last_updated=NOON,
        log=9,
        checksums=("sha256:1", "sha256:2", "sha256:3"),
    )
    found = decode_manifest_meta(encode_manifest_meta(meta), key="k")
    assert found == replace(meta, partition_count=3)
    assert [found.partition_of(text) for text in ("%i5", "f", "g", "ozz", "p", "zz")] == [0, 0, 1, 1, 2, 2]


def test_the_meta_of_the_pages_is_read() -> None:
    found = decode_manifest_meta(b'{ "partitionCount": 4, "partitionBy": "id_prefix", "totalCount": 42000 }', key="k")
    assert (found.partition_count, found.total_count, found.ranges) == (4, 42000, ())
    assert found.partition_of("a") is None


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"version": 1, "partitionCount": 2, "totalCount": 1, "ranges": [["", null]]}']
)
def test_what_is_no_meta_names_the_key(body: bytes) -> None:
    with pytest.raises(CorruptionError, match="_meta"):
        decode_manifest_meta(body, key="_meta.json")
    with pytest.raises(CorruptionError, match="_meta"):
        decode_index_meta(body, key="_meta.json")


# --- index ---


@settings(max_examples=30)
@given(
    st.dictionaries(
        strings(), st.lists(strings(), min_size=1, max_size=3, unique=True).map(lambda ids: tuple(sorted(ids)))
    ),
    st.booleans(),
    st.sampled_from([("status",), ("a", "b")]),
)
def test_an_index_comes_back(entries: dict[str, tuple[str, ...]], unique: bool, fields: tuple[str, ...]) -> None:
    made = IndexFile("Customer", fields, "standard", unique, NOON, entries, log=3)
    found = decode_index_file(encode_index_file(made), key="k")
    assert replace(found, checksum="", content=b"") == made
    assert found.fault(MODEL, fields=fields) is None
    if entries:
        value = next(iter(entries))
        edited = replace(found, entries={**entries, value: (*entries[value], "zz")}, content=b"")
        assert edited.fault(MODEL) == "its checksum is wrong"
    assert found.fault(model_of(CUSTOMER, "Other")) == "it is of model Customer"
    assert found.fault(MODEL, fields=["x"]) == f"it is over {', '.join(fields)}"


def test_the_indexes_of_the_pages_are_read() -> None:
    standard = b"""{ "version": 1, "model": "Customer", "field": "status", "type": "standard", "unique": false,
        "lastUpdated": "2026-02-24T14:30:00.000Z", "entries": { "active": ["a1", "e5"], "churned": ["q7"] } }"""
    unique = b"""{ "version": 1, "model": "Customer", "field": "email", "type": "standard", "unique": true,
        "lastUpdated": "2026-02-24T14:30:00.000Z", "entries": { "hi@acme.com": "a1" } }"""
    assert decode_index_file(standard, key="k").entries == {"active": ("a1", "e5"), "churned": ("q7",)}
    found = decode_index_file(unique, key="k")
    assert (found.entries, found.fields, found.unique) == ({"hi@acme.com": ("a1",)}, ("email",), True)
    assert found.fault(MODEL) is None
    assert decode_index_file(encode_index_file(found), key="k").entries == found.entries
    assert plain_json.loads(encode_index_file(found))["entries"] == {"hi@acme.com": "a1"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"version": 2, "model": "C", "field": "a", "entries": {}}',
        b'{"version": 1, "model": "C", "field": "a", "entries": {"x": 5}}',
        b'{"version": 1, "model": "C", "field": "a", "type": "other", "entries": {}}',
    ],
)
def test_what_is_no_index_names_the_key(body: bytes) -> None:
    with pytest.raises(CorruptionError, match=r"status\.json"):
        decode_index_file(body, key="x/status.json")


def test_partitions_are_found_by_value() -> None:
    ranges = ((("", ""), ("active", "m")), (("active", "m"), ("active", "x")), (("active", "x"), None))
    meta = IndexMeta("Customer", ("status",), "standard", False, 9, ranges, NOON, 4, ("a", "b", "c"))
    found = decode_index_meta(encode_index_meta(meta), key="k")
    assert found == meta
    assert found.partitions_of("aaa") == [0]
    assert found.partitions_of("active") == [0, 1, 2]
    assert found.partitions_of("churned") == [2]


def test_what_a_document_has_in_indexes() -> None:
    document = {"_id": "a", "status": "true", "tags": ["vip", "vip", "new"], "born": NOON, "address": {"city": "Bern"}}
    texts = {index.name: index_texts(index, json.encode(document), MODEL) for index in INDEXES}
    assert texts == {
        "byStatus": ['"true"'],
        "byEmail": [],
        "byTags": ["new", "vip"],
        "byCity": ['["Bern","2026-02-24T12:00:00.000Z"]'],
    }
    stamped = Index("byCreated", ("createdAt",))
    assert index_texts(stamped, json.encode({"_id": 1, "createdAt": NOON}), MODEL) == ["2026-02-24T12:00:00.000Z"]
    visits = Index("byVisit", ("visits",))
    assert index_texts(visits, json.encode({"_id": 1, "visits": [NOON]}), MODEL) == ["2026-02-24T12:00:00.000Z"]


def test_what_tables_hold() -> None:
    documents = [
        ("b", {"_id": "b", "name": "B", "email": "b@x", "tags": ["t"]}),
        (5, {"_id": 5, "tags": ["t"], "x": 1}),
    ]
    stored = [(identity, json.encode(document)) for identity, document in documents]
    found = contents_of(stored, MODEL, INDEXES)
    assert found.entities == {"b": {"name": "B", "email": "b@x", "tags": ["t"]}, "%i5": {"tags": ["t"]}}
    assert found.entries[("tags",)] == {"t": ["%i5", "b"]}
    assert found.entries[("email",)] == {"b@x": ["b"]}
    assert found.count == 2
    assert contents_of(stored, model_of(CUSTOMER, manifest={}), []).entities == {}


# --- sentinels ---


def test_the_sentinel_of_a_collection() -> None:
    body = collection_sentinel(MODEL, 1423, NOON.replace(microsecond=999_000), 7)
    assert read_collection_sentinel(body, key="k") == CollectionSentinel(
        "Customer",
        "any",
        "readwrite",
        True,
        True,
        1423,
        NOON,
        7,
    )
    seed = b"""{ "model": "Customer", "idType": "uuid", "mode": "readwrite", "oplog": true, "softDelete": true,
        "count": 1423, "lastModified": "2026-02-24T14:30:00Z" }"""
    assert read_collection_sentinel(seed, key="k").log is None


def test_the_sentinel_of_a_bucket() -> None:
    storage = {"layout": "root", "snapshots": "inline"}
    body = bucket_sentinel(
        "my-bucket", ["Invoice", "Customer"], storage, "1.0", {"archive/customers/": "archive/customers/"}
    )
    assert read_bucket_sentinel(body, key="k") == BucketSentinel(
        "1.0",
        "my-bucket",
        ("Customer", "Invoice"),
        {"layout": "root", "snapshots": "inline"},
        {"archive/customers/": "archive/customers/"},
    )
    apart = bucket_sentinel("b", [], storage, "1.0", places={"x/": {"layout": "inline"}})
    assert read_bucket_sentinel(apart, key="k").places == {"x/": {"layout": "inline"}}
    assert "names" not in plain_json.loads(bucket_sentinel("b", [], storage, "1.0"))


@pytest.mark.parametrize("body", [b"", b"5", b'{"models": 5, "count": "x"}'])
def test_what_is_no_sentinel_names_the_key(body: bytes) -> None:
    with pytest.raises(CorruptionError, match=r"\.worm"):
        read_bucket_sentinel(body, key=".worm")
    with pytest.raises(CorruptionError, match=r"\.worm"):
        read_collection_sentinel(body, key=".worm")
