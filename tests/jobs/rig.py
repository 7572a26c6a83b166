"""Jobs run in this process, their work sent as to another one; and collections to run them on."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import wormdb
from tests.spark.read.rig import sent
from wormdb.format.kinds import Decimal128
from wormdb.jobs.pipeline import Pipeline
from wormdb.jobs.place import Where
from wormdb.jobs.work import LocalRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb import Database
    from wormdb.jobs.work import Item, ProgressListener, Work

__all__ = ["SCHEMA", "SendingRunner", "customers", "empty_place", "pipeline"]

_numbers = itertools.count()

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "models": {
        "Customer": {
            "path": "@customers/(id:string)",
            "fields": {
                "name": {"type": "string"},
                "age": {"type": "integer"},
                "status": {"type": "string"},
                "balance": {"type": "decimal"},
                "address": {"type": "object", "properties": {"city": {"type": "string"}}},
                "orders": {"type": "array", "items": {"type": "object", "properties": {"total": {"type": "integer"}}}},
            },
            "indexes": {"byAge": {"field": "age"}},
        }
    },
}


class SendingRunner(LocalRunner):
    """Pickles what it runs, as Spark does."""

    def run(self, job: str, work: Work, items: Sequence[Item], told: ProgressListener | None = None) -> list[bytes]:
        return super().run(job, sent(work), sent(items), told)


def empty_place() -> str:
    """A place in memory that nobody has used."""
    return f"memory://jobs-{next(_numbers)}"


def pipeline(
    db: Database, model: str | None = None, collection: str | None = None, told: ProgressListener | None = None
) -> Pipeline:
    """The jobs of a collection, in one thread."""
    return Pipeline(Where.named(db.url, model, collection), SendingRunner(1))


def customers(url: str | None = None, count: int = 120) -> Database:
    """Customers, most of them in blocks, some changed and some deleted since."""
    settings = wormdb.Settings(forward="manual", block_bytes=4_000)
    db = wormdb.connect(url or empty_place(), schema=SCHEMA, apply=True, settings=settings)
    model = db.model("Customer")
    model.insert_many([_customer(number) for number in range(count)])
    model.forward()
    model.insert_many([_customer(number) for number in range(count, count + 10)])
    for number in range(0, count, 9):
        model.delete(f"c{number:04}")
    for number in range(1, count, 9):
        model.modify(f"c{number:04}", lambda found: found.update(age=found["age"] + 100))
    return db


def _customer(number: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": f"c{number:04}",
        "name": f'name, "{number}"',
        "age": number,
        "status": ("active", "new", None)[number % 3],
        "balance": Decimal128(f"{number}.{number % 10}"),
        "orders": [{"total": number}, {"total": 2 * number}][: number % 3],
    }
    return values if number % 4 else {**values, "address": {"city": f"city {number % 5}"}}
