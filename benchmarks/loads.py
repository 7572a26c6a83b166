"""Bulk loads against pyarrow writing the same columns, and what forwarding of updates writes.

`WORMDB_BENCH_DOCUMENTS` says how many documents; the bars are meant for 1,000,000.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wormdb
from benchmarks.documents import make_documents
from benchmarks.measure import Count, Row, compare
from wormdb.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

__all__ = ["TITLE", "run"]

TITLE = "loads: documents of about 1 KB"
DOCUMENTS = int(os.environ.get("WORMDB_BENCH_DOCUMENTS", "100000"))
ROUNDS = 3 if DOCUMENTS <= 100_000 else 1
UPDATES = 100_000
BATCH_UPDATES = 1_000
FORWARD_BATCHES = 10

FIELDS = {
    "name": {"type": "string"},
    "email": {"type": "string"},
    "status": {"type": "string"},
    "age": {"type": "integer"},
    "balance": {"type": "number"},
    "vip": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "address": {"type": "object"},
    "orders": {"type": "array", "items": {"type": "object"}},
    "note": {"type": "string"},
}
JSON_FIELDS = ("address", "orders")
"""Columns of JSON text on both sides."""
SCHEMA = {
    "models": {
        "Customer": {
            "path": "@customers/(id:ulid)",
            "fields": FIELDS,
            "indexes": {"email": {"field": "email", "unique": True}},
        }
    }
}


def run() -> list[Row | Count]:
    """All comparisons; no server is needed."""
    documents = make_documents(DOCUMENTS)
    for document in documents:
        del document["_id"]
    with tempfile.TemporaryDirectory() as folder:
        return [*_loads(documents, Path(folder)), _updates(documents, Path(folder))]


# --- loading ---


def _loads(documents: list[dict[str, Any]], folder: Path) -> list[Row]:
    ids = _load(documents, folder / "first")

    def ours() -> None:
        shutil.rmtree(folder / "loaded", ignore_errors=True)
        _load(documents, folder / "loaded")

    prepared = _columns(documents, ids)
    return [
        compare(
            "insert_many into a folder, one unique index",
            ours,
            "pyarrow: columns and _doc out of the same dicts",
            lambda: _write(_columns(documents, ids), folder / "reference.parquet"),
            count=len(documents),
            at_least=0.5,
            rounds=ROUNDS,
        ),
        compare(
            "insert_many into a folder, one unique index",
            ours,
            "pyarrow: columns and _doc made before",
            lambda: _write(prepared, folder / "reference.parquet"),
            count=len(documents),
            rounds=ROUNDS,
        ),
    ]


def _load(documents: list[dict[str, Any]], folder: Path) -> list[Any]:
    with wormdb.connect(str(folder), schema=SCHEMA) as database:
        return database.model("Customer").insert_many(documents)


def _columns(documents: list[dict[str, Any]], ids: list[Any]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"_id": ids}
    for name in FIELDS:
        values = [document[name] for document in documents]
        columns[name] = list(map(json.dumps, values)) if name in JSON_FIELDS else values
    columns["_doc"] = list(map(json.dumps, documents))
    return columns


def _write(columns: dict[str, list[Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table: pa.Table = pa.table(columns)
    pq.write_table(table, path, compression="zstd")


# --- updating ---


def _updates(documents: list[dict[str, Any]], folder: Path) -> Count:
    """Bytes that forwarding writes for each byte of the updated documents."""
    chance = random.Random(3)
    settings = Settings(forward="manual", forward_interval_ms=0)
    with wormdb.connect(str(folder / "updated"), schema=SCHEMA, settings=settings) as database:
        customers = database.model("Customer")
        ids = customers.insert_many(documents)
        customers.forward()
        written = changed = 0
        for number in range(UPDATES // BATCH_UPDATES):
            changed += _update(customers, [chance.randrange(len(ids)) for _ in range(BATCH_UPDATES)], documents, ids)
            if number % FORWARD_BATCHES == FORWARD_BATCHES - 1:
                before = database.cost().bytes_up
                customers.forward()
                written += database.cost().bytes_up - before
    ratio = written / changed
    return Count(
        f"bytes that forwarding writes for {UPDATES:,} random updates of {len(ids):,} documents",
        "bytes of the updated documents as JSON",
        ratio,
        "≤ 4",
        ratio <= 4,
    )


def _update(customers: Collection[Document], places: list[int], documents: list[dict[str, Any]], ids: list[Any]) -> int:
    """Save documents anew as one batch; their bytes as JSON."""
    changed = 0
    with customers.batch() as batch:
        for place in places:
            document = {"id": ids[place], **documents[place], "balance": place / 7}
            changed += len(json.dumps(document, separators=(",", ":")))
            batch.save(document)
    return changed
