from __future__ import annotations

import pytest

from wormdb.engine.log.paths import EnginePaths, is_immutable
from wormdb.storage.store import check_key
from wormdb.system.types import LogNumber

PATHS = EnginePaths.of_collection("org/customers/")


def test_keys_are_as_documented() -> None:
    assert PATHS.root == "org/customers/.worm.db/block0"
    assert PATHS.entry(LogNumber(7)) == "org/customers/.worm.db/committed/00000000000000000007"
    assert PATHS.entries == "org/customers/.worm.db/committed/"
    assert PATHS.block("ab") == "org/customers/.worm.db/data/ab.parquet"
    assert PATHS.sidecar("ab") == "org/customers/.worm.db/data/ab.map"


def test_a_listing_of_entries_is_in_order_of_their_numbers() -> None:
    numbers = [1, 9, 10, 99, 100, 2**40, 2**63 - 1]
    keys = [PATHS.entry(LogNumber(number)) for number in numbers]
    assert sorted(keys) == keys
    assert all(check_key(key) == key for key in keys)


@pytest.mark.parametrize(
    ("key", "immutable"),
    [
        (PATHS.block("x"), True),
        (PATHS.sidecar("x"), True),
        ("a/.worm.db/indexes/byName/x", True),
        ("a/.worm.db/history/x.parquet", True),
        ("a/.worm.db/blobs/x", False),
        (PATHS.root, False),
        (PATHS.entry(LogNumber(1)), False),
        ("data/x.parquet", False),
        (".worm.schema.json", False),
    ],
)
def test_only_what_never_changes_may_be_cached(key: str, immutable: bool) -> None:
    assert is_immutable(key) is immutable
