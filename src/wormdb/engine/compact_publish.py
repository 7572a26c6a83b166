"""Name in the root what a compaction wrote, instead of what it replaces: one swap, beside others who swap it too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from wormdb.engine.blocks.listing import is_run, list_run
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.forward.compact import runs_in
from wormdb.engine.state.successor import following_root
from wormdb.errors import ConflictError, UnavailableError
from wormdb.settings import UNPUBLISHED_MS_MAX
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.blocks.listing import Run
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.compact_plan import Piece
    from wormdb.engine.forward.compact import Compaction, ListName, Written
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Register, RootState
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.root import Root
    from wormdb.system.types import StoreTime

__all__ = ["check_age", "publish_compaction"]


def publish_compaction(
    register: Register, shelf: Shelf, writer: ObjectWriter, plan: Compaction, written: Sequence[Written]
) -> tuple[RootState, int]:
    """Name the new blocks in the root, instead of those that they replace; that root, and how many pieces it took.

    Pieces are left out whose blocks forwarding has merged with newer ones meanwhile, so that nothing is gained. 1 GET
    and 1 PUT for the root, and 1 PUT for each page of a long list; again if another's root came first. Raises
    ConflictError if the list was written anew by others, UnavailableError, OutcomeUnknownError.
    """
    kept: list[Written] = []

    def change(current: RootState) -> Root | None:
        root = current.root
        if root is None or root.collection != plan.collection:
            raise ConflictError(f"compaction of {register.collection}", reason="the collection was made anew meanwhile")
        check_age(register.collection, plan.time, plan.revision, current)
        following = _Following(root, shelf, writer, plan)
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

    Whoever removes objects that nobody names swaps the root first, and takes none that are younger than a day. So
    either the root is still the same, or they are young. No requests; raises UnavailableError.
    """
    is_same = current.root is not None and current.root.revision == revision
    is_young = time is not None and current.time is not None and current.time - time <= UNPUBLISHED_MS_MAX
    if not is_same and not is_young:
        raise UnavailableError(
            f"what was written for {collection}",
            reason="it was planned too long ago, and may have been removed as something that nobody names",
            fix="run it again; everything is as before",
        )


@dataclass(slots=True)
class _Following:
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

    def useful(self, written: Sequence[Written]) -> list[Written]:
        """What replaces something: forwarding merges newest runs first, so the oldest tells."""
        return [one for one in written if {entry.name for entry in one.piece.runs[-1]} <= self._names]

    def root_with(self, kept: Sequence[Written]) -> tuple[Root, list[str]]:
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
        return msgspec.structs.replace(self.root, **_fields(shape.where, runs)), retired

    def _is_attached(self, entry: BlockEntry) -> bool:
        if self.plan.shape.where != "blocks":
            return False
        return Runs(self.shelf, self.root.attached, self.root.attached_pages).names(entry)

    def _keys(self, entry: BlockEntry) -> tuple[str, str]:
        return self.shelf.block_key(entry.name), self.shelf.sidecar_key(entry.sidecar.name)


def _names(pieces: Sequence[Piece]) -> set[str]:
    return {entry.name for piece in pieces for run in piece.runs for entry in run}


def _fields(where: ListName, runs: Sequence[Run]) -> dict[str, Any]:
    entries = tuple(entry for run in runs for entry in run.entries)
    pages = tuple(page for run in runs for page in run.pages)
    return {where: entries, "block_pages" if where == "blocks" else "history_pages": pages}
