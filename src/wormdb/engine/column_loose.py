"""Scans in no order, of columns that are kept decoded: nothing is merged, and nothing is read.

Each block is handed on as it is, without the rows that something newer replaced or deleted; then the live rows of the
tail. Which rows of a block are left, and the columns of the others, are found once for each state and kept with the
blocks' own columns. Where a block has something kept no more, the scan in order has to read it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.cache import Decoded, Label, decoded_of, portion_of
from wormdb.engine.blocks.portion import Portion, join_portions
from wormdb.engine.column_codes import CODE_BYTES, ColumnCodes
from wormdb.engine.columns.fetch import Wanted, fetch_columns, is_kept
from wormdb.engine.columns.merge import Keys, marked
from wormdb.engine.columns.sources import portion_of_rows
from wormdb.format import json
from wormdb.format.kinds import ObjectId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from wormdb.engine.blocks.cache import State
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.state.view import Held
    from wormdb.format.blocklist import BlockEntry

__all__ = ["LooseScan", "Piece"]

JOINED_ROWS_MAX: Final = 262_144
"""Up to so many rows together come in one portion, if their columns are alike."""

_IDS: Final = Wanted({}, with_ids=True)
_ALL_ALIVE = True


@dataclass(frozen=True, slots=True)
class Piece:
    """A block that is read, and what may hide rows of it."""

    shelf: Shelf
    entry: BlockEntry
    rank: int
    hiders: Sequence[tuple[Shelf, BlockEntry]]
    """Blocks of newer runs that share its range."""


@dataclass(frozen=True, slots=True)
class LooseScan:
    """One scan."""

    pieces: Sequence[Piece]
    tail: Sequence[tuple[bytes, Held]]
    """In order of key, deleted ones too."""
    above: Sequence[Piece]
    """Blocks that jobs attached: they may hide rows of the tail."""
    wanted: Wanted
    state: State
    shelf: Shelf
    """Of the collection's blocks: it keeps the tail's columns too."""

    def begin(self) -> Iterator[Portion] | None:
        """Each live document once; None if not all that is needed is kept."""
        if sum(piece.entry.rows for piece in self.pieces) + len(self.tail) > JOINED_ROWS_MAX:
            return self._each() if self._is_ready() else None
        # What is done with a portion costs something for each one, however short it is.
        types = (f"{name}\0{self._type(name)}" for name in self.wanted.names)
        names = "\0".join([*types, *(piece.entry.name for piece in self.pieces)])
        label = Label(self.shelf.folder, "joined", names)
        joined: list[Portion] | None = self._find(label)
        if joined is None:
            if not self._is_ready():
                return None
            joined = _joined_alike(list(self._each()))
            self._keep(label, joined, sum(map(_memory, joined)))
        return iter(joined)

    def _is_ready(self) -> bool:
        return all(self._is_piece_ready(piece) for piece in self.pieces) and all(
            is_kept(piece.shelf, piece.entry, _IDS) for piece in self.above
        )

    def _each(self) -> Iterator[Portion]:
        for piece in self.pieces:
            portion = self._of_block(piece)
            if portion.rows:
                yield portion
        rows = self._live_tail()
        if rows:
            yield self._of_tail(rows)

    def _is_piece_ready(self, piece: Piece) -> bool:
        wanted = self.wanted.keyed() if self._is_shared(piece) else self.wanted
        return is_kept(piece.shelf, piece.entry, wanted) and all(
            is_kept(shelf, entry, _IDS) for shelf, entry in piece.hiders
        )

    # --- blocks ---

    def _of_block(self, piece: Piece) -> Portion:
        shelf, entry = piece.shelf, piece.entry
        if not entry.deleted and not self._is_shared(piece):
            return fetch_columns(shelf, entry, self.wanted).portion
        alive = self._alive(piece)
        if alive is _ALL_ALIVE:
            return fetch_columns(shelf, entry, self.wanted).portion
        return portion_of(self._filtered(piece, alive))

    def _filtered(self, piece: Piece, alive: pa.Array) -> dict[str, Decoded]:
        """The columns of the rows of a block that are left."""
        key = piece.shelf.block_key(piece.entry.name)
        found = {name: self._find(Label(key, "alive " + self._type(name), name)) for name in self.wanted.names}
        if all(column is not None for column in found.values()):
            return found
        for name, column in decoded_of(fetch_columns(piece.shelf, piece.entry, self.wanted).portion).items():
            if found[name] is None:
                found[name] = column.filter(alive)
                self._keep(Label(key, "alive " + self._type(name), name), found[name], found[name].bytes)
        return found

    def _type(self, name: str) -> str:
        spec = self.wanted.specs.get(name)
        return "" if spec is None else spec.type

    def _alive(self, piece: Piece) -> Any:
        """Which rows of a block are neither deleted nor replaced."""
        import pyarrow.compute as pc

        label = Label(piece.shelf.block_key(piece.entry.name), "alive")
        alive = self._find(label)
        if alive is None:
            hidden = self._hidden(piece)
            alive = _ALL_ALIVE if hidden is None or not pc.any(hidden).as_py() else pc.invert(hidden)
            self._keep(label, alive, piece.entry.rows // 8)
        return alive

    def _hidden(self, piece: Piece) -> pa.Array | None:
        import pyarrow.compute as pc

        fetched = fetch_columns(piece.shelf, piece.entry, _IDS)
        hidden = None if fetched.deleted is None else _joined(fetched.deleted)
        if not self._is_shared(piece):
            return hidden
        keys = Keys.of(fetched.portion)
        newer = [row for row in self._near_tail(piece.entry) if row[1].rev > piece.rank]
        others = [_keys_like(newer, keys.type)] if newer else []
        others += [Keys.of(fetch_columns(shelf, entry, _IDS).portion) for shelf, entry in piece.hiders]
        replaced = marked(keys, others)
        return replaced if hidden is None else pc.or_(hidden, replaced)

    def _is_shared(self, piece: Piece) -> bool:
        return bool(piece.hiders) or bool(self._near_tail(piece.entry))

    def _near_tail(self, entry: BlockEntry) -> Sequence[tuple[bytes, Held]]:
        start = bisect_left(self.tail, entry.key_first, key=_key_of)
        return self.tail[start : bisect_left(self.tail, entry.key_last + b"\0", lo=start, key=_key_of)]

    # --- the tail ---

    def _live_tail(self) -> list[Held]:
        label = Label(self.shelf.folder, "tail")
        rows: list[Held] | None = self._find(label)
        if rows is None:
            hidden = self._hidden_tail() if self.above else set()
            rows = [held for key, held in self.tail if held.document is not None and key not in hidden]
            self._keep(label, rows, 8 * len(rows))
        return rows

    def _hidden_tail(self) -> set[bytes]:
        """The keys of rows that are older than those of attached blocks."""
        found: set[bytes] = set()
        for piece in self.above:
            older = {key for key, held in self._near_tail(piece.entry) if held.rev < piece.rank}
            if older:
                keys = Keys.of(fetch_columns(piece.shelf, piece.entry, _IDS).portion).as_encoded()
                found |= older.intersection(keys.cells.to_pylist())
        return found

    def _of_tail(self, rows: Sequence[Held]) -> Portion:
        found = {
            name: self._find(Label(self.shelf.folder, "tail " + self._type(name), name)) for name in self.wanted.names
        }
        missing = self.wanted.without({name for name, column in found.items() if column is not None})
        if missing is not None:
            for name, column in decoded_of(portion_of_rows(rows, missing)).items():
                found[name] = column
                self._keep(Label(self.shelf.folder, "tail " + self._type(name), name), column, column.bytes)
        return portion_of(found)

    # --- what is kept ---

    def _find(self, label: Label) -> Any:
        return self.shelf.columns.find(label, self.state)

    def _keep(self, label: Label, thing: object, cost: int) -> None:
        self.shelf.columns.keep(label, thing, cost, self.state)


def _joined_alike(portions: Sequence[Portion]) -> list[Portion]:
    """The same rows in fewer portions: those whose columns have the same types are one."""
    alike: list[list[Portion]] = []
    for portion in portions:
        near = (some for some in alike if some[0].types == portion.types)
        some = next((some for some in near if some[0].table.schema.equals(portion.table.schema)), None)
        if some is None:
            alike.append([portion])
        else:
            some.append(portion)
    # Arrow is faster on one piece of a column than on several.
    tables = [join_portions(some).table.combine_chunks() for some in alike]
    return [Portion(table, some[0].types, ColumnCodes(table)) for table, some in zip(tables, alike, strict=True)]


def _memory(portion: Portion) -> int:
    """Of a portion with its codes."""
    texts = sum(kind == "string" for kind in portion.types.values())
    return int(portion.table.nbytes) + texts * portion.rows * CODE_BYTES


def _key_of(row: tuple[bytes, Held]) -> bytes:
    return row[0]


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _keys_like(rows: Sequence[tuple[bytes, Held]], kind: str | None) -> Keys:
    """The keys of rows of the tail that ids of one type may equal; as ids of that type, if there are no others."""
    ids = [] if kind is None else [json.decode(held.id, name="document id") for _, held in rows]
    if kind == "string":
        return Keys.plain([one for one in ids if type(one) is str], kind)
    if kind == "objectid":
        return Keys.plain([one.binary for one in ids if type(one) is ObjectId], kind)
    if kind == "int64" and all(type(one) in (int, str, ObjectId) for one in ids):
        return Keys.plain([one for one in ids if type(one) is int], kind)
    return Keys.encoded([key for key, _ in rows])
