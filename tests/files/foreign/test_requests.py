"""What each strategy costs, to the request; and that nothing is ever written."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.files.foreign.worm_bucket import CUSTOMER, FOLDER, Bucket, checksum_of, customer, schema_of
from wormdb.files.contents.manifest import ManifestMeta, encode_manifest_meta

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = ("get", ".worm.manifest.json")
DOCUMENTS = [customer(number) for number in range(9)]


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """A bucket of 9 customers."""
    made = Bucket()
    made.fill(DOCUMENTS)
    yield made
    assert {kind for kind, _ in made.requests} <= {"get", "list", "head"}


def entities(*numbers: int) -> set[tuple[str, str]]:
    return {("get", f"c{number:03}/profile.json") for number in numbers}


def test_find_all_by_the_manifest_is_one_request_cold_and_warm(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        for _ in range(2):
            found = bucket.cost_of(lambda: customers.find_all({"score": {"$gt": 3}}, select=["name"], sort="-score"))
            assert found == [MANIFEST]


def test_whether_there_is_a_log_is_asked_once(bucket: Bucket) -> None:
    question = {("get", ".worm.db/block0"), ("get", f".worm.db/committed/{1:020}")}
    with bucket.customers(source="auto") as customers:
        assert bucket.cost_of(lambda: customers.find_all(select=["name"]))[2:] == [MANIFEST]
        assert set(bucket.requests[:2]) == question
        assert bucket.cost_of(lambda: customers.find_all(select=["name"])) == [MANIFEST]
        assert bucket.cost_of(lambda: customers.source) == []


def test_by_an_index_it_is_one_for_the_index_and_one_for_each_match(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        cold = bucket.cost_of(lambda: customers.find_all({"status": "active"}))
        assert cold[:2] == [("get", ".worm.index/status.json"), MANIFEST], "a manifest has to confirm it once"
        assert set(cold[2:]) == entities(0, 3, 6)
        warm = bucket.cost_of(lambda: customers.find_all({"status": {"$in": ["active", "nobody"]}}))
        assert warm[0] == ("get", ".worm.index/status.json")
        assert set(warm[1:]) == entities(0, 3, 6)
        assert customers.explain({"status": "active"}).estimated_requests == 4
        assert bucket.cost_of(lambda: customers.find_all({"tags": "new"}))[:2] == [
            ("get", ".worm.index/tags.json"),
            MANIFEST,
        ]


def test_an_index_with_a_checksum_needs_nobody_to_confirm_it(bucket: Bucket) -> None:
    body = bucket.read(f"{FOLDER}.worm.index/status.json")
    bucket.put(f"{FOLDER}.worm.index/status.json", {**body, "checksum": checksum_of(body["entries"])})
    with bucket.customers() as customers:
        found = bucket.cost_of(lambda: customers.find_all({"status": "active"}))
        assert found[0] == ("get", ".worm.index/status.json")
        assert set(found[1:]) == entities(0, 3, 6)


def test_the_manifest_leads_to_the_documents_that_match(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        found = bucket.cost_of(lambda: customers.find_all({"score": {"$gte": 7}}))
        assert found[0] == MANIFEST
        assert set(found[1:]) == entities(7, 8)
        assert len(found) == customers.explain({"score": {"$gte": 7}}).estimated_requests == 3
        assert len(bucket.cost_of(lambda: customers.find_all(sort="-score", limit=2))) == 3


def test_a_full_scan_is_a_listing_and_every_document(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        found = bucket.cost_of(lambda: customers.find_all({"score": 1}, strategy="full_scan"))
        assert found[0] == ("list", "")
        assert set(found[1:]) == entities(*range(9))
        assert len(found) == customers.explain(strategy="full_scan").estimated_requests == 10


def test_a_limit_by_id_reads_no_further_than_it_needs(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        assert len(bucket.cost_of(lambda: customers.find_all(limit=2, strategy="full_scan"))) == 3


def test_one_document_by_its_id(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        assert bucket.cost_of(lambda: customers.find_by_id("c003")) == list(entities(3))
        assert bucket.cost_of(lambda: customers.find_one({"id": "c003"})) == list(entities(3))
        assert bucket.cost_of(lambda: customers.find_all({"id": {"$in": ["c003", "c004"]}}, sort="name")) in (
            sorted(entities(3, 4)),
            sorted(entities(3, 4), reverse=True),
        )
        assert bucket.cost_of(lambda: customers.exists("c003")) == [("head", "c003/profile.json")]
        assert customers.find_by_id("nobody") is None
        assert not customers.exists("nobody")
        assert "c004" in customers


def test_numbers_come_from_the_manifest_alone(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        for work in (
            customers.count,
            lambda: customers.count({"status": "active"}),
            lambda: customers.aggregate(group_by="status", count=True, avg="score"),
            lambda: customers.distinct("tags"),
            lambda: customers.to_arrow(["id", "score"]),
        ):
            assert bucket.cost_of(work) == [MANIFEST]


def test_without_a_manifest_all_are_counted_by_a_listing(bucket: Bucket) -> None:
    bucket.store.delete(f"{FOLDER}.worm.manifest.json")
    with bucket.customers() as customers:
        assert customers.count() == 9
        assert [kind for kind, _ in bucket.cost_of(customers.count)] == ["get", "get", "list"]


def test_an_unchanged_manifest_is_not_decoded_again(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with bucket.customers() as customers:
        customers.find_all(select=["name"])
        monkeypatch.setattr("wormdb.files.foreign.manifest._file_of", pytest.fail)
        assert len(customers.find_all(select=["name"])) == 9
        monkeypatch.undo()
        bucket.manifest([*DOCUMENTS, customer(9)])
        assert len(customers.find_all(select=["name"])) == 10


def test_invalidating_forgets_everything(bucket: Bucket) -> None:
    with bucket.customers(source="auto") as customers:
        customers.find_all({"status": "active"})
        assert bucket.cost_of(customers.invalidate_manifest) == []
        assert len(bucket.cost_of(lambda: customers.find_all({"status": "active"}))) == 2 + 2 + 3


# --- several files ---


def test_a_partitioned_manifest_is_one_for_the_meta_and_one_for_each_part(bucket: Bucket) -> None:
    bucket.store.delete(f"{FOLDER}.worm.manifest.json")
    bucket.partitions(DOCUMENTS, 3)
    with bucket.customers() as customers:
        assert len(customers.find_all({"score": {"$gt": 3}}, select=["name"])) == 5
        found = bucket.cost_of(lambda: customers.find_all({"score": {"$gt": 3}}, select=["name"]))
        assert found[0] == ("get", ".worm.manifest/_meta.json")
        assert set(found[1:]) == {("get", f".worm.manifest/partition-{number}.json") for number in range(3)}
        assert customers.explain(select=["name"]).estimated_requests == 4
        assert customers.get_manifest_status().partitioned


def test_by_id_a_manifest_with_ranges_is_two_requests(bucket: Bucket) -> None:
    bucket.store.delete(f"{FOLDER}.worm.manifest.json")
    checksums = []
    for number, part in enumerate((DOCUMENTS[:5], DOCUMENTS[5:])):
        key = f".worm.manifest/partition-{number}.json"
        bucket.manifest(part, key)
        checksums.append(bucket.read(FOLDER + key)["checksum"])
    ranges = (("", "c005"), ("c005", None))
    meta = ManifestMeta(
        9, ranges, model="Customer", fields=tuple(CUSTOMER["manifest"]["fields"]), checksums=tuple(checksums)
    )
    bucket.put(f"{FOLDER}.worm.manifest/_meta.json", encode_manifest_meta(meta))
    with bucket.customers() as customers:
        customers.count()
        found = bucket.cost_of(lambda: customers.find_one({"id": "c006"}, select=["name"]))
        assert found == [("get", ".worm.manifest/_meta.json"), ("get", ".worm.manifest/partition-1.json")]
        explained = customers.explain({"id": "c006"}, select=["name"])
        assert (explained.strategy, explained.estimated_requests) == ("manifest_scan", 2)
        assert customers.find_one({"id": "c006"}, select=["name"]) == {"id": "c006", "name": "Name 6"}


# --- what is there ---


def test_a_listing_is_taken_once_for_a_query(bucket: Bucket) -> None:
    with bucket.customers(foreign_check="listing") as customers:
        assert bucket.cost_of(lambda: customers.find_all(select=["name"])) == [("list", ""), MANIFEST]
        bucket.store.delete(f"{FOLDER}.worm.manifest.json")
        found = bucket.cost_of(lambda: customers.find_all(select=["name"]))
        assert [one for one in found if one[0] == "list"] == [("list", "")]


def test_keys_of_other_layouts_and_programs_are_passed_over() -> None:
    bucket = Bucket()
    bucket.fill(DOCUMENTS[:2])
    others: dict[str, Any] = {
        ".oplog/c000/profile.json": {},
        ".worm.trash/c009/profile.json": customer(9),
        "c000/.snapshots/profile.json": {},
        "c000/picture.json": {},
        "c000/more/profile.json": {},
        "gone/.oplog/0001.json": {},
        "profile.json": {},
    }
    for key, value in others.items():
        bucket.put(FOLDER + key, value)
    with bucket.customers() as customers:
        assert [each.id for each in customers.find_all(strategy="full_scan")] == ["c000", "c001"]


def test_a_collection_below_an_outer_segment() -> None:
    model = {**CUSTOMER, "path": "#org/(tenant:slug)/@customers/(id:string)/[profile].json", "indexes": {}}
    bucket = Bucket()
    for tenant in ("acme", "other"):
        bucket.put(f"org/{tenant}/customers/a/profile.json", {"id": "a", "name": tenant})
    with bucket.open(schema=schema_of(model)) as database:
        assert [dict(each) for each in database.model("Customer", tenant="acme").find_all()] == [
            {"id": "a", "name": "acme"}
        ]


def test_a_singleton() -> None:
    bucket = Bucket()
    bucket.put("org/settings/data.json", {"theme": "dark"})
    settings = {"path": "#org/@settings/[data].json", "mode": "readonly"}
    with bucket.open(schema=schema_of(Settings=settings)) as database:
        model = database.model("Settings")
        found = model.find_by_id("whatever")
        assert found is not None
        assert found["theme"] == "dark"
        assert model.find_all() == [found]
        assert model.count() == 1
        assert model.exists(None)


def test_json_of_a_manifest_may_be_written_in_any_way(bucket: Bucket) -> None:
    """Indented, in the order of insertion, with a digest of the compact text: as JSON.stringify gives it."""
    key = f"{FOLDER}.worm.manifest.json"
    body = bucket.read(key)
    rows = dict(reversed(body["entities"].items()))
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    bucket.put(key, {**body, "entities": rows, "checksum": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"})
    with bucket.customers() as customers:
        assert bucket.cost_of(lambda: customers.find_all(select=["name"])) == [MANIFEST]
        assert [row["id"] for row in customers.find_all(select=["name"], limit=2)] == ["c000", "c001"]
