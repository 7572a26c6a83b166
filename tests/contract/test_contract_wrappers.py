"""The store contract on every wrapper, around memory and around a local folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.storage.cache import CachedStore
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.memory import MemoryStore, drop_memory
from wormdb.storage.meter import MeteredStore
from wormdb.storage.retry import RetryingStore
from wormdb.storage.store import BoundedStore, WrappedStore, any_object
from wormdb.system.clock import ManualClock, SeededChance, SystemClock
from wormdb.testing.fault_store import FaultStore
from wormdb.testing.latency_store import NO_LATENCY, LatencyStore
from wormdb.testing.store_contract import StoreContract
from wormdb.testing.store_contract.bounds import bound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.storage.store import Bound, Store


class OnMemory(StoreContract):
    """A wrapper around memory; the other handle is the memory itself, which knows no wrapper's state."""

    def wrap(self, inner: Store, folder: Path) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with self.wrap(MemoryStore("wrapped"), tmp_path) as store:
            yield store
        drop_memory("wrapped")

    @pytest.fixture
    def other_handle(self, store: Store) -> Iterator[Store]:
        with MemoryStore("wrapped") as other:
            yield other

    @pytest.fixture
    def bounded_store(self, store: Store, tmp_path: Path) -> Iterator[Store]:
        with self.wrap(MemoryStore("wrapped", bound=bound), tmp_path / "bounded") as bounded:
            yield bounded


class TestWrappedStore(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return WrappedStore(inner)


class TestBoundedStore(OnMemory):
    """The rule is the wrapper's alone: the memory inside takes objects of any size."""

    def wrap(self, inner: Store, folder: Path) -> Store:
        return BoundedStore(inner, any_object)

    @pytest.fixture
    def bounded_store(self, store: Store, tmp_path: Path) -> Iterator[Store]:
        with BoundedStore(MemoryStore("wrapped"), bound) as bounded:
            yield bounded


class TestRetryingStore(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return RetryingStore(inner, clock=ManualClock(), chance=SeededChance(1))


class TestMeteredStore(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return MeteredStore(inner)


class TestCachedStore(OnMemory):
    """Every key counts as immutable: writes and deletes through the cache must still show at once."""

    def wrap(self, inner: Store, folder: Path) -> Store:
        return CachedStore(inner, immutable=lambda key: True, bytes_max=20 * 2**20)


class TestCachedStoreOnDisk(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return CachedStore(
            inner, immutable=lambda key: True, bytes_max=10_000, folder=folder / "cache", folder_bytes_max=20 * 2**20
        )


class TestCachedStoreOfMutableKeys(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return CachedStore(inner, immutable=lambda key: False, bytes_max=2**20)


class TestLatencyStore(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return LatencyStore(inner, clock=ManualClock(), chance=SeededChance(1), profile=NO_LATENCY)


class TestFaultStore(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return FaultStore(inner)


class TestFaultStoreWithSmallPages(OnMemory):
    def wrap(self, inner: Store, folder: Path) -> Store:
        return FaultStore(inner, page_keys=3)


class TestAllWrappersOnLocalFolder(StoreContract):
    """The whole stack as a program would build it, on files; each handle has a stack of its own."""

    many = 50  # paging is tested on the bare folder; here every key costs two flushes

    @staticmethod
    def stack(folder: Path, bound: Bound = any_object) -> Store:
        local = LocalStore(folder, bound=bound)
        retrying = RetryingStore(FaultStore(local), clock=SystemClock(), chance=SeededChance(2))
        return CachedStore(MeteredStore(retrying), immutable=lambda key: False, bytes_max=2**20)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with self.stack(tmp_path) as store:
            yield store

    @pytest.fixture
    def other_handle(self, store: Store, tmp_path: Path) -> Iterator[Store]:
        with self.stack(tmp_path) as other:
            yield other

    @pytest.fixture
    def bounded_store(self, store: Store, tmp_path: Path) -> Iterator[Store]:
        with self.stack(tmp_path, bound) as bounded:
            yield bounded
