"""Fixtures for the examples of S3WORM's pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.coming_from_s3worm.crm import Crm
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb import Collection, Document

__all__ = ["crm", "invoices"]


@pytest.fixture
def crm() -> Iterator[Crm]:
    made = Crm()
    yield made
    made.database.close()
    drop_memory(made.name)


@pytest.fixture
def invoices(crm: Crm) -> Collection[Document]:
    found = crm.database.model("Invoice")
    rows = [("paid", 50, 90), ("paid", 25_000, 10), ("draft", 800, 85), ("void", 70, None)]
    found.insert_many(
        [
            {"id": f"inv-{number:03}", "status": status, "amount": amount, "currency": "USD", "score": score}
            for number, (status, amount, score) in enumerate(rows, 1)
        ]
    )
    return found
