"""The store contract on memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.storage.memory import MemoryStore, drop_memory
from wormdb.testing.store_contract import StoreContract
from wormdb.testing.store_contract.bounds import bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Store


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with MemoryStore("contract") as store:
            yield store
        drop_memory("contract")

    @pytest.fixture
    def other_handle(self, store: Store) -> Iterator[Store]:
        with MemoryStore("contract") as other:
            yield other

    @pytest.fixture
    def bounded_store(self, store: Store) -> Iterator[Store]:
        with MemoryStore("contract", bound=bound) as bounded:
            yield bounded
