"""The store contract on S3: SeaweedFS on this machine, reached as any S3 store is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.storage.open import open_store
from wormdb.testing.store_contract import StoreContract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Store

pytestmark = pytest.mark.s3


class TestS3Store(StoreContract):
    @pytest.fixture
    def store(self, s3_url: str) -> Iterator[Store]:
        with open_store(s3_url) as store:
            yield store

    @pytest.fixture
    def other_handle(self, s3_url: str) -> Iterator[Store]:
        with open_store(s3_url) as store:
            yield store
