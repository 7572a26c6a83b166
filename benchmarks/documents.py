"""Documents of about one kilobyte, the same in every run."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["make_documents"]

WORDS = [
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "inlet",
    "juniper",
    "knoll",
    "larch",
    "mesa",
    "north",
    "oxbow",
    "pine",
    "quarry",
    "ridge",
]
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)


def make_documents(count: int, *, extended: bool = False, seed: int = 7) -> list[dict[str, Any]]:
    """`count` customers; with `extended` each also holds a date, which JSON has no type for."""
    chance = random.Random(seed)
    return [_document(number, chance, extended=extended) for number in range(count)]


def _document(number: int, chance: random.Random, *, extended: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "_id": f"customer-{number:09d}",
        "name": " ".join(chance.choices(WORDS, k=3)),
        "email": f"{chance.choice(WORDS)}.{number}@example.com",
        "status": chance.choice(["active", "paused", "closed"]),
        "age": chance.randrange(18, 90),
        "balance": round(chance.uniform(-500, 20_000), 2),
        "vip": chance.random() < 0.1,
        "tags": chance.sample(WORDS, k=4),
        "address": {
            "street": f"{chance.choice(WORDS)} street {number % 400}",
            "city": chance.choice(WORDS),
            "zip": number % 99_999,
        },
        "orders": [
            {
                "sku": f"sku-{chance.randrange(10_000)}",
                "amount": chance.randrange(1, 9),
                "price": round(chance.uniform(1, 99), 2),
            }
            for _ in range(4)
        ],
        "note": " ".join(chance.choices(WORDS, k=60)),
    }
    if extended:
        document["created"] = EPOCH + timedelta(seconds=number)
    return document
