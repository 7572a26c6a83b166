"""Scans of columns and of whole documents, against pyarrow reading the same files in the same run.

`WORMDB_BENCH_DOCUMENTS` says how many documents; the bars are meant for 1,000,000.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wormdb
from benchmarks.documents import make_documents
from benchmarks.measure import Count, Row, compare
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.columns.scan import scan_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.state.view import View

__all__ = ["TITLE", "run"]

DOCUMENTS = int(os.environ.get("WORMDB_BENCH_DOCUMENTS", "200000"))
TITLE = f"scans: {DOCUMENTS:,} documents of about 1 KB in a folder"
COLUMNS = ["age", "status"]
SLOW_ROUNDS = 3
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {
            "path": "@customers/(id:string)",
            "id": "given",
            "fields": {
                "name": {"type": "string"},
                "email": {"type": "string"},
                "status": {"type": "string"},
                "age": {"type": "integer"},
                "balance": {"type": "number"},
                "vip": {"type": "boolean"},
                "created": {"type": "datetime"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}


def run() -> list[Row | Count]:
    """All comparisons; no server is needed."""
    # Without a cache: with one, every round but the first would read nothing of the files that the reference reads.
    settings = wormdb.Settings(cache_bytes=0)
    with tempfile.TemporaryDirectory() as folder, wormdb.connect(folder, schema=SCHEMA, settings=settings) as db:
        customers = db.model("Customer")
        customers.insert_many(make_documents(DOCUMENTS, extended=True))
        customers.forward()
        files = sorted(Path(folder, "customers", ".worm.db", "data").glob("*.parquet"))
        # Only the view knows which blocks it reads: more files than that would make the reference slower.
        view = customers._access.view()  # noqa: SLF001 - a scan without the table around it
        assert isinstance(view.base, RunBase)
        assert len(list(view.base.runs.blocks())) == len(files), "one run, and nothing replaced"
        return [*_columns(customers, view, files), *_documents(customers, view, files), *_requests(db, view)]


def _cold(view: View) -> View:
    """The same state, of whose blocks nothing is known yet."""
    assert view.place is not None
    return replace(view, base=RunBase(view.place))


def _count(view: View, names: Sequence[str]) -> int:
    return sum(portion.rows for portion in scan_columns(view, names))


def _columns(customers: Collection[Document], view: View, files: Sequence[Path]) -> list[Row]:
    import pyarrow.parquet as pq

    def theirs() -> object:
        return pq.read_table(files, columns=COLUMNS)

    reference = "pyarrow.parquet.read_table"
    sides = {
        "two columns": lambda: _count(view, COLUMNS),
        "two columns, page maps not kept": lambda: _count(_cold(view), COLUMNS),
        "two columns by to_arrow": lambda: customers.to_arrow(COLUMNS),
    }
    return [compare(what, ours, reference, theirs, count=DOCUMENTS, at_most=1.5) for what, ours in sides.items()]


def _documents(customers: Collection[Document], view: View, files: Sequence[Path]) -> list[Row]:
    import msgspec
    import pyarrow.parquet as pq

    def texts() -> int:
        return sum(pq.read_table(file, columns=["_doc"]).num_rows for file in files)

    def dicts() -> int:
        decode = msgspec.json.Decoder().decode
        rows = (text for file in files for text in pq.read_table(file, columns=["_doc"]).column("_doc").to_pylist())
        return sum(1 for _ in map(decode, rows))

    return [
        compare(
            "documents as texts",
            lambda: _count(view, [DOCUMENT]),
            "pyarrow, _doc file by file",
            texts,
            count=DOCUMENTS,
            rounds=SLOW_ROUNDS,
        ),
        compare(
            "documents by scan()",
            lambda: sum(1 for _ in customers.scan()),
            "pyarrow, _doc, and msgspec.json.decode",
            dicts,
            count=DOCUMENTS,
            rounds=SLOW_ROUNDS,
        ),
    ]


def _requests(db: wormdb.Database, view: View) -> list[Count]:
    """What a scan of two columns asks a store for; on S3 that is what it costs."""
    assert isinstance(view.base, RunBase)
    blocks = list(view.base.runs.blocks())
    groups = sum(len(view.base.runs.shelf.learn([block])[0][block.name].groups) for block in blocks)
    before = db.cost()
    _count(_cold(view), COLUMNS)
    used = db.cost() - before
    # A page map and a footer for each block, and at most one range of each column in each row group.
    most = 2 * len(blocks) + len(COLUMNS) * groups
    share = used.bytes_down / sum(block.length for block in blocks) * 100
    what = f"of {len(blocks)} blocks, {groups} row groups"
    return [
        Count("GETs of two columns", what, used.gets, f"≥ {len(blocks)}, ≤ {most}", len(blocks) <= used.gets <= most),
        Count("percent of the stored bytes", what, share, "> 0, ≤ 10", 0 < share <= 10),
    ]
