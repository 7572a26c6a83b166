"""New documents of a task as sorted columns, and the blocks of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.write import ROW_BYTES
from wormdb.engine.bulk.columns import DOCUMENT, ID, block_columns, text_bytes
from wormdb.engine.commit.operations import Insert
from wormdb.engine.state.view import SEQUENCE_DIGITS_MAX
from wormdb.engine.tree.extract import extract, extract_columns
from wormdb.format.block import EncodedBlock, write_new_block
from wormdb.format.frequent import frequent_columns_of_texts
from wormdb.format.key import encode_key
from wormdb.format.membership import key_hashes
from wormdb.format.sample import Sample
from wormdb.settings import INDEX_KEY_BYTES_MAX, SAMPLE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from wormdb.engine.tree.definition import Index
    from wormdb.format.columns import ColumnSpec

__all__ = ["ColumnPortion", "cuts", "inserts_of", "joined", "keys_of_texts"]

_SHORT: Final = 16
_DIGITS: Final = f"^[0-9]{{1,{SEQUENCE_DIGITS_MAX}}}$"


@dataclass(frozen=True, slots=True)
class ColumnPortion:
    """Documents in order of id, each id once."""

    table: pa.Table
    keys: list[bytes]
    """Of the ids."""
    hashes: array[int]
    fresh: bool

    @classmethod
    def of(cls, table: pa.Table, *, fresh: bool) -> ColumnPortion | None:
        """Sort documents; None if an id comes twice. No requests."""
        ids = joined(table.column(ID))
        if not _ascends(ids):
            import pyarrow.compute as pc

            table = table.take(pc.sort_indices(ids)).combine_chunks()
            ids = joined(table.column(ID))
            if not _ascends(ids):
                return None
        keys = keys_of_texts(ids)
        return cls(table, keys, key_hashes(keys), fresh)

    def identities(self) -> list[bytes]:
        """The ids as JSON. No requests."""
        return [b'"%b"' % text.encode() for text in self.table.column(ID).to_pylist()]

    def fits(self, index: Index) -> bool:
        """Whether all documents are such that an index can take them, seen by whole columns. No requests."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if index.bson_types or not all(name in self.table.column_names for name in index.fields):
            return False
        columns = [self.table.column(name) for name in index.fields]
        lengths = [pc.max(pc.binary_length(cells)).as_py() or 0 for cells in columns if cells.type == pa.string()]
        # Keys write a character in two bytes at most, and everything but a text in less than these.
        return sum(_SHORT + 2 * length for length in lengths) + _SHORT * len(columns) <= INDEX_KEY_BYTES_MAX

    def text_keys(self, index: Index) -> list[bytes] | None:
        """The key that each document has in an index that `fits`; None unless that is one text. No requests."""
        import pyarrow as pa

        cells = joined(self.table.column(index.fields[0]))
        if len(index.fields) > 1 or cells.type != pa.string() or cells.null_count:
            return None
        texts = text_bytes(cells)
        return None if b"\0" in texts or b"\1" in texts else keys_of_texts(cells)

    def places(self, keys: Iterable[bytes]) -> list[int]:
        """Where documents with these keys are, which are among them. No requests."""
        return [bisect_left(self.keys, key) for key in keys]

    def without(self, places: Sequence[int]) -> ColumnPortion:
        """All documents but those at some places. No requests."""
        import pyarrow as pa

        gone = set(places)
        stay = [place for place in range(len(self.keys)) if place not in gone]
        hashes = array("Q", [self.hashes[place] for place in stay])
        table = self.table.take(pa.array(stay, pa.int64())).combine_chunks()
        return ColumnPortion(table, [self.keys[place] for place in stay], hashes, self.fresh)

    def index_keys(self, index: Index, identities: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        """What each document has in an index; raises InvalidRequestError for one that it cannot take. No requests."""
        if all(name in self.table.column_names for name in index.fields):
            values = [self.table.column(name).to_pylist() for name in index.fields]
            return extract_columns(index, identities, values).keys
        documents: list[str] = self.table.column(DOCUMENT).to_pylist()
        return extract(index, identities, [text.encode() for text in documents]).keys

    def sequence(self) -> int:
        """The greatest id made of digits. No requests."""
        import pyarrow.compute as pc

        if self.fresh:
            return 0
        ids = joined(self.table.column(ID))
        return max(map(int, ids.filter(pc.match_substring_regex(ids, _DIGITS)).to_pylist()), default=0)

    def sample(self) -> Sample:
        """The sample of them. No requests."""
        import pyarrow as pa
        import pyarrow.compute as pc

        hashes = pa.Array.from_buffers(pa.uint64(), len(self.hashes), [None, pa.py_buffer(self.hashes)])
        least = min(SAMPLE_ROWS + 1, len(hashes))
        places = pc.partition_nth_indices(hashes, pivot=least).slice(0, least).to_pylist()
        documents = self.table.column(DOCUMENT)  # in pieces, all of which `take` would join for a few
        chosen = ((self.keys[place], documents[place].as_py().encode()) for place in places)
        return Sample().after(chosen, note_gone=True)

    def blocks(self, columns: Sequence[ColumnSpec], target: int, now: Any) -> Iterator[EncodedBlock]:
        """The documents as blocks of about `target` bytes, cut as rows are. No requests.

        `now` is when they were made, None if they do not tell.
        """
        for start, stop in cuts(self.table.column(DOCUMENT), target):
            part = self.table.slice(start, stop - start)
            found = frequent_columns_of_texts(part.column(DOCUMENT), [spec.path for spec in columns])
            typed = block_columns(part, [*columns, *found], now)
            yield write_new_block(self.keys[start:stop], self.hashes[start:stop], part.column(DOCUMENT), typed)


def cuts(documents: pa.ChunkedArray, target: int) -> Iterator[tuple[int, int]]:
    """The first and last row of each block of about `target` bytes, cut as rows are. No requests."""
    import pyarrow.compute as pc

    sums = joined(pc.cumulative_sum(pc.add(pc.binary_length(documents), ROW_BYTES)))
    ends = memoryview(sums.buffers()[1]).cast("q")[: len(sums)]
    start, before = 0, 0
    while start < len(ends):
        stop = min(bisect_left(ends, before + target) + 1, len(ends))
        yield start, stop
        start, before = stop, ends[stop - 1]


def keys_of_texts(texts: pa.Array) -> list[bytes]:
    """`encode_keys` of texts that have no control characters. No requests."""
    import pyarrow as pa
    import pyarrow.compute as pc

    start, end, between = (pa.scalar(part, pa.binary()) for part in (encode_key("")[:-1], encode_key("")[-1:], b""))
    keys: list[bytes] = pc.binary_join_element_wise(start, texts.cast(pa.binary()), end, between).to_pylist()
    return keys


def inserts_of(table: pa.Table, *, fresh: bool) -> Iterator[Insert]:
    """Documents of columns one by one. No requests."""
    for identity, document in zip(table.column(ID).to_pylist(), table.column(DOCUMENT).to_pylist(), strict=True):
        yield Insert(b'"%b"' % identity.encode(), document.encode(), fresh)


def joined(cells: pa.ChunkedArray) -> pa.Array:
    """The cells of a column in one piece. No requests."""
    import pyarrow as pa

    return cells.chunk(0) if cells.num_chunks == 1 else pa.concat_arrays(cells.chunks)


def _ascends(ids: pa.Array) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py())
