"""Compact a list of blocks: many runs and small blocks become few large ones, beside writers that go on.

    plan = plan_compaction(register.read(), shelf, "blocks", aim)                                   # in which pieces
    written = [write_piece(shelf, writer, plan.shape, piece) for piece in plan.selection.pieces]    # anywhere
    publish_compaction(register, shelf, writer, plan, written)           # one swap, see `compact_publish`

What is written for a range is its state at the newest run of the plan, under that run's number. Forwarding meanwhile
adds newer runs, or merges the newest runs of the plan into one of a greater number: either hides what is older, and the
state at the plan's number stays what it is, because no merge forgets a row or a deletion. So the new blocks take
the place of what the root still has of the plan, and a writer is never in the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.listing import runs_of
from wormdb.engine.blocks.runs import merge_rows
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.compact_plan import Aim, Piece, Selection, select
from wormdb.engine.history.changes import member_of
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.upgrade import Upgrades
from wormdb.format.blocklist import BlockEntry  # noqa: TC001 - msgspec reads the annotations
from wormdb.format.columns import ColumnSpec  # noqa: TC001 - msgspec reads the annotations
from wormdb.format.past import HISTORY_COLUMNS
from wormdb.format.root import SchemaVersion  # noqa: TC001 - msgspec reads the annotations
from wormdb.format.sample import decode_sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.blocks.listing import Run
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.engine.log.root import RootState
    from wormdb.format.block import Row
    from wormdb.format.root import Root
    from wormdb.system.types import StoreTime

__all__ = ["Compaction", "ListName", "Shape", "Written", "folder_of", "plan_compaction", "runs_in", "write_piece"]

ListName = Literal["blocks", "history"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the new blocks of a list are like: a value that can be sent."""

    where: ListName
    number: int
    """Of the run that they belong to."""
    level: int
    bytes_target: int
    columns: tuple[ColumnSpec, ...]
    versions: tuple[SchemaVersion, ...] = ()
    """Of the model: rows of older ones are written as the newest has them."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is done with one list of one root."""

    shape: Shape
    selection: Selection
    standing: frozenset[str]
    """Names of all blocks of the list."""
    collection: str
    """The incarnation."""
    revision: int
    time: StoreTime | None


@dataclass(frozen=True, slots=True)
class Written:
    """What one piece came to."""

    piece: Piece
    entries: tuple[BlockEntry, ...]


def runs_in(root: Root, where: ListName) -> tuple[Run, ...]:
    """The runs of a list, newest first. No requests."""
    if where == "blocks":
        return runs_of(root.blocks, root.block_pages)
    return runs_of(root.history, root.history_pages)


def folder_of(paths: EnginePaths, where: ListName) -> str:
    """Where the objects of a list are."""
    return paths.data if where == "blocks" else paths.history


def plan_compaction(current: RootState, shelf: Shelf, where: ListName, aim: Aim) -> Compaction | None:
    """Which blocks of a list are written again; None if there is nothing to do. `shelf` is of the list's folder.

    1 GET for each page of a long list of blocks. Raises CorruptionError, SnapshotTooOldError.
    """
    root = current.root
    runs = () if root is None else runs_in(root, where)
    if root is None or not runs:
        return None
    entries = [tuple(run.blocks(shelf)) for run in runs]
    selection = select(entries, _informed(aim, root))
    if selection.is_empty:
        return None
    columns = Definition.of_root(root).columns if where == "blocks" else tuple(HISTORY_COLUMNS)
    level = 1 + max((entry.level for piece in selection.pieces for run in piece.runs for entry in run), default=-1)
    return Compaction(
        Shape(where, runs[0].through, level, aim.bytes_target, columns, root.versions if where == "blocks" else ()),
        selection,
        frozenset(entry.name for run in entries for entry in run),
        root.collection,
        root.revision,
        current.time,
    )


def _informed(aim: Aim, root: Root) -> Aim:
    """The aim with what the sample tells of the size of documents: it shortens texts, so that is a bound."""
    rows = decode_sample(root.sample, name="the root").rows
    if aim.row_bytes or not rows:
        return aim
    return Aim(aim.bytes_target, sum(map(len, rows.values())) // len(rows), aim.everything)


def write_piece(shelf: Shelf, writer: ObjectWriter, shape: Shape, piece: Piece) -> Written:
    """Write the rows of a range again: the newest of each key. Nothing counts before a root names it.

    1 GET for each block that lies in the range, else its page map and the row groups that do; 2 PUTs for each new
    block. In memory are a block of each run and one that is made. Raises CorruptionError, UnavailableError, and
    SnapshotTooOldError if the blocks were replaced long ago.
    """
    members = None if shape.where == "blocks" else member_of
    upgrades = Upgrades.of(shape.versions)
    blocks = BlockWriter(shelf, writer, shape.bytes_target, shape.columns, members)
    rows = merge_rows([_rows_of(shelf.showing(upgrades), run, piece) for run in piece.runs])
    written = blocks.write(rows, run=shape.number, level=shape.level, kind="base")
    return Written(piece, tuple(entry.shaped(upgrades.newest) if upgrades.steps else entry for entry in written))


def _rows_of(shelf: Shelf, run: Sequence[BlockEntry], piece: Piece) -> Iterator[tuple[bytes, Row]]:
    for entry in run:
        yield from rows_between(shelf, entry, piece.low, piece.high)
