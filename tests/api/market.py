"""Models that refer to each other, and some documents of them, for tests of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.database import Database
    from wormdb.storage.meter import Usage

__all__ = ["CUSTOMERS", "MARKET", "ORDERS", "filled", "spent"]

MARKET: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {
            "path": "@customers/(id:string)",
            "fields": {
                "name": {"type": "string"},
                "city": {"type": "string"},
                "boss": {"type": "string", "ref": "Customer"},
                "friends": {"type": "array", "items": {"type": "string", "ref": "Customer"}},
            },
            "refs": {
                "orders": {"model": "Order", "type": "hasMany", "foreignKey": "customerId"},
                "products": {
                    "model": "Product",
                    "type": "manyToMany",
                    "through": {"model": "Order", "foreignKey": "customerId", "target": "productId"},
                },
            },
            "indexes": {"byCity": {"field": "city"}},
        },
        "Order": {
            "path": "@orders/(id:string)",
            "fields": {
                "customerId": {"type": "string"},
                "productId": {"type": "string"},
                "total": {"type": "number"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "refs": {
                "customer": {"model": "Customer", "field": "customerId"},
                "product": {"model": "Product"},
            },
        },
        "Product": {"path": "@products/(id:string)", "fields": {"title": {"type": "string"}}},
    },
}

CUSTOMERS: list[dict[str, Any]] = [
    {"id": "ada", "name": "Ada", "city": "Rome", "friends": ["bob", "nobody"]},
    {"id": "bob", "name": "Bob", "city": "Oslo", "boss": "ada"},
    {"id": "cyd", "name": "Cyd", "city": "Rome", "boss": "gone"},
]
ORDERS: list[dict[str, Any]] = [
    {
        "id": f"o{number:02}",
        "customerId": ["ada", "bob", "nobody"][number % 3],
        "productId": "p1",
        "total": number * 10,
        "tags": ["even"] if number % 2 == 0 else ["odd", "x"],
    }
    for number in range(12)
]
DOCUMENTS = {"Customer": CUSTOMERS, "Order": ORDERS, "Product": [{"id": "p1", "title": "Pen"}]}


def filled(db: Database, *names: str, forwarded: bool = False) -> Database:
    """The database with documents of all models, or of some, in the log or in blocks."""
    for name, documents in DOCUMENTS.items():
        if name in (names or DOCUMENTS):
            db.model(name).insert_many(documents)
            if forwarded:
                db.model(name).forward()
    return db


def spent(db: Database, call: Callable[[], object]) -> Usage:
    """What a call takes of the store."""
    before = db.cost()
    call()
    return db.cost() - before
