"""Models that refer to each other, and some documents of them, for tests of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.database import Database
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


def filled(db: Database, *, forwarded: bool = False) -> Database:
    """The database with all of them, in the log or in blocks."""
    db.model("Customer").insert_many(CUSTOMERS)
    db.model("Order").insert_many(ORDERS)
    db.model("Product").insert({"id": "p1", "title": "Pen"})
    if forwarded:
        db.forward()
    return db


def spent(db: Database, call: Callable[[], object]) -> Usage:
    """What a call takes of the store."""
    before = db.cost()
    call()
    return db.cost() - before
