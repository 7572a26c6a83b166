"""The store contract on S3: SeaweedFS on this machine, reached as any S3 store is."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from wormdb.errors import LimitExceededError
from wormdb.storage.cache import CachedStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.open import open_store
from wormdb.storage.retry import RetryingStore
from wormdb.storage.store import any_object
from wormdb.system.clock import SeededChance, SystemClock
from wormdb.testing.store_contract import StoreContract
from wormdb.testing.store_contract.bounds import bound
from wormdb.testing.store_contract.keys import LONGEST_KEY, ODD_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Bound, Store

pytestmark = pytest.mark.s3


class TestS3Store(StoreContract):
    forgets_folders: ClassVar[bool] = False
    threads: ClassVar[int] = 4  # the server makes writers of one key wait for each other, a second at a time

    @pytest.fixture
    def store(self, s3_url: str) -> Iterator[Store]:
        with open_store(s3_url) as store:
            yield store

    @pytest.fixture
    def other_handle(self, s3_url: str) -> Iterator[Store]:
        with open_store(s3_url) as store:
            yield store

    @pytest.fixture
    def bounded_store(self, s3_url: str) -> Iterator[Store]:
        with open_store(s3_url, bound=bound) as store:
            yield store

    @pytest.mark.parametrize("key", ODD_KEYS, ids=lambda key: ascii(key)[1:31])
    def test_an_odd_key_survives_every_verb(self, store: Store, other_handle: Store, key: str) -> None:
        """All but the longest, which needs a store without a prefix."""
        super().test_an_odd_key_survives_every_verb(store, other_handle, key)

    def test_prefix_and_key_share_the_limit(self, store: Store) -> None:
        """What S3 would refuse is refused before it is sent, with the reason."""
        calls = (
            lambda: store.get(LONGEST_KEY),
            lambda: store.put(LONGEST_KEY, b""),
            lambda: store.delete_many([LONGEST_KEY]),
        )
        for call in calls:
            with pytest.raises(LimitExceededError, match="with the prefix"):
                call()


class TestAllWrappersOnS3(StoreContract):
    """The whole stack as a program would build it; each handle has a stack of its own."""

    forgets_folders: ClassVar[bool] = False
    many: ClassVar[int] = 50  # paging is tested on the bare store
    threads: ClassVar[int] = 2
    increments: ClassVar[int] = 5

    @staticmethod
    def stack(url: str, bound: Bound = any_object) -> Store:
        retrying = RetryingStore(open_store(url, bound=bound), clock=SystemClock(), chance=SeededChance(2))
        return CachedStore(MeteredStore(retrying), immutable=lambda key: False, bytes_max=2**20)

    @pytest.fixture
    def store(self, s3_url: str) -> Iterator[Store]:
        with self.stack(s3_url) as store:
            yield store

    @pytest.fixture
    def other_handle(self, s3_url: str) -> Iterator[Store]:
        with self.stack(s3_url) as store:
            yield store

    @pytest.fixture
    def bounded_store(self, s3_url: str) -> Iterator[Store]:
        with self.stack(s3_url, bound) as store:
            yield store

    @pytest.mark.parametrize("key", ODD_KEYS[:3], ids=lambda key: ascii(key)[1:31])
    def test_an_odd_key_survives_every_verb(self, store: Store, other_handle: Store, key: str) -> None:
        """Wrappers pass keys on; all of them are tested on the bare store."""
        super().test_an_odd_key_survives_every_verb(store, other_handle, key)
