"""As the fixtures of the API, with transactions that may be open for long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.transactions.rig import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.database import Database


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    """An empty database."""
    with connect(url) as database:
        yield database
