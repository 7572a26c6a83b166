"""Which blocks of a list are written again when it is compacted, and in which pieces. Pure: no requests.

A block that lies alone in its range of keys and is large enough stays as it is. The others are written again, range by
range: where several runs overlap, and where small blocks are neighbours. So a list that was compacted has nothing more
to compact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.listing import overlaps
from wormdb.engine.blocks.write import ROW_BYTES
from wormdb.format.blocklist import BlockEntry  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Aim", "Piece", "Selection", "select"]

SMALL_SHARE: Final = 4
"""A block is small below this part of the target: the guess of its size may be wrong by as much."""
PIECE_BLOCKS: Final = 2
"""A piece makes at least so many blocks, so that the small one at its end has a full one for a neighbour."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What blocks are meant to be."""

    bytes_target: int
    """Of documents in a block, before compression."""
    row_bytes: int = 0
    """Of a document, about."""
    everything: bool = False
    """Whether all blocks are written again, also those that are as they should be."""

    def weight(self, entry: BlockEntry) -> int:
        """About how many bytes a block has before compression."""
        return max(entry.length, entry.rows * (ROW_BYTES + self.row_bytes))

    def is_small(self, entry: BlockEntry) -> bool:
        """Whether a block should be written together with a neighbour."""
        return self.weight(entry) * SMALL_SHARE < self.bytes_target


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of keys whose rows are written again: from `low` up to but not including `high`."""

    low: bytes
    high: bytes | None
    runs: tuple[tuple[BlockEntry, ...], ...]
    """The blocks that have rows in it, newest run first."""
    weight: int

    @property
    def size(self) -> int:
        """Stored bytes of these blocks."""
        return sum(entry.length for run in self.runs for entry in run)

    @property
    def rows(self) -> int:
        """Rows of these blocks, hidden ones too."""
        return sum(entry.rows for run in self.runs for entry in run)

    @property
    def label(self) -> str:
        """For people."""
        entries = [entry for run in self.runs for entry in run]
        first = min(entries, key=lambda entry: entry.key_first).name
        return f"block {first}" if len(entries) == 1 else f"{len(entries)} blocks from {first} on"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is done with the blocks of a list."""

    pieces: tuple[Piece, ...]
    consumed: frozenset[str]
    """Names of the blocks that pieces replace: each lies in the ranges of pieces with all of its rows."""
    moved: frozenset[str]
    """Names of the blocks that stay as they are, and belong to the new run from then on."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not self.pieces and not self.moved


def select(runs: Sequence[Sequence[BlockEntry]], aim: Aim) -> Selection:
    """What to do with runs of blocks, newest first, each in order of key."""
    if not runs:
        return Selection((), frozenset(), frozenset())
    newest = runs[0][0].run
    pieces: list[Piece] = []
    consumed: set[str] = set()
    moved: set[str] = set()
    for stretch in _stretches([entry for run in runs for entry in run], aim):
        names = {entry.name for entry in stretch}
        if _is_worth(stretch, aim):
            consumed |= names
            pieces += _pieces(stretch, aim)
        else:
            # Rows of a job have no revision but the number of their run, so they cannot go to another.
            moved |= {entry.name for entry in stretch if entry.run != newest and entry.rev_first}
    return Selection(tuple(pieces), frozenset(consumed), frozenset(moved))


def _stretches(entries: Sequence[BlockEntry], aim: Aim) -> Iterator[list[BlockEntry]]:
    """Blocks that belong together: they overlap, or are small and lie side by side; and each other one for itself."""
    clusters = list(_clusters(entries))
    if aim.everything:
        yield [entry for cluster in clusters for entry in cluster]
        return
    for is_done, group in groupby(clusters, key=lambda cluster: len(cluster) == 1 and not aim.is_small(cluster[0])):
        if is_done:
            yield from group
        else:
            yield [entry for cluster in group for entry in cluster]


def _clusters(entries: Sequence[BlockEntry]) -> Iterator[list[BlockEntry]]:
    """Blocks that overlap each other, directly or by others, in order of key."""
    waiting: list[BlockEntry] = []
    last = b""
    for entry in sorted(entries, key=lambda entry: (entry.key_first, -entry.run)):
        if waiting and entry.key_first > last:
            yield waiting
            waiting = []
        last = max(last, entry.key_last) if waiting else entry.key_last
        waiting.append(entry)
    if waiting:
        yield waiting


def _is_worth(stretch: Sequence[BlockEntry], aim: Aim) -> bool:
    return aim.everything or len(stretch) > 1


def _pieces(stretch: Sequence[BlockEntry], aim: Aim) -> Iterator[Piece]:
    """A stretch in pieces of some blocks each, cut where blocks of its largest run begin."""
    ordered = sorted(stretch, key=lambda entry: (-entry.run, entry.key_first))
    runs = [list(group) for _, group in groupby(ordered, key=lambda entry: entry.run)]
    total = sum(map(aim.weight, stretch))
    largest = max(runs, key=lambda run: sum(map(aim.weight, run)))
    share = total / sum(map(aim.weight, largest))
    wanted = PIECE_BLOCKS * aim.bytes_target
    cuts: list[bytes] = []
    reached = begun = 0.0
    for before, entry in pairwise(largest):
        reached += aim.weight(before) * share
        if reached - begun >= wanted and total - reached >= wanted:
            cuts.append(entry.key_first)
            begun = reached
    low = min(entry.key_first for entry in stretch)
    ends: list[bytes | None] = [low, *cuts, max(entry.key_last for entry in stretch) + b"\0"]
    for start, stop in pairwise(ends):
        assert start is not None
        near = [tuple(entry for entry in run if overlaps(entry, start, stop)) for run in runs]
        found = tuple(run for run in near if run)
        yield Piece(start, stop, found, round(total / (len(cuts) + 1)))
