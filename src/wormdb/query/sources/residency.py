"""What of the root of a collection this process keeps: decoded columns and rows, unpacked nodes, bytes as stored.

A planner asks before it chooses. Each answer looks at a few things only: the blocks at the ends and in the middle, the
way down to the first range, the first entries in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.columns.fetch import ColumnRequest, is_kept
from wormdb.engine.state.view import id_key
from wormdb.format.columns import ColumnSpec

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from weakref import ref

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.index.shelf import IndexShelf, KeptWay
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.view import Base
    from wormdb.engine.tree.entries import Range
    from wormdb.format.blocklist import BlockEntry

__all__ = ["EngineResidency"]

T = TypeVar("T")

_LOOKED_AT: Final = 6
"""Things of a kind that are looked at."""


class EngineResidency:
    """As `Residency`, of the base of a view. It does not keep the base alive."""

    def __init__(
        self, base: ref[Base], trees: IndexShelf, definition: Definition, rows: int, readers: Container[str]
    ) -> None:
        """`trees` are of the same collection, which has about `rows` documents. No requests.

        `readers` has the names of the indexes whose readers over the tail were made.
        """
        self._base = base
        self._trees = trees
        self._specs = {spec.path: spec for spec in definition.columns}
        self._rows = rows
        self._readers = readers

    @property
    def level(self) -> int:
        """As `Residency`: another one when twice or half as much is kept."""
        base = self._base()
        if not isinstance(base, RunBase):
            return 0
        shelf = base.runs.shelf
        level = shelf.columns.count.bit_length()
        level |= self._trees.held_nodes.bit_length() << 8
        return level | shelf.held_bytes.bit_length() << 16

    def columns(self, names: Sequence[str]) -> float:
        """As `Residency`."""
        shelf, blocks = self._blocks()
        specs = {name: self._specs.get(name) or ColumnSpec(name) for name in names if name != "_id"}
        wanted = ColumnRequest(specs, with_ids="_id" in names)
        return _share([shelf is not None and is_kept(shelf, block, wanted) for block in blocks])

    def documents(self) -> float:
        """As `Residency`."""
        shelf, blocks = self._blocks()
        if shelf is None:
            return 0.0
        held = sum(min(shelf.held_of(block), block.length) for block in blocks)
        return held / max(sum(block.length for block in blocks), 1)

    def maps(self) -> float:
        """As `Residency`."""
        shelf, blocks = self._blocks()
        return _share([shelf is not None and shelf.known_map(block) is not None for block in blocks])

    def nodes(self, name: str, spans: Sequence[Range], *, reverse: bool = False) -> float:
        """As `Residency`: of the way down to the ranges that are read first."""
        ways = self._ways(name, spans, reverse)
        return sum(way.share for way in ways) / max(len(ways), 1)

    def rows(self, name: str, spans: Sequence[Range], *, reverse: bool = False, first: int | None = None) -> float:
        """As `Residency`: of some entries of the ranges that are read first, if their leaves are kept."""
        keys: list[bytes] = []
        for way in self._ways(name, spans, reverse):
            entries = way.entries[::-1] if reverse else way.entries
            keys += [id_key(value) for _, value in _some(entries[:first])]
        return self.keys(keys) if keys else self.all_rows()

    def has_tail(self, name: str) -> bool:
        """As `Residency`."""
        return name in self._readers

    def keys(self, keys: Sequence[bytes]) -> float:
        """As `Residency`: of some of them."""
        base = self._base()
        return _share([isinstance(base, RunBase) and base.runs.keeps(key) for key in _some(keys)])

    def all_rows(self) -> float:
        """As `Residency`."""
        shelf, _ = self._blocks()
        return 0.0 if shelf is None else min(shelf.columns.count_rows(shelf.folder) / max(self._rows, 1), 1.0)

    def _blocks(self) -> tuple[Shelf | None, Sequence[BlockEntry]]:
        """Some of the blocks that the root names itself."""
        base = self._base()
        return (base.runs.shelf, _some(base.place.root.blocks)) if isinstance(base, RunBase) else (None, ())

    def _ways(self, name: str, spans: Sequence[Range], reverse: bool) -> Sequence[KeptWay]:
        base = self._base()
        root = base.place.root if isinstance(base, RunBase) else None
        index = None if root is None else root.index(name)
        if root is None or index is None:
            return ()
        first = spans[-_LOOKED_AT:] if reverse else spans[:_LOOKED_AT]
        return [self._trees.kept_way(root, index, span, reverse=reverse) for span in first]


def _some(things: Sequence[T]) -> Sequence[T]:
    """A few of them, from the first on and at equal distances."""
    return (
        things if len(things) <= _LOOKED_AT else [things[len(things) * one // _LOOKED_AT] for one in range(_LOOKED_AT)]
    )


def _share(answers: Sequence[bool]) -> float:
    return sum(answers) / len(answers) if answers else 0.0
