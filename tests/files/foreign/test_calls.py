"""Every call on a collection that another program keeps: those that read, and those that say what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.files.foreign.worm_bucket import CUSTOMER, FOLDER, Bucket, customer, schema_of
from wormdb.errors import InvalidRequestError, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

DOCUMENTS = [customer(number) for number in range(7)]


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """A bucket of 7 customers, as it was when it was filled."""
    made = Bucket()
    made.fill(DOCUMENTS)
    before = contents(made)
    yield made
    assert contents(made) == before


def contents(bucket: Bucket) -> dict[str, bytes]:
    return {info.key: bucket.store.get(info.key).body for page in bucket.store.list() for info in page.objects}


CHANGES: dict[str, Callable[[Collection[Document]], object]] = {
    "insert": lambda each: each.insert({"id": "x"}),
    "insert_many": lambda each: each.insert_many([{"id": "x"}]),
    "save": lambda each: each.save({"id": "x"}),
    "delete": lambda each: each.delete("c001"),
    "modify": lambda each: each.modify("c001", lambda found: found),
    "batch": lambda each: each.batch().insert({"id": "x"}).flush(),
    "update_one": lambda each: each.update_one({"id": "c001"}, {"$set": {"name": "x"}}),
    "delete_many": lambda each: each.delete_many({}),
    "rollback": lambda each: each.rollback("c001", to_seq=1),
    "snapshot": lambda each: each.snapshot("c001"),
    "restore": lambda each: each.restore("c001"),
    "purge": lambda each: each.purge("c001"),
    "create_index": lambda each: each.create_index("name"),
    "drop_index": lambda each: each.drop_index("byStatus"),
}
PAST: dict[str, Callable[[Collection[Document]], object]] = {
    "get_history": lambda each: each.get_history("c001"),
    "diff": lambda each: each.diff("c001", 1, 2),
    "list_trashed": lambda each: each.list_trashed(),
    "list_snapshots": lambda each: each.list_snapshots("c001"),
    "watch": lambda each: list(each.watch()),
    "resolve": lambda each: each.resolve("1:2:3"),
    "forward": lambda each: each.forward(),
    "build_manifest": lambda each: each.build_manifest(),
    "build_indexes": lambda each: each.build_indexes(),
    "parquet_files": lambda each: each.parquet_files(),
    "find as_of": lambda each: each.find_all(as_of="2026-02-24T00:00:00Z"),
    "count as_of": lambda each: each.count(as_of=0),
    "find_by_id as_of": lambda each: each.find_by_id("c001", as_of=1),
    "scan as_of": lambda each: list(each.scan(as_of=1)),
    "to_arrow as_of": lambda each: each.to_arrow(as_of=1),
    "cursor as_of": lambda each: each.cursor(as_of=0),
}


@pytest.mark.parametrize("call", CHANGES)
def test_what_changes_something_says_how(bucket: Bucket, call: str) -> None:
    with (
        bucket.customers() as customers,
        pytest.raises(PermissionDeniedError, match=r"^Customer is read-only") as caught,
    ):
        CHANGES[call](customers)
    assert "worm adopt" in caught.value.fix


@pytest.mark.parametrize("call", PAST)
def test_what_needs_a_log_says_how_to_get_one(bucket: Bucket, call: str) -> None:
    with bucket.customers() as customers, pytest.raises(InvalidRequestError) as caught:
        PAST[call](customers)
    assert "worm adopt" in caught.value.fix


def test_a_change_is_refused_without_a_request(bucket: Bucket) -> None:
    with bucket.customers(source="auto") as customers:
        with pytest.raises(PermissionDeniedError, match="worm adopt"):
            customers.insert({"id": "x"})
        assert bucket.requests == []


# --- calls that read ---


def test_documents_are_copies_of_files(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        (found,) = customers.find_all({"id": "c001"})
        assert found.rev == found.seq == 0
        assert found.loaded is None
        assert customers.source == "files"


def test_pages_go_on_where_the_last_one_ended(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        seen: list[Any] = []
        page: str | None = None
        while True:
            found = customers.find({"score": {"$gte": 1}}, sort="-name", limit=2, page=page)
            seen += [row.id for row in found]
            page = found.next_page
            if page is None:
                break
        assert seen == ["c006", "c005", "c004", "c003", "c002", "c001"]


def test_a_cursor_goes_on_in_another_process(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        cursor = customers.cursor({"score": {"$gte": 1}}, sort="name", batch_size=4)
        first = [each.id for each in cursor.next_batch()]
        token = cursor.token
    with bucket.customers() as customers:
        rest = [each.id for each in customers.resume(token)]
    assert first + rest == ["c001", "c002", "c003", "c004", "c005", "c006"]


def test_refs_lead_to_files_too(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        (row,) = customers.find_all({"id": "c001"}, populate=["friend", "friends"])
        assert row["friend"]["id"] == "c002"
        assert [each["id"] for each in row["friends"]] == ["c000"]
        (row,) = customers.find_all({"id": "c001"}, select=["name", "friend"], populate="friend")
        assert row["friend"]["name"] == "Name 2"


def test_tables_and_scans(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        table = customers.find({"score": {"$gte": 5}}, select=["name", "address.city"]).to_arrow()
        assert table.to_pydict() == {
            "id": ["c005", "c006"],
            "address.city": ["Oslo", "Rome"],
            "name": ["Name 5", "Name 6"],
        }
        assert customers.to_arrow(["id", "notes"]).column("notes").to_pylist() == [each["notes"] for each in DOCUMENTS]
        assert [row["score"] for row in customers.scan("c002", "c004", columns=["score"])] == [2, 3]
        assert [each.id for each in customers.scan("c005")] == ["c005", "c006"]
        assert customers.query().eq("status", "active").sort("-name").limit(1).execute()[0].id == "c006"


def test_parts_of_a_value_cost_no_documents(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        bucket.requests.clear()
        found = customers.find_all({"address.city": "Oslo"}, select=["address.zip"], limit=2)
        assert bucket.requests == [("get", ".worm.manifest.json")]
        assert found == [{"id": "c001", "address": {"zip": "1"}}, {"id": "c003", "address": {"zip": "3"}}]


def test_limits_of_queries(bucket: Bucket) -> None:
    with bucket.customers() as customers, pytest.raises(wormdb.LimitExceededError, match="max_scanned"):
        customers.find_all({"notes": "x"}, max_scanned=3)


# --- which collections are foreign ---


def test_applying_a_schema_writes_nothing_to_the_collection(bucket: Bucket) -> None:
    with bucket.open(source="auto") as database:
        assert database.schema_changes() == {}
        before = {key for key in contents(bucket) if key.startswith(FOLDER)}
        database.apply_schema()
        assert {key for key in contents(bucket) if key.startswith(FOLDER)} == before
        assert database.model("Customer").count() == 7
    bucket.store.delete(".worm.schema.json")


def test_a_collection_with_a_log_is_read_through_it() -> None:
    bucket = Bucket()
    open_to_all = schema_of({**CUSTOMER, "mode": "readwrite"})
    with wormdb.connect(bucket.url, schema=open_to_all) as database:
        database.model("Customer").insert({"id": "a", "name": "Ada"})
    bucket.put(f"{FOLDER}b/profile.json", {"id": "b"})
    with bucket.customers(source="auto") as customers:
        assert customers.source == "log"
        with pytest.raises(wormdb.SchemaMismatchError):
            customers.find_all()
    with bucket.customers(source="files") as customers:
        assert customers.source == "files"
        assert "b" in [each.id for each in customers.find_all(strategy="full_scan")]


def test_a_bucket_that_is_adopted_is_read_through_its_log() -> None:
    bucket = Bucket()
    for each in DOCUMENTS[:2]:
        bucket.put(f"{FOLDER}{each['id']}/profile.json", each)
    with bucket.open(source="auto") as database:
        assert database.model("Customer").source == "files"
        database.adopt("Customer", mode="readonly")
        assert database.model("Customer").source == "log"
        assert [each.id for each in database.model("Customer").find_all()] == ["c000", "c001"]


def test_other_modes_never_ask(bucket: Bucket) -> None:
    with bucket.open(schema=schema_of({**CUSTOMER, "mode": "append"})) as database:
        assert database.model("Customer").source == "log"
        assert database.model("Customer").count() == 0


@pytest.mark.parametrize("name", ["source", "foreign_check", "on_broken"])
def test_settings_are_checked(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"setting {name}='other': it is one of "):
        wormdb.Settings(**{name: "other"})  # type: ignore[arg-type] # that is the mistake


def test_on_s3(s3_url: str) -> None:
    """Times, versions and listings of a real server."""
    bucket = Bucket(url=s3_url)
    with bucket.store:
        bucket.fill(DOCUMENTS[:3])
    for check in ("manifest", "listing"):
        with bucket.customers(foreign_check=check) as customers:
            assert customers.explain(select=["name"]).strategy == "manifest_scan"
            assert [each.id for each in customers.find_all({"score": {"$gte": 1}})] == ["c001", "c002"]
            assert len(customers.find_all(strategy="full_scan")) == 3
