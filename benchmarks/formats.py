"""Our codecs against the libraries below them: msgspec, pymongo's bson and pyarrow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from benchmarks.documents import make_documents
from benchmarks.measure import Row, compare
from wormdb.format import json
from wormdb.format.block import Row as BlockRow
from wormdb.format.block import write_block
from wormdb.format.blockread import open_block, read_documents
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TITLE", "run"]

TITLE = "formats: documents of about 1 KB"
DOCUMENTS = 2_000
BLOCK_DOCUMENTS = 20_000


def run() -> list[Row]:
    """All comparisons; no server is needed."""
    return [*_codec("plain", make_documents(DOCUMENTS)), *_codec("with a date", _dated()), *_block(), _keys()]


def _dated() -> list[dict[str, Any]]:
    return make_documents(DOCUMENTS, extended=True)


def _codec(kind: str, documents: list[dict[str, Any]]) -> list[Row]:
    import bson
    import msgspec

    def each(function: Callable[[Any], object], items: list[Any]) -> Callable[[], None]:
        def loop() -> None:
            for item in items:
                function(item)

        return loop

    ours = [json.encode_document(document) for document in documents]
    theirs = [bson.encode(document) for document in documents]
    rows = [
        compare(
            f"encode {kind}",
            each(json.encode_document, documents),
            "bson.encode",
            each(bson.encode, documents),
            count=len(documents),
        ),
        compare(
            f"decode {kind}",
            each(lambda data: json.decode_document(data, name="document"), ours),
            "bson.decode",
            each(bson.decode, theirs),
            count=len(documents),
        ),
    ]
    if kind == "plain":
        rows += [
            compare(
                "encode plain",
                each(json.encode_document, documents),
                "msgspec.json.encode",
                each(msgspec.json.Encoder().encode, documents),
                count=len(documents),
            ),
            compare(
                "decode plain",
                each(lambda data: json.decode_document(data, name="document"), ours),
                "msgspec.json.decode",
                each(msgspec.json.Decoder().decode, ours),
                count=len(documents),
            ),
        ]
    return rows


def _block() -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    documents = make_documents(BLOCK_DOCUMENTS)
    rows = [BlockRow(d["_id"], 1, 1, json.encode_document(d)) for d in documents]

    def bare() -> bytes:
        table = pa.table({"_id": [row.id for row in rows], "_doc": [row.document for row in rows]})
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd", compression_level=1)
        return sink.getvalue()

    block, plain = write_block(rows), bare()

    def read_ours() -> None:
        opened = open_block(block.parquet, name="block", sha256=block.sha256)
        assert sum(1 for _ in read_documents(opened)) == BLOCK_DOCUMENTS

    def read_bare() -> None:
        assert len(pq.read_table(io.BytesIO(plain)).column("_doc").to_pylist()) == BLOCK_DOCUMENTS

    return [
        compare(
            "write a block",
            lambda: write_block(rows),
            "pyarrow, id and document",
            bare,
            count=BLOCK_DOCUMENTS,
            rounds=3,
        ),
        compare(
            "read a block's documents", read_ours, "pyarrow, to Python", read_bare, count=BLOCK_DOCUMENTS, rounds=3
        ),
    ]


def _keys() -> Row:
    import bson

    values = [document["email"] for document in make_documents(DOCUMENTS)]
    return compare(
        "encode an index key",
        lambda: [encode_key(value) for value in values],
        "bson.encode({'': value})",
        lambda: [bson.encode({"": value}) for value in values],
        count=DOCUMENTS,
    )
