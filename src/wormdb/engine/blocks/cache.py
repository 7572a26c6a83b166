"""Columns and rows that stay decoded: of blocks, which never change, and of one state, until there is another.

All collections of a database share one, `ColumnCache(bytes)`: its part of the setting `cache_bytes`. A collection in
use is then asked without reading, or even unpacking, anything twice.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from wormdb.engine.blocks.portion import DOCUMENT, ELSEWHERE_CODE, Portion, elsewhere_rows
from wormdb.format.arrays import scalar_of
from wormdb.format.columns import KIND_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

__all__ = ["NEVER_CHANGES", "ROW_KIND", "ColumnCache", "DecodedColumn", "Label", "State", "decoded_of", "portion_of"]

_ITEM_MEMORY: Final = 1_000  # of the objects around a thing that is kept, about


ROW_KIND: Final = "row"
"""The kind of a label of a row."""


class State(NamedTuple):
    """Which state of a collection something is true of."""

    overlay: int
    """The serial of the tail that it is made of."""
    number: int
    revision: int
    """Of the root below; 0 without one."""


NEVER_CHANGES: Final = State(0, 0, 0)
"""For what is true of every state."""


class Label(msgspec.Struct, frozen=True):
    """What a thing is kept by."""

    key: str
    """Of the block, or the folder of the tail."""
    kind: str
    column: str | bytes = ""
    """Or the key of a row."""


class ColumnCache:
    """Things by label, up to a number of bytes; those used longest ago go first. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        """Empty; with 0 it stays so."""
        self.bytes_max = bytes_max
        self._bytes = 0
        self._held: OrderedDict[Label, tuple[State, Any, int]] = OrderedDict()
        self._rows: Counter[str] = Counter()
        """Of each folder how many rows are kept."""
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many things are kept."""
        return len(self._held)

    def count_rows(self, folder: str) -> int:
        """How many rows of the blocks of a folder are kept."""
        return self._rows[folder]

    @property
    def bytes_held(self) -> int:
        """What everything in it takes, about."""
        return self._bytes

    def find(self, label: Label, state: State = NEVER_CHANGES) -> Any:
        """What is kept; None if that is nothing, or of another state."""
        with self._lock:
            held = self._held.get(label)
            if held is None or held[0] != state:
                return None
            self._held.move_to_end(label)
            return held[1]

    def keep(self, label: Label, thing: Any, cost: int, state: State = NEVER_CHANGES) -> None:
        """Keep a thing of about `cost` bytes, in the place of what was there of another state."""
        cost += _ITEM_MEMORY
        with self._lock:
            if label in self._held:
                self._forgotten(label, self._held.pop(label)[2])
            if cost > self.bytes_max:
                return
            self._held[label] = state, thing, cost
            self._bytes += cost
            if label.kind == ROW_KIND:
                self._rows[_folder_of(label)] += 1
            while self._bytes > self.bytes_max:
                oldest, (_, _, dropped) = self._held.popitem(last=False)
                self._forgotten(oldest, dropped)

    def _forgotten(self, label: Label, cost: int) -> None:
        self._bytes -= cost
        if label.kind == ROW_KIND:
            self._rows[_folder_of(label)] -= 1


def _folder_of(label: Label) -> str:
    """The folder of the block that a thing is of."""
    return label.key[: label.key.rfind("/") + 1]


# --- columns one by one ---


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """One column of some rows."""

    cells: pa.ChunkedArray
    kinds: pa.ChunkedArray | None
    type: str
    texts: pa.ChunkedArray | None = None
    """The documents of the rows whose cells are elsewhere; None if there are none."""

    @property
    def bytes(self) -> int:
        """In memory."""
        return sum(int(column.nbytes) for column in (self.cells, self.kinds, self.texts) if column is not None)

    def filter(self, mask: pa.Array) -> DecodedColumn:
        """The rows for which the mask is true."""
        kinds, texts = self.kinds, self.texts
        return DecodedColumn(
            self.cells.filter(mask),
            None if kinds is None else kinds.filter(mask),
            self.type,
            None if texts is None else texts.filter(mask),
        )


def decoded_of(portion: Portion) -> dict[str, DecodedColumn]:
    """The columns of a portion, each by itself and in one piece."""
    return {name: _decoded(portion, name) for name in portion.types}


def _decoded(portion: Portion, name: str) -> DecodedColumn:
    import pyarrow.compute as pc

    kinds, texts = portion.kinds(name), None
    if elsewhere_rows(kinds):
        documents = portion.table.column(DOCUMENT)
        are_elsewhere = pc.equal(kinds, scalar_of(ELSEWHERE_CODE))
        texts = _whole(pc.if_else(are_elsewhere, documents, scalar_of(None, documents.type)))
    cells = _whole(portion.table.column(name))
    return DecodedColumn(cells, None if kinds is None else _whole(kinds), portion.types[name], texts)


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if column.num_chunks == 1:
        return column
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])


def portion_of(columns: Mapping[str, DecodedColumn]) -> Portion:
    """The portion that has these columns, in this order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays: dict[str, pa.ChunkedArray] = {}
    texts: list[pa.ChunkedArray] = []
    for name, column in columns.items():
        arrays[name] = column.cells
        if column.kinds is not None:
            arrays[KIND_PREFIX + name] = column.kinds
        if column.texts is not None:
            texts.append(column.texts)
    if texts:
        arrays[DOCUMENT] = texts[0] if len(texts) == 1 else pc.coalesce(*texts)
    return Portion(pa.table(arrays), {name: column.type for name, column in columns.items()})
