"""A block: documents in one immutable Parquet file, sorted by id, with a sidecar.

Columns, in this order: `_id`, `_rev`, `_seq`, `_deleted`, the typed columns (`wormdb.format.columns`),
and `_doc`, the whole document as JSON in pages of about 64 KB. A deletion is a row whose `_doc` holds
the id only, or the id, the tombstone and the document while that is in the trash. Anything that reads
Parquet reads a block; we also read single pages and single columns of it, each checked by the sidecar
before it is believed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.errors import InvalidRequestError
from wormdb.format.arrays import settle_arrow
from wormdb.format.blocklist import BlockEntry, ColumnStats, SidecarRef
from wormdb.format.bulk import bulk_columns
from wormdb.format.columns import KIND_PREFIX, ColumnSpec, EncodedColumn, encode_column
from wormdb.format.frequent import CHOICE, frequent_columns
from wormdb.format.json import encode
from wormdb.format.key import encode_keys
from wormdb.format.membership import MembershipFilter
from wormdb.format.node import is_ascending
from wormdb.format.page import map_file
from wormdb.format.project import project
from wormdb.format.sidecar import Versions, encode_sidecar
from wormdb.settings import KIB, MIB, PAGE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["FORMAT_VERSION", "PAGE_BYTES", "RESERVED", "EncodedBlock", "Row", "write_block", "write_new_block"]

PAGE_BYTES: Final = 64 * KIB
"""Uncompressed bytes at which a page of `_doc` is closed."""
FORMAT_VERSION: Final = 1
"""Stored in the Parquet file's metadata; counts changes that older code would misread."""
RESERVED: Final = ("_id", "_rev", "_seq", "_deleted", "_doc")
"""Columns that every block has."""

_GROUP_ROWS: Final = 16_384
_GROUP_BYTES: Final = 16 * MIB
_BATCHES_PER_PAGE: Final = 4
_BATCH_ROWS_MAX: Final = 1024
_ZSTD_LEVEL: Final = 1
_GLANCE_ROWS: Final = 1024
"""Rows by which it is told whether the texts of a column repeat."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One document in one version, as stored JSON; None says that it was deleted.

    `trash` is what the trash has of it then: a tombstone with the document, as JSON, the id first as `_id`.
    """

    id: Any
    rev: int
    seq: int
    document: bytes | None
    trash: bytes | None = None

    @property
    def cell(self) -> bytes:
        """What `_doc` holds."""
        return self.document or self.trash or encode({"_id": self.id})


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """A block ready to be put: two objects, and what the root must know of them."""

    parquet: bytes
    sidecar: bytes
    map_bytes: int
    sha256: bytes
    rows: int
    deleted: int
    trashed: int
    keys: tuple[bytes, bytes]
    revs: tuple[int, int]
    columns: tuple[ColumnStats, ...]
    choice: int = 0
    """`BlockEntry.choice`."""

    def entry(
        self, name: str, sidecar_name: str, *, kind: Literal["base", "delta"], level: int = 0, run: int = 0
    ) -> BlockEntry:
        """The root's entry for this block, stored under the two names."""
        return BlockEntry(
            name=name,
            kind=kind,
            level=level,
            run=run,
            key_first=self.keys[0],
            key_last=self.keys[1],
            rows=self.rows,
            deleted=self.deleted,
            trashed=self.trashed,
            rev_first=self.revs[0],
            rev_last=self.revs[1],
            length=len(self.parquet),
            sha256=self.sha256,
            sidecar=SidecarRef(
                name=sidecar_name,
                sha256=sha256(self.sidecar).digest(),
                length=len(self.sidecar),
                map_bytes=self.map_bytes,
                choice=self.choice,
            ),
            columns=self.columns,
        )


def write_block(
    rows: Sequence[Row],
    columns: Sequence[ColumnSpec] = (),
    *,
    keys: Sequence[bytes] | None = None,
    members: Sequence[bytes] | None = None,
    found: bool = False,
) -> EncodedBlock:
    """The block of `rows`, which come in ascending order of their encoded ids. No requests.

    With `found` it has columns for frequent paths beside `columns`, see `wormdb.format.frequent`. `keys` are these
    encoded ids, if the caller has them. The membership filter is over them, or over `members`, one for each row, where
    rows are looked for by something else; those may repeat. Raises InvalidRequestError for a column of a reserved name
    and for documents that are not UTF-8.
    """
    assert rows, "a block has rows"
    _check_specs(columns)
    ids = [row.id for row in rows]
    keys = encode_keys(ids) if keys is None else keys
    assert is_ascending(keys), "rows come in ascending order of their ids"
    assert len(keys) == len(rows) == len(keys if members is None else members), "one key and one member a row"
    documents = [row.document for row in rows]
    if found:
        alive = [document for document in documents if document is not None]
        columns = [*columns, *frequent_columns(alive, [spec.path for spec in columns])]
    typed = _typed_columns(documents, ids, columns)
    cells = [document or row.cell for document, row in zip(documents, rows, strict=True)]
    fates = bytes(len(rows))
    if None in documents:
        fates = bytes([0 if row.document is not None else 1 if row.trash is None else 2 for row in rows])
    revs, seqs = [row.rev for row in rows], [row.seq for row in rows]

    ends = array("q", accumulate(map(len, cells), initial=0))
    texts = _Texts(_texts(cells, ends), ends, max(map(len, cells)), cells[0])
    membership = MembershipFilter.build(keys if members is None else members)
    return _encoded(typed, (revs, seqs, fates), texts, keys, membership, CHOICE if found else 0)


def write_new_block(
    keys: Sequence[bytes],
    hashes: array[int],
    documents: pa.ChunkedArray,
    columns: Sequence[EncodedColumn],
    seqs: Sequence[int] | None = None,
) -> EncodedBlock:
    """The block of documents that are Arrow columns already: of revision 0, as a job writes them. No requests.

    `documents` are their JSON, as large strings; `columns` are those of the block, `_id` first, those of frequent paths
    last, and may be in pieces too; `hashes` are `key_hashes` of the ids' keys, which must ascend: the caller knows that
    of the ids. `seqs` are the numbers of their versions; None says that each is the first.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    assert keys[0] <= keys[-1], "rows come in ascending order of their ids"
    settle_arrow()
    rows = len(keys)
    lengths = pc.binary_length(documents)
    sums = pc.cumulative_sum(pa.chunked_array([pa.array([0], pa.int64()), *lengths.chunks]))
    ends = memoryview(sums.combine_chunks().buffers()[1]).cast("q")[: rows + 1]
    texts = _Texts(documents, ends, pc.max(lengths).as_py(), documents[0].as_py().encode())
    versions = bytes(rows), b"\1" * rows if seqs is None else seqs, bytes(rows)
    return _encoded(columns, versions, texts, keys, MembershipFilter.of_hashes(hashes), CHOICE)


@dataclass(frozen=True, slots=True)
class _Texts:
    """The column `_doc`."""

    cells: pa.Array | pa.ChunkedArray
    ends: Sequence[int]
    """Where each of them ends, after a zero."""
    longest: int
    first: bytes


def _encoded(
    typed: Sequence[EncodedColumn],
    versions: tuple[Sequence[int], Sequence[int], bytes],
    texts: _Texts,
    keys: Sequence[bytes],
    membership: MembershipFilter,
    choice: int,
) -> EncodedBlock:
    revs, seqs, fates = versions
    table = _table(typed, versions, texts.cells)
    parquet = _write_parquet(table, texts)
    digest = sha256(parquet).digest()
    page_map = map_file(parquet, digest, keys, Versions.of(revs, seqs, fates), first_cell=texts.first)
    sidecar, map_bytes = encode_sidecar(page_map, membership, identity=digest.hex())
    return EncodedBlock(
        parquet=parquet,
        sidecar=sidecar,
        map_bytes=map_bytes,
        sha256=digest,
        rows=len(keys),
        deleted=len(keys) - fates.count(0),
        trashed=fates.count(2),
        keys=(keys[0], keys[-1]),
        revs=(min(revs), max(revs)),
        columns=tuple(column.stats for column in typed),
        choice=choice,
    )


def _check_specs(columns: Sequence[ColumnSpec]) -> None:
    paths = [spec.path for spec in columns]
    for path in paths:
        if path in RESERVED or path.startswith("$") or paths.count(path) > 1:
            raise InvalidRequestError(
                f"a block cannot have the column {path!r}",
                reason="it is named twice" if paths.count(path) > 1 else "the name is reserved",
                fix="leave it out of the columns",
            )


def _typed_columns(
    documents: Sequence[bytes | None], ids: list[Any], columns: Sequence[ColumnSpec]
) -> list[EncodedColumn]:
    done = bulk_columns(documents, ids, columns) if columns else {}
    left = [spec for spec in columns if spec.path not in done]
    if left:
        found, *values = project(documents, ["_id", *(spec.path for spec in left)], name="a new block")
        assert found == ids or _ids_agree(documents, ids, found), "a row's id is its document's"
        done |= {spec.path: encode_column(spec, column) for spec, column in zip(left, values, strict=True)}
    return [encode_column(ColumnSpec("_id"), ids), *(done[spec.path] for spec in columns)]


def _ids_agree(documents: Sequence[bytes | None], ids: Sequence[Any], found: Sequence[Any]) -> bool:
    rows = zip(documents, ids, found, strict=True)
    pairs = [(identity, value) for document, identity, value in rows if document is not None]
    return encode_keys([identity for identity, _ in pairs]) == encode_keys([value for _, value in pairs])


def _table(
    typed: Sequence[EncodedColumn],
    versions: tuple[Sequence[int], Sequence[int], bytes],
    texts: pa.Array | pa.ChunkedArray,
) -> pa.Table:
    import pyarrow as pa

    settle_arrow()
    revs, seqs, fates = versions
    first, *others = [_with_companion(column) for column in typed]
    system = [
        (pa.field("_rev", pa.int64(), nullable=False), _integers(revs)),
        (pa.field("_seq", pa.int64(), nullable=False), _integers(seqs)),
        (pa.field("_deleted", pa.bool_(), nullable=False), _integers(fates).cast(pa.bool_())),
    ]
    document = (pa.field("_doc", pa.large_string(), nullable=False), texts)
    parts = [*first, *system, *(part for pair in others for part in pair), document]
    metadata = {
        b"wormdb.format": b"%d" % FORMAT_VERSION,
        **{f"wormdb.type.{c.path}".encode(): c.type.encode() for c in typed},
    }
    schema = pa.schema([field for field, _ in parts], metadata=metadata)
    return pa.Table.from_arrays([array for _, array in parts], schema=schema)


def _integers(numbers: Sequence[int]) -> pa.Array:
    import pyarrow as pa

    if numbers.count(numbers[0]) == len(numbers):
        return pa.repeat(pa.scalar(numbers[0], pa.int64()), len(numbers))
    return pa.array(list(numbers), pa.int64())


def _with_companion(column: EncodedColumn) -> list[tuple[pa.Field, pa.Array]]:
    import pyarrow as pa

    pair = [(pa.field(column.path, column.cells.type), column.cells)]
    if column.kinds is not None:
        pair.append((pa.field(KIND_PREFIX + column.path, pa.uint8(), nullable=False), column.kinds))
    return pair


def _texts(cells: list[bytes], ends: array[int]) -> pa.Array:
    """One buffer from one join: faster than handing over each document."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(cells))]
    texts = pa.Array.from_buffers(pa.large_string(), len(cells), buffers)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(
            "a document cannot be stored", reason="it is not UTF-8", fix="encode it again"
        ) from error
    return texts


def _write_parquet(table: pa.Table, texts: _Texts) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = [field.name for field in table.schema if field.name != "_doc"]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        compression_level=_ZSTD_LEVEL,
        # Statistics of `_doc` would repeat whole documents in page headers and footer.
        write_statistics=plain,
        use_dictionary=[field.name for field in table.schema if field.name != "_id" and _repeats(table[field.name])],
        data_page_size=PAGE_BYTES,
        write_batch_size=_batch_rows(texts),
        write_page_checksum=True,
    ) as writer:
        for start, stop in _groups(texts.ends):
            writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)
    return bytes(sink.getvalue())


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a column is of texts of which many are equal, as far as the first of them tell; few rows are not asked.

    A dictionary of texts that are all different takes as long to make as all the rest of their column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type != pa.string():
        return False
    some = column.slice(0, _GLANCE_ROWS)
    return len(column) <= _GLANCE_ROWS or pc.count_distinct(some, mode="all").as_py() * 2 <= len(some)


def _batch_rows(texts: _Texts) -> int:
    """Rows written between two looks at the page's size: few enough to cut near PAGE_BYTES."""
    average = texts.ends[-1] // len(texts.cells)
    rows = min(PAGE_BYTES // (_BATCHES_PER_PAGE * average), PAGE_BYTES_MAX // 2 // texts.longest)
    return max(1, min(rows, _BATCH_ROWS_MAX))


def _groups(ends: Sequence[int]) -> list[tuple[int, int]]:
    """First and last row of each row group; `ends` says where each document ends, after a zero."""
    cuts, start, rows = [], 0, len(ends) - 1
    while start < rows:
        full = bisect_right(ends, ends[start] + _GROUP_BYTES) - 1
        stop = min(max(full, start + 1), start + _GROUP_ROWS, rows)
        cuts.append((start, stop))
        start = stop
    return cuts
