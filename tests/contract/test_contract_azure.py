"""The store contract on Azure, by an emulator: long, and skipped where that is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.azure_server import azure_server
from wormdb.storage.open import open_store
from wormdb.sync import Sync
from wormdb.system.clock import SystemChance
from wormdb.testing.store_contract import StoreContract
from wormdb.testing.store_contract.bounds import bound
from wormdb.testing.store_contract.keys import ODD_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.storage.store import Store

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def azure_url() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as monkeypatch, azure_server(monkeypatch) as url:
        yield url


@pytest.fixture
def place(azure_url: str) -> str:
    """A prefix that no other test uses."""
    return azure_url.replace("/tests?", f"/{SystemChance().token(6).hex()}?")


class TestAzureStore(StoreContract):
    @pytest.fixture
    def store(self, place: str) -> Iterator[Store]:
        with open_store(place) as store:
            yield store

    @pytest.fixture
    def other_handle(self, place: str) -> Iterator[Store]:
        with open_store(place) as store:
            yield store

    @pytest.fixture
    def bounded_store(self, place: str) -> Iterator[Store]:
        with open_store(place, bound=bound) as store:
            yield store

    @pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: ascii(key)[1:31])
    def test_an_odd_key_survives_every_verb(self, store: Store, other_handle: Store, key: str) -> None:
        """All but the longest, which needs a store without a prefix."""
        super().test_an_odd_key_survives_every_verb(store, other_handle, key)


def test_a_database_and_files_in_sync(place: str, tmp_path: Path) -> None:
    """One of each on the same container: commits, a forwarding, a drop; a push by one clone and a pull by another."""
    with wormdb.connect(place) as db, wormdb.connect(place) as other:
        db["notes"].insert_many([{"id": f"{number}", "n": number} for number in range(50)])
        db["ünïcode % notes"].insert_one({"id": "a b/ü%"})
        assert other["ünïcode % notes"].find_by_id("a b/ü%") == {"id": "a b/ü%"}
        assert other["notes"].count({"n": {"$gte": 40}}) == 10
        other["notes"].forward()
        assert db["notes"].find_by_id("7") == {"id": "7", "n": 7}
        assert db.drop("notes") is not None
        assert other["notes"].count() == 0
    for name in "ab":
        (tmp_path / name).mkdir()
    names = ["one.txt", "a b/ü %25+#.txt", "it's/[x]&y=z?.txt"]
    for name in names:
        (tmp_path / "a" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "a" / name).write_text(name)
    with Sync(tmp_path / "a", f"{place.partition('?')[0]}-sync?{place.partition('?')[2]}") as a:
        assert len(a.push_changed().pushed) == len(names)
    with Sync(tmp_path / "b", f"{place.partition('?')[0]}-sync?{place.partition('?')[2]}") as b:
        assert len(b.pull_changed().pulled) == len(names)
    assert [(tmp_path / "b" / name).read_text() for name in names] == names
