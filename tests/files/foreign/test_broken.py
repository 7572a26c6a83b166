"""Files of documents that are broken: named, and fatal or passed over."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.files.foreign.worm_bucket import FOLDER, Bucket, customer
from wormdb.errors import CorruptionError
from wormdb.settings import DOCUMENT_BYTES_MAX, FILE_BYTES_MAX

DOCUMENTS = [customer(number) for number in range(4)]
KEY = f"{FOLDER}c002/profile.json"
BROKEN: dict[str, Any] = {
    "no JSON": b'{"id": "c002", ',
    "no document": ["c002"],
    "another id": customer(3),
    "no bytes": b"",
    "bad value": {"id": "c002", "at": {"$date": "never"}},
    "bad text": b'{"id": "c002", "name": "\xff"}',
    "too large": b'{"id": "c002", "name": "%b"}' % (b"x" * DOCUMENT_BYTES_MAX),
    "too deep": b'{"id": "c002", "name": %b}' % (b"[" * 200 + b"]" * 200),
    "longer than any": b'{"id": "c002"}'.ljust(FILE_BYTES_MAX + 1),
}


@pytest.fixture(params=BROKEN)
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """A bucket of 4 customers, one of which is broken."""
    made = Bucket()
    for each in DOCUMENTS:
        made.entity(each)
    made.put(KEY, BROKEN[request.param])
    return made


def test_a_broken_file_is_named(bucket: Bucket) -> None:
    with bucket.customers() as customers:
        for work in (customers.find_all, lambda: customers.find_by_id("c002"), lambda: list(customers)):
            with pytest.raises(CorruptionError, match=r"org/customers/c002/profile\.json is broken") as caught:
                work()
            assert caught.value.key == KEY
            assert "on_broken='skip'" in caught.value.fix
        assert customers.find_by_id("c001") is not None


def test_a_broken_file_is_passed_over_and_told(bucket: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    with bucket.customers(on_broken="skip") as customers, caplog.at_level(logging.WARNING, "wormdb"):
        found = customers.find({"score": {"$gte": 1}})
        assert found.skipped == {}
        assert [each.id for each in found] == ["c001", "c003"]
        assert list(found.skipped) == [KEY]
        assert f"{KEY} is broken and was passed over" in caplog.text
        assert customers.count() == 3
        assert customers.aggregate(sum="score") == {"sum": 4}
        assert customers.find_by_id("c002") is None


def test_a_broken_file_behind_the_manifest_starts_the_query_again(bucket: Bucket) -> None:
    bucket.manifest(DOCUMENTS)
    with bucket.customers(on_broken="skip") as customers:
        assert [each.id for each in customers.find_all(sort="-score", limit=2)] == ["c003", "c001"]
    with bucket.customers() as customers, pytest.raises(CorruptionError, match="c002"):
        customers.find_all(sort="-score", limit=2)


def test_two_files_of_one_id(caplog: pytest.LogCaptureFixture) -> None:
    bucket = Bucket()
    bucket.put(f"{FOLDER}a b/profile.json", {"id": "a b", "n": 1})
    bucket.put(f"{FOLDER}a%20b/profile.json", {"id": "a b", "n": 2})
    with bucket.customers() as customers, pytest.raises(CorruptionError, match="another file has the same id"):
        customers.find_all()
    with bucket.customers(on_broken="skip") as customers:
        assert len(customers.find_all()) == customers.count() == 1
    assert "another file has the same id" in caplog.text


def test_an_id_that_means_another_to_us_is_broken() -> None:
    bucket = Bucket()
    bucket.put(f"{FOLDER}a%20b/profile.json", {"id": "a%20b"})
    with bucket.customers() as customers, pytest.raises(CorruptionError, match="its id is 'a%20b', not 'a b'"):
        customers.find_all()


def test_a_file_need_not_tell_its_id() -> None:
    bucket = Bucket()
    bucket.put(f"{FOLDER}a/profile.json", {"name": "Ada"})
    with bucket.customers() as customers:
        assert customers.find_all() == [{"id": "a", "name": "Ada"}]
