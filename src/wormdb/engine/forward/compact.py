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

from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import Runs, is_run, list_run, merge_rows, overlaps, runs_of
from wormdb.engine.blocks.write import ROW_BYTES, BlockWriter
from wormdb.engine.history.changes import member_of
from wormdb.engine.history.retention import HistorySieve, sieve_of
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.erased import check_unerased
from wormdb.engine.state.successor import following_root
from wormdb.engine.state.upgrade import Upgrades
from wormdb.errors import ConflictError, UnavailableError
from wormdb.format.blocklist import BlockEntry  # noqa: TC001 - msgspec reads the annotations
from wormdb.format.columns import ColumnSpec  # noqa: TC001 - msgspec reads the annotations
from wormdb.format.frequent import CHOICE
from wormdb.format.past import HISTORY_COLUMNS
from wormdb.format.root import SchemaVersion  # noqa: TC001 - msgspec reads the annotations
from wormdb.format.sample import decode_sample
from wormdb.settings import UNPUBLISHED_MS_MAX
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.blocks.runs import Run
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.engine.log.root import Register, RootState
    from wormdb.format.block import Row
    from wormdb.format.root import Root
    from wormdb.system.types import StoreTime

__all__ = [
    "Aim",
    "BlockShape",
    "Compaction",
    "CompactionPiece",
    "ListName",
    "PieceResult",
    "Selection",
    "check_age",
    "folder_of",
    "plan_compaction",
    "publish_compaction",
    "runs_in",
    "select",
    "write_piece",
]


# --- Which blocks of a list are written again when it is compacted, and in which pieces. Pure: no requests.
#
# A block that lies alone in its range of keys and is large enough stays as it is, unless it was written before frequent
# paths became columns. The others are written again, range by range: where several runs overlap, and where small blocks
# are neighbours. So a list that was compacted has nothing more to compact.

SMALL_SHARE: Final = 4
"""A block is small below this part of the target: the guess of its size may be wrong by as much."""
PIECE_BLOCKS: Final = 2
"""A piece makes at least this many blocks, so that the small one at its end has a full one for a neighbour."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What blocks are meant to be."""

    bytes_target: int
    """Of documents in a block, before compression."""
    row_bytes: int = 0
    """Of a document, about."""
    everything: bool = False
    """Whether all blocks are written again, also those that are as they should be."""
    choice: int = 0
    """The least `BlockEntry.choice` with which a block stays as it is: others lack columns of frequent paths."""

    def weight(self, entry: BlockEntry) -> int:
        """About how many bytes a block has before compression."""
        return max(entry.length, entry.rows * (ROW_BYTES + self.row_bytes))

    def is_small(self, entry: BlockEntry) -> bool:
        """Whether a block should be written together with a neighbour."""
        return self.weight(entry) * SMALL_SHARE < self.bytes_target

    def is_done(self, cluster: Sequence[BlockEntry]) -> bool:
        """Whether blocks that overlap can stay as they are: it is one, neither small nor without its columns."""
        return len(cluster) == 1 and not self.is_small(cluster[0]) and cluster[0].choice >= self.choice

    def is_worth(self, stretch: Sequence[BlockEntry]) -> bool:
        """Whether blocks that belong together are written again."""
        return self.everything or len(stretch) > 1 or any(entry.choice < self.choice for entry in stretch)


@dataclass(frozen=True, slots=True)
class CompactionPiece:
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

    pieces: tuple[CompactionPiece, ...]
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
    pieces: list[CompactionPiece] = []
    consumed: set[str] = set()
    moved: set[str] = set()
    for stretch in _stretches([entry for run in runs for entry in run], aim):
        names = {entry.name for entry in stretch}
        if aim.is_worth(stretch):
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
    for is_done, group in groupby(clusters, key=aim.is_done):
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


def _pieces(stretch: Sequence[BlockEntry], aim: Aim) -> Iterator[CompactionPiece]:
    """A stretch in pieces of some blocks each, cut where blocks of its largest run begin."""
    ordered = sorted(stretch, key=lambda entry: (-entry.run, entry.key_first))
    # Earlier releases wrote two runs of one number where they folded history: those overlap.
    runs = [list(run.entries) for run in runs_of(ordered)]
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
        yield CompactionPiece(start, stop, found, round(total / (len(cuts) + 1)))


ListName = Literal["blocks", "history"]


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What the new blocks of a list are like: a value that can be sent."""

    where: ListName
    number: int
    """Of the run that they belong to."""
    level: int
    bytes_target: int
    columns: tuple[ColumnSpec, ...]
    versions: tuple[SchemaVersion, ...] = ()
    """Of the model: rows of older ones are written as the newest has them."""
    sieve: HistorySieve | None = None
    """Of history: what is left out."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is done with one list of one root."""

    shape: BlockShape
    selection: Selection
    standing: frozenset[str]
    """Names of all blocks of the list."""
    collection: str
    """The incarnation."""
    revision: int
    time: StoreTime | None
    erased: int = 0
    """`Root.erased_through` of that root."""


@dataclass(frozen=True, slots=True)
class PieceResult:
    """What one piece came to."""

    piece: CompactionPiece
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
    sieve = None if where == "blocks" else sieve_of(root, Definition.of_root(root).retention, current.time)
    if sieve is not None and (sieve.keep_ms is not None or sieve.trimmed > root.dropped_through):
        aim = replace(aim, everything=True)  # any block may have something that goes
    selection = select(entries, _informed(aim, root, CHOICE if where == "blocks" else 0))
    if selection.is_empty:
        return None
    columns = Definition.of_root(root).columns if where == "blocks" else tuple(HISTORY_COLUMNS)
    level = 1 + max((entry.level for piece in selection.pieces for run in piece.runs for entry in run), default=-1)
    return Compaction(
        BlockShape(
            where, runs[0].through, level, aim.bytes_target, columns, root.versions if where == "blocks" else (), sieve
        ),
        selection,
        frozenset(entry.name for run in entries for entry in run),
        root.collection,
        root.revision,
        current.time,
        root.erased_through,
    )


def _informed(aim: Aim, root: Root, choice: int) -> Aim:
    """The aim with what the sample tells of the size of documents: it shortens texts, so that is a bound."""
    rows = decode_sample(root.sample, name="the root").rows
    if not aim.row_bytes and rows:
        aim = replace(aim, row_bytes=sum(map(len, rows.values())) // len(rows))
    return replace(aim, choice=choice)


def write_piece(shelf: Shelf, writer: ObjectWriter, shape: BlockShape, piece: CompactionPiece) -> PieceResult:
    """Write the rows of a range again: the newest of each key. Nothing counts before a root names it.

    1 GET for each block that lies in the range, else its page map and the row groups that do; 2 PUTs for each new
    block. In memory are a block of each run and one that is made. Raises CorruptionError, UnavailableError, and
    SnapshotTooOldError if the blocks were replaced long ago.
    """
    members = None if shape.where == "blocks" else member_of
    upgrades = Upgrades.of(shape.versions)
    blocks = BlockWriter(shelf, writer, shape.bytes_target, shape.columns, members)
    rows = merge_rows([_rows_of(shelf.showing(upgrades), run, piece) for run in piece.runs])
    left = rows if shape.sieve is None else shape.sieve.left(rows)
    written = blocks.write(left, run=shape.number, level=shape.level, kind="base")
    return PieceResult(piece, tuple(entry.shaped(upgrades.newest) if upgrades.steps else entry for entry in written))


def _rows_of(shelf: Shelf, run: Sequence[BlockEntry], piece: CompactionPiece) -> Iterator[tuple[bytes, Row]]:
    for entry in run:
        yield from rows_between(shelf, entry, piece.low, piece.high)


# --- Name in the root what a compaction wrote, instead of what it replaces: one swap, while others swap it too.


def publish_compaction(
    register: Register, shelf: Shelf, writer: ObjectWriter, plan: Compaction, written: Sequence[PieceResult]
) -> tuple[RootState, int]:
    """Name the new blocks in the root, instead of those that they replace; that root, and how many pieces it took.

    Pieces are left out whose blocks forwarding has merged with newer ones meanwhile, so that nothing is gained. 1 GET
    and 1 PUT for the root, and 1 PUT for each page of a long list; again if another's root came first. Raises
    ConflictError if the list was written anew by others, UnavailableError, OutcomeUnknownError.
    """
    kept: list[PieceResult] = []

    def change(current: RootState) -> Root | None:
        root = current.root
        if root is None or root.collection != plan.collection:
            raise ConflictError(f"compaction of {register.collection}", reason="the collection was made anew meanwhile")
        check_age(register.collection, plan.time, plan.revision, current)
        check_unerased(f"compaction of {register.collection}", plan.erased, root)
        following = _ListSuccessor(root, shelf, writer, plan)
        kept[:] = following.useful(written)
        if not kept and not following.moves:
            return None
        changed, retired = following.root_with(kept)
        writer.misc.observe(Misc(root.misc))
        return following_root(current, changed, retired, writer, register.paths)

    state = register.update(change, what="a compaction")
    return state, len(kept)


def check_age(collection: str, time: StoreTime | None, revision: int, current: RootState) -> None:
    """Refuse to name objects that may be gone: written after the root of `revision` was read, at `time`.

    Garbage collection swaps the root before it removes unnamed objects, and takes none younger than a day. So
    either the root is still the same, or they are young. No requests; raises UnavailableError.
    """
    is_same = current.root is not None and current.root.revision == revision
    is_young = time is not None and current.time is not None and current.time - time <= UNPUBLISHED_MS_MAX
    if not is_same and not is_young:
        raise UnavailableError(
            f"what was written for {collection}",
            reason="it was planned too long ago, and may have been removed as an object that no root names",
            fix="run it again; everything is as before",
        )


@dataclass(slots=True)
class _ListSuccessor:
    """The list of a newer root, with what was written for an older one."""

    root: Root
    shelf: Shelf
    writer: ObjectWriter
    plan: Compaction
    _newer: list[Run] = field(init=False)
    _older: list[tuple[Run, list[BlockEntry]]] = field(init=False)
    _names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        """Look at what is left of the plan's blocks."""
        number, runs = self.plan.shape.number, runs_in(self.root, self.plan.shape.where)
        self._newer = [run for run in runs if run.through > number]
        self._older = [(run, list(run.blocks(self.shelf))) for run in runs if run.through <= number]
        self._names = {entry.name for _, entries in self._older for entry in entries}
        if not self._names <= self.plan.standing:
            raise ConflictError(
                f"compaction of {self.root.path}", reason="others wrote its blocks again meanwhile", fix="run it again"
            )

    @property
    def moves(self) -> bool:
        """Whether blocks are there that only change their run."""
        return not self._names.isdisjoint(self.plan.selection.moved)

    def useful(self, written: Sequence[PieceResult]) -> list[PieceResult]:
        """What replaces something: forwarding merges newest runs first, so the oldest tells."""
        return [one for one in written if {entry.name for entry in one.piece.runs[-1]} <= self._names]

    def root_with(self, kept: Sequence[PieceResult]) -> tuple[Root, list[str]]:
        """The root with new blocks, and the keys of what it no longer names. 1 PUT for each page of a long list."""
        shape, selection = self.plan.shape, self.plan.selection
        pieces = [one.piece for one in kept]
        left_out = [piece for piece in selection.pieces if piece not in pieces]
        replaced = _names(pieces) - _names(left_out)
        made = [entry for one in kept for entry in one.entries]
        runs: list[Run] = []
        retired: list[str] = []
        for run, entries in self._older:
            moved = [entry for entry in entries if entry.name in selection.moved]
            made += [msgspec.structs.replace(entry, run=shape.number, kind="base") for entry in moved]
            gone = [entry for entry in entries if entry.name in replaced]
            left = [entry for entry in entries if entry.name not in replaced and entry.name not in selection.moved]
            if run.through == shape.number:
                made += left
            elif len(left) == len(entries):
                runs.append(run)
                continue
            elif left:
                runs.append(list_run(left, self.shelf, self.writer))
            retired += [self.shelf.page_key(page.name) for page in run.pages]
            retired += [key for entry in gone if not self._is_attached(entry) for key in self._keys(entry)]
        made.sort(key=lambda entry: entry.key_first)
        assert is_run(made), "what is written for ranges does not overlap"
        runs = [*self._newer, list_run(made, self.shelf, self.writer), *runs]
        fields = _fields(shape.where, runs)
        if shape.sieve is not None and kept:
            fields["dropped_through"] = max(shape.sieve.trimmed, self.root.dropped_through)
        return msgspec.structs.replace(self.root, **fields), retired

    def _is_attached(self, entry: BlockEntry) -> bool:
        if self.plan.shape.where != "blocks":
            return False
        return Runs(self.shelf, self.root.attached, self.root.attached_pages).names(entry)

    def _keys(self, entry: BlockEntry) -> tuple[str, str]:
        return self.shelf.block_key(entry.name), self.shelf.sidecar_key(entry.sidecar.name)


def _names(pieces: Sequence[CompactionPiece]) -> set[str]:
    return {entry.name for piece in pieces for run in piece.runs for entry in run}


def _fields(where: ListName, runs: Sequence[Run]) -> dict[str, Any]:
    entries = tuple(entry for run in runs for entry in run.entries)
    pages = tuple(page for run in runs for page in run.pages)
    return {where: entries, "block_pages" if where == "blocks" else "history_pages": pages}
