"""Stale, damaged and edited manifests and indexes: never a wrong answer, and explain says why they were not used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.files.foreign.test_answer import DAMAGES
from tests.files.foreign.worm_bucket import FOLDER, STAMP, Bucket, checksum_of, customer
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

DOCUMENTS = [customer(number) for number in range(6)]
MANIFEST, INDEX = f"{FOLDER}.worm.manifest.json", f"{FOLDER}.worm.index/status.json"
IDS = [each["id"] for each in DOCUMENTS]


@pytest.fixture
def bucket() -> Bucket:
    """A bucket of 6 customers."""
    made = Bucket()
    made.fill(DOCUMENTS)
    return made


def ids(rows: list[Any]) -> list[str]:
    return [row["id"] for row in rows]


REASONS = {
    "edited row": "manifest is stale: its checksum is wrong",
    "missing row": "manifest is stale: it says that it has 6 entities, and has 5",
    "wrong count": "manifest is stale: it says that it has 99 entities, and has 6",
    "wrong model": "manifest is stale: it is of model Other",
    "wrong version": "manifest is stale: it is of version 2, not 1",
    "no checksum": "manifest is stale: it has no checksum",
    "truncated": "manifest is stale: it cannot be read: ",
    "no manifest": "no manifest",
    "forgotten field": "manifest lacks: status",
}


@pytest.mark.parametrize("damage", REASONS)
def test_a_manifest_that_is_not_right_is_not_used(bucket: Bucket, damage: str) -> None:
    DAMAGES[damage](bucket)
    bucket.store.delete(INDEX)
    with bucket.customers() as customers:
        explained = customers.explain({"status": "active"}, select=["status"])
        assert explained.strategy == "full_scan"
        assert explained.reason.startswith(REASONS[damage])
        assert {each.strategy: each.reason for each in explained.rejected}[
            "index_lookup"
        ] == "index byStatus has no file"
        assert customers.find_all({"status": "active"}, select=["status"]) == [
            {"id": one, "status": "active"} for one in ("c000", "c003")
        ]
        with pytest.raises(InvalidRequestError, match="Strategy 'manifest_scan' not available") as caught:
            customers.find_all({"status": "active"}, select=["status"], strategy="manifest_scan")
        assert caught.value.reason.startswith(REASONS[damage])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("wrong entry", "index byStatus is not used: it has no checksum, and the manifest has other values"),
        ("wrong index model", "index byStatus is stale: it is of model Other"),
        ("truncated index", "index byStatus is stale: it must be an index"),
        ("no checksum", "index byStatus is not used: it has no checksum, and manifest is stale: it has no checksum"),
        ("forgotten field", "index byStatus is not used: it has no checksum, and manifest lacks: status"),
    ],
)
def test_an_index_that_is_not_right_is_not_used(bucket: Bucket, damage: str, reason: str) -> None:
    DAMAGES[damage](bucket)
    with bucket.customers() as customers:
        explained = customers.explain({"status": "active"})
        assert explained.strategy != "index_lookup"
        assert {each.strategy: each.reason for each in explained.rejected}["index_lookup"].startswith(reason)
        assert ids(customers.find_all({"status": "active"})) == ["c000", "c003"]
        summary = {each.name: each for each in customers.indexes()}["byStatus"]
        assert summary.state == "failed"
        assert (summary.reason or "").startswith(reason)


def test_an_index_with_a_wrong_checksum_is_not_used(bucket: Bucket) -> None:
    body = bucket.read(INDEX)
    bucket.put(INDEX, {**body, "checksum": checksum_of({})})
    with bucket.customers() as customers:
        assert "its checksum is wrong" in str(customers.explain({"status": "active"}).rejected)


def _deleted(bucket: Bucket) -> None:
    bucket.store.delete(f"{FOLDER}c003/profile.json")


def _changed(bucket: Bucket) -> None:
    bucket.entity(customer(3, status="churned", score=50))


STALE: dict[str, Callable[[Bucket], None]] = {"deleted": _deleted, "changed": _changed}


@pytest.mark.parametrize("change", STALE)
def test_a_document_that_contradicts_starts_the_query_again(bucket: Bucket, change: str) -> None:
    """The manifest and the index are right in themselves, and older than the files."""
    with bucket.customers() as customers:
        assert ids(customers.find_all({"status": "active"})) == ["c000", "c003"]
        STALE[change](bucket)
        for written in ({"status": "active"}, {"score": {"$lte": 3}}):
            found = customers.find_all(written)
            assert ids(found) == (["c000"] if "status" in written else ["c000", "c001", "c002"])
        explained = customers.explain({"status": "active"}, analyze=True)
        assert explained.strategy == "full_scan"
        assert explained.reason.startswith("index byStatus is stale: ")
        explained = customers.explain({"score": {"$lte": 3}}, analyze=True)
        assert explained.reason.startswith("manifest is stale: ")
        with pytest.raises(InvalidRequestError, match="not available: manifest is stale"):
            customers.find_all({"score": {"$lte": 3}}, strategy="manifest_fetch")


def _add(bucket: Bucket) -> None:
    bucket.entity(customer(9, status="active"))


def _old(bucket: Bucket) -> None:
    for key in (MANIFEST, INDEX):
        bucket.put(key, {**bucket.read(key), "lastUpdated": STAMP})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_add, "manifest is stale: its ids are not those of the files that are there"),
        (_deleted, "manifest is stale: its ids are not those of the files that are there"),
        (_old, "manifest is stale: a file of a document is newer"),
        (
            lambda bucket: bucket.put(MANIFEST, {**bucket.read(MANIFEST), "lastUpdated": ""}),
            "manifest is stale: it does not say when",
        ),
    ],
)
def test_with_a_listing_whatever_is_newer_is_seen(
    bucket: Bucket, change: Callable[[Bucket], None], reason: str
) -> None:
    def answer(customers: Collection[Document]) -> list[str]:
        return ids(customers.find_all({"status": "active"}, select=["status"]))

    change(bucket)
    with bucket.customers(foreign_check="listing") as customers:
        there = {
            key.split("/")[2]
            for page in bucket.store.list(FOLDER)
            for key in (one.key for one in page.objects)
            if key.endswith("/profile.json")
        }
        expected = sorted(
            each["id"]
            for each in (*DOCUMENTS, customer(9, status="active"))
            if each["status"] == "active" and each["id"] in there
        )
        assert answer(customers) == expected
        explained = customers.explain({"score": 1}, select=["status"])
        assert explained.strategy == "full_scan"
        assert explained.reason.startswith(reason)


def test_an_old_index_is_seen_with_a_listing(bucket: Bucket) -> None:
    body = bucket.read(INDEX)
    bucket.put(INDEX, {**body, "lastUpdated": STAMP, "checksum": checksum_of(body["entries"])})
    with bucket.customers(foreign_check="listing") as customers:
        assert "a file of a document is newer" in str(customers.explain({"status": "active"}).rejected)


@pytest.mark.parametrize("damage", ["missing", "edited", "foreign id"])
def test_a_partition_that_is_not_right_spoils_the_manifest(bucket: Bucket, damage: str) -> None:
    bucket.store.delete(MANIFEST)
    bucket.store.delete(INDEX)
    bucket.partitions(DOCUMENTS, 2)
    part = f"{FOLDER}.worm.manifest/partition-1.json"
    if damage == "missing":
        bucket.store.delete(part)
    elif damage == "edited":
        body = bucket.read(part)
        next(iter(body["entities"].values()))["status"] = "active"
        bucket.put(part, body)
    else:
        bucket.manifest([*DOCUMENTS[1::2], DOCUMENTS[0]], ".worm.manifest/partition-1.json")
    with bucket.customers() as customers:
        explained = customers.explain({"status": "active"}, select=["status"])
        assert explained.strategy == "full_scan"
        assert explained.reason.startswith("manifest is stale: ")
        assert ids(customers.find_all({"status": "active"}, select=["status"])) == ["c000", "c003"]
        status = customers.get_manifest_status()
        assert (status.exists, status.fresh, status.count) == (True, False, 6)


def test_rows_that_no_entity_could_have_are_no_rows(bucket: Bucket) -> None:
    body = bucket.read(MANIFEST)
    body["entities"]["c001"]["score"] = {"$date": "never"}
    bucket.put(MANIFEST, {**body, "checksum": checksum_of(body["entities"])})
    with bucket.customers() as customers:
        assert ids(customers.find_all({"score": 1}, select=["name"])) == ["c001"]
        assert "cannot be read" in customers.explain({"score": 1}, select=["name"]).reason
        assert customers.to_arrow(["id", "score"]).num_rows == 6


def test_whole_documents_are_never_rows_of_the_manifest(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        assert customers.explain().strategy == "manifest_fetch"
        assert customers.explain().reason == "manifest narrows, documents needed for: all fields"
        assert [each["notes"] for each in customers.find_all()] == [each["notes"] for each in DOCUMENTS]


def test_the_manifest_goes_first_only_where_it_needs_no_documents(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        assert customers.explain({"status": "active"}, select=["name"]).strategy == "manifest_scan"
        assert customers.explain({"status": "active"}).reason == "index byStatus covers filter"
        assert customers.explain({"status": "active", "score": 3}).strategy == "manifest_fetch"
        bucket.store.delete(MANIFEST)
        narrowing = customers.explain({"status": "active", "score": 3})
        assert narrowing.strategy == "index_lookup"
        assert narrowing.reason == "index byStatus narrows, documents are tested for: score"
        assert customers.explain({"status": "active"}, select=["name"]).strategy == "index_lookup"


def test_explain_tells_what_the_seed_does(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        found = customers.explain({"score": {"$gt": 1}}, select=["name", "status"]).to_dict()
    assert {name: found[name] for name in ("strategy", "reason", "estimatedRequests", "manifestFields")} == {
        "strategy": "manifest_scan",
        "reason": "manifest has all needed fields",
        "estimatedRequests": 1,
        "manifestFields": ["address", "createdAt", "joined", "name", "score", "status", "tags", "updatedAt"],
    }
