"""The store contract on Azure, by an emulator: long, and skipped where that is not installed.

Keys that a URL has to encode are refused: obstore signs their path as it is encoded, and Azure decodes it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

import wormdb
from tests.azure_server import azure_server
from wormdb.errors import PermissionDeniedError
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
encoded = pytest.mark.xfail(raises=PermissionDeniedError, reason="obstore signs a path as it is encoded")
AS_IT_IS = "/+=*:;,'"
PLAIN = [key for key in ODD_KEYS if quote(key, AS_IT_IS) == key]
ENCODED = [pytest.param(key, marks=encoded) for key in ODD_KEYS if key not in PLAIN]


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

    @pytest.mark.parametrize("key", [*PLAIN, *ENCODED], ids=lambda key: ascii(key)[1:31])
    def test_an_odd_key_survives_every_verb(self, store: Store, other_handle: Store, key: str) -> None:
        """Those that a URL has as they are."""
        super().test_an_odd_key_survives_every_verb(store, other_handle, key)

    @encoded
    def test_odd_keys_are_all_different(self, store: Store, other_handle: Store) -> None:
        """Some have to be encoded."""
        super().test_odd_keys_are_all_different(store, other_handle)

    @encoded
    def test_order_is_that_of_key_bytes(self, store: Store, other_handle: Store) -> None:
        """One has to be encoded."""
        super().test_order_is_that_of_key_bytes(store, other_handle)

    @encoded
    @pytest.mark.parametrize("after", ["a", "é"])
    def test_after_skips_up_to_and_including(self, store: Store, after: str) -> None:
        """One has to be encoded."""
        super().test_after_skips_up_to_and_including(store, after)

    @encoded
    def test_a_delimiter_lists_one_level(self, store: Store) -> None:
        """One has to be encoded."""
        super().test_a_delimiter_lists_one_level(store)


def test_a_database_and_files_in_sync(place: str, tmp_path: Path) -> None:
    """One of each on the same container: commits, a forwarding, a drop; a push by one clone and a pull by another."""
    with wormdb.connect(place) as db, wormdb.connect(place) as other:
        db["notes"].insert_many([{"id": f"{number}", "n": number} for number in range(50)])
        assert other["notes"].count({"n": {"$gte": 40}}) == 10
        other["notes"].forward()
        assert db["notes"].find_by_id("7") == {"id": "7", "n": 7}
        assert db.drop("notes") is not None
        assert other["notes"].count() == 0
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "one.txt").write_text("one")
    with Sync(tmp_path / "a", f"{place.partition('?')[0]}-sync?{place.partition('?')[2]}") as a:
        assert len(a.push_changed().pushed) == 1
    with Sync(tmp_path / "b", f"{place.partition('?')[0]}-sync?{place.partition('?')[2]}") as b:
        assert len(b.pull_changed().pulled) == 1
    assert (tmp_path / "b" / "one.txt").read_text() == "one"
