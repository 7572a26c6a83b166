"""The store contract on a local folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.storage.folder.store import LocalStore
from wormdb.testing.store_contract import StoreContract
from wormdb.testing.store_contract.bounds import bound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.storage.store import Store


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with LocalStore(tmp_path / "made" / "by first write") as store:
            yield store

    @pytest.fixture
    def other_handle(self, store: Store, tmp_path: Path) -> Iterator[Store]:
        with LocalStore(tmp_path / "made" / "by first write") as other:
            yield other

    @pytest.fixture
    def bounded_store(self, store: Store, tmp_path: Path) -> Iterator[Store]:
        with LocalStore(tmp_path / "made" / "by first write", bound=bound) as bounded:
            yield bounded
