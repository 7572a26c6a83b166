"""Blocks that several tasks wrote as one run: those that overlap are merged, the others stay as they are."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.bulk_join import Joiner, can_join
from wormdb.errors import AlreadyExistsError
from wormdb.format.block import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.engine.bulk.report import ConflictRule
    from wormdb.engine.bulk_join import Workplace
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.columns import ColumnSpec

__all__ = ["Merged", "Merger", "twice"]

SMALL_SHARE: Final = 64
"""Neighbours that have together less than this part of a block are written as one: tasks may be many and small."""

_Item = tuple[bytes, int, Row | None]
"""A key, the place of its source, and what the source has there; None: nothing."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block of a source; or without a block one change, which counts more than all sources."""

    first: bytes
    last: bytes
    source: int
    block: BlockEntry | None
    row: Row | None = None

    @property
    def size(self) -> int:
        return 0 if self.block is None else self.block.length


@dataclass(frozen=True, slots=True)
class Merged:
    """One run, and what was decided on the way."""

    blocks: list[BlockEntry]
    dropped: dict[bytes, Row] = field(default_factory=dict)
    """Of each id that came more than once, what it is now."""
    times: dict[bytes, int] = field(default_factory=dict)
    """How many rows of it were left out."""


@dataclass(frozen=True, slots=True)
class Merger:
    """Makes runs for one job."""

    tools: Workplace
    columns: Sequence[ColumnSpec]
    rule: ConflictRule

    def merge(
        self, sources: Sequence[Sequence[BlockEntry]], changes: Mapping[bytes, Row | None] | None = None
    ) -> Merged:
        """The rows of sources, each one run, as one run; with `changes`, these rows instead of what sources have.

        Of an id that several sources have, the rule decides: `error` raises AlreadyExistsError naming it, `replace`
        takes the last source's, `ignore` the first one's. 1 GET for each block that is merged, and 2 PUTs for each
        that is written; one block of each source is in memory at a time. Where all ids are texts it goes column by
        column, which is many times faster.
        """
        pieces = [_Piece(b.key_first, b.key_last, place, b) for place, blocks in enumerate(sources) for b in blocks]
        pieces += [_Piece(key, key, -1, None, row) for key, row in (changes or {}).items()]
        merged = Merged([])
        writer = BlockWriter(self.tools.shelf, self.tools.writer, self.tools.block_target, self.columns)
        for cluster in _clusters(pieces, self.tools.block_target // SMALL_SHARE):
            only = cluster[0].block if len(cluster) == 1 else None
            if only is not None:
                merged.blocks.append(only)
            else:
                merged.blocks.extend(self._joined(cluster, merged) or writer.write(self._rows(cluster, merged)))
        return merged

    def _joined(self, cluster: Sequence[_Piece], merged: Merged) -> list[BlockEntry]:
        """The blocks of some pieces as new ones, made column by column; none if that cannot be."""
        sources: dict[int, list[BlockEntry]] = {}
        for piece in cluster:
            if piece.block is None:
                return []
            sources.setdefault(piece.source, []).append(piece.block)
        if not can_join(self.tools.shelf, [block for blocks in sources.values() for block in blocks]):
            return []

        def meet(key: bytes, row: Row, times: int) -> None:
            if self.rule == "error":
                raise twice(row)
            merged.dropped[key], merged.times[key] = row, times

        joiner = Joiner(self.tools, self.columns, self.rule == "ignore", meet)
        return joiner.write([sources[source] for source in sorted(sources)])

    def _rows(self, cluster: Sequence[_Piece], merged: Merged) -> Iterator[tuple[bytes, Row]]:
        """The rows of some pieces, each id once."""
        items = heapq.merge(*self._streams(cluster), key=lambda item: item[:2])
        for key, same in groupby(items, key=lambda item: item[0]):
            found = list(same)
            _, source, row = found[0]
            if source >= 0 and len(found) > 1:
                row = self._chosen(found)
                merged.dropped[key], merged.times[key] = row, len(found) - 1
            if row is not None:
                yield key, row

    def _chosen(self, found: Sequence[_Item]) -> Row:
        row = found[0][2] if self.rule == "ignore" else found[-1][2]
        assert row is not None, "sources have rows"
        if self.rule == "error":
            raise twice(row)
        return row

    def _streams(self, cluster: Sequence[_Piece]) -> Iterator[Iterator[_Item]]:
        """The items of each source, in order of key."""
        sources: dict[int, list[_Piece]] = {}
        for piece in cluster:
            sources.setdefault(piece.source, []).append(piece)
        for source, pieces in sources.items():
            yield self._items(source, pieces)

    def _items(self, source: int, pieces: Sequence[_Piece]) -> Iterator[_Item]:
        for piece in pieces:
            if piece.block is None:
                yield piece.first, source, piece.row
            else:
                for key, row in rows_between(self.tools.shelf, piece.block):
                    yield key, source, row


def twice(row: Row) -> AlreadyExistsError:
    """What is said of an id that came twice."""
    return AlreadyExistsError(
        f"document {row.id!r}",
        reason="the data have it more than once",
        fix='leave one of them out, or choose on_conflict "replace" or "ignore"',
    )


def _clusters(pieces: Sequence[_Piece], small: int) -> Iterator[list[_Piece]]:
    """Pieces that have to be written together: they overlap, or are small neighbours."""
    cluster: list[_Piece] = []
    last, size = b"", 0
    for piece in sorted(pieces, key=lambda piece: (piece.first, piece.last)):
        if cluster and piece.first > last and size + piece.size > small:
            yield cluster
            cluster, size = [], 0
        cluster.append(piece)
        last, size = max(last, piece.last), size + piece.size
    if cluster:
        yield cluster
