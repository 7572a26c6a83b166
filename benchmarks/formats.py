"""Our codecs against the libraries below them: msgspec, pymongo's bson and pyarrow."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from benchmarks.documents import make_documents
from benchmarks.measure import Count, Row, compare
from wormdb.format import json
from wormdb.format.block import PAGE_BYTES, RESERVED, write_block
from wormdb.format.block import Row as BlockRow
from wormdb.format.blockread import assemble_block, open_block, parts_for, read_arrow, read_documents
from wormdb.format.columns import ColumnSpec, arrow_type
from wormdb.format.key import encode_key
from wormdb.format.path import get_direct, parse_path
from wormdb.format.sidecar import decode_page_map
from wormdb.format.values import normalize_document
from wormdb.settings import KIB

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TITLE", "run"]

TITLE = "formats: documents of about 1 KB"
DOCUMENTS = 2_000
BLOCK_DOCUMENTS = 20_000
FULL_BLOCK_DOCUMENTS = 65_536
"""In a block of 64 MiB."""


def run() -> list[Row | Count]:
    """All comparisons; no server is needed."""
    codecs = [*_codec("plain", make_documents(DOCUMENTS)), *_codec("with a date", _dated())]
    return [*codecs, *_block(), _keys(), *_sizes()]


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
                "normalize and encode plain",
                each(lambda document: json.encode_document(normalize_document(document)), documents),
                "bson.encode and bson.decode",
                each(lambda document: bson.decode(bson.encode(document)), documents),
                count=len(documents),
            ),
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


COLUMNS = {
    "name": "string",
    "email": "string",
    "status": "string",
    "age": "int64",
    "balance": "double",
    "vip": "bool",
    "created": "date",
    "tags": "list<string>",
    "address.city": "string",
    "address.zip": "int64",
}


def _block() -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    documents = make_documents(BLOCK_DOCUMENTS, extended=True)
    rows = [BlockRow(d["_id"], 7, 1, json.encode_document(d)) for d in documents]
    keys = [encode_key(row.id) for row in rows]
    specs = [ColumnSpec(path, kind) for path, kind in COLUMNS.items()]
    bare = _bare_writer(documents, rows)
    block = write_block(rows, specs)
    plain, reserved = block.parquet, list(RESERVED)
    page_map = decode_page_map(block.sidecar[: block.map_bytes], name="map", identity=block.sha256.hex(), block="block")

    def read_two() -> int:
        # What a scan does: the ranges of two columns, each checked.
        parts = parts_for(page_map, ["age", "status"])
        bodies = [plain[part.offset : part.offset + part.length] for part in parts]
        return int(read_arrow(assemble_block(page_map, zip(parts, bodies, strict=True)), ["age", "status"]).num_rows)

    return [
        compare(
            "write a block of 10 columns",
            lambda: write_block(rows, specs, keys=keys),
            "pyarrow, from lists, same options",
            bare,
            count=BLOCK_DOCUMENTS,
            at_least=0.5,
        ),
        compare(
            "read a block's documents",
            lambda: sum(1 for _ in read_documents(open_block(plain, name="block", sha256=block.sha256))),
            "pyarrow, same columns to Python",
            lambda: pq.ParquetFile(pa.BufferReader(plain)).read(columns=reserved).to_pydict(),
            count=BLOCK_DOCUMENTS,
            at_most=1.5,
        ),
        compare(
            "read two columns",
            read_two,
            "pyarrow.parquet.read_table",
            lambda: pq.read_table(pa.BufferReader(plain), columns=["age", "status"]),
            count=BLOCK_DOCUMENTS,
            at_most=1.5,
        ),
    ]


def _bare_writer(documents: list[dict[str, Any]], rows: list[BlockRow]) -> Callable[[], object]:
    """The same file by pyarrow alone, given as lists what we have to find in JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists: dict[str, tuple[list[Any], pa.DataType]] = {
        "_id": ([row.id for row in rows], pa.string()),
        "_rev": ([row.rev for row in rows], pa.int64()),
        "_seq": ([row.seq for row in rows], pa.int64()),
        "_deleted": ([False for _ in rows], pa.bool_()),
    }
    for path, kind in COLUMNS.items():
        lists[path] = ([get_direct(document, parse_path(path)) for document in documents], arrow_type(kind))
    lists["_doc"] = ([(row.document or b"").decode() for row in rows], pa.large_string())

    def write() -> object:
        table = pa.table({name: pa.array(values, kind) for name, (values, kind) in lists.items()})
        sink = pa.BufferOutputStream()
        pq.write_table(
            table,
            sink,
            compression="zstd",
            compression_level=1,
            row_group_size=16_384,
            write_statistics=[name for name in table.column_names if name != "_doc"],
            use_dictionary=[name for name, kind in COLUMNS.items() if kind == "string"],
            data_page_size=PAGE_BYTES,
            write_batch_size=8,
            write_page_checksum=True,
        )
        return sink.getvalue()

    return write


def _sizes() -> list[Count]:
    """What a cold look-up reads of the largest block: its page map, and one page."""
    documents = [(d["_id"], json.encode_document(d)) for d in make_documents(FULL_BLOCK_DOCUMENTS)]
    even, largest = _map_sizes(documents, revisions=1)
    uneven, _ = _map_sizes(documents, revisions=1_000)
    return [
        Count("KB, page map, one revision", "none", even, "≤ 48", passed=even <= 48),
        Count("KB, page map, 1,000 revisions at random", "none", uneven, "≤ 104", passed=uneven <= 104),
        Count("KB, largest page of documents", "none", largest, "≤ 24", passed=largest <= 24),
    ]


def _map_sizes(documents: list[tuple[str, bytes]], *, revisions: int) -> tuple[float, float]:
    chance = random.Random(5)
    block = write_block([BlockRow(key, chance.randrange(revisions), 1, data) for key, data in documents])
    page_map = decode_page_map(block.sidecar[: block.map_bytes], name="map", identity=block.sha256.hex(), block="block")
    return block.map_bytes / KIB, max(page.length for page in page_map.pages or ()) / KIB


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
