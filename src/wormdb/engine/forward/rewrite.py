"""Write blocks of older versions of a model again, some at a time, while readers and writers go on.

A block that is old is replaced in its run by one with the same rows, mapped. Which blocks those are follows from the
root alone, so any process goes on where another stopped, and nothing is lost that was done. When no old block is left,
the mappings of the root are needed for history and for older programs only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import Runs, list_run, runs_of
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.successor import following_root
from wormdb.engine.state.upgrade import Upgrades
from wormdb.format.blocklist import BlockEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.blocks.runs import Part, Run
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Register, RootState
    from wormdb.format.blocklist import BlockPageRef
    from wormdb.format.root import Root

__all__ = ["Rewriter", "has_old"]

SWAP_BLOCKS: Final = 8
"""Blocks that one swap of the root replaces: what a process loses that ends before it."""
TURN_SWAPS: Final = 4
TURN_TRIES: Final = 12
"""Swaps that one turn tries: where others are faster, the next turn goes on."""


def has_old(root: Root) -> bool:
    """Whether a root may name blocks that are to be written again. No requests."""
    upgrades = Upgrades.of(root.versions)
    return any(map(upgrades.is_old, root.blocks)) or any(map(upgrades.is_old, root.block_pages))


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites the blocks of one collection."""

    register: Register
    writer: ObjectWriter
    shelf: Shelf
    """Of the folder of data."""
    bytes_target: int

    def run(self) -> RootState:
        """One turn: write some of the old blocks again; the root as it then is.

        1 GET for the root; for each 8 blocks 1 PUT of it, 1 GET and 2 PUTs a block, and 1 PUT for the page of a long
        list in which they stand. Raises UnavailableError, OutcomeUnknownError, CorruptionError; another turn goes on.
        """
        current = self.register.read()
        tries = 0

        def change(found: RootState) -> Root | None:
            nonlocal tries
            if tries == TURN_TRIES or found.root is None or not has_old(found.root):
                return None
            tries += 1
            return self._step(found, found.root)

        for _ in range(TURN_SWAPS):
            current = self.register.update(change, what="newer blocks", current=current)
        return current

    def _step(self, current: RootState, root: Root) -> Root:
        """The root with some blocks of one run replaced."""
        definition = Definition.of_root(root)
        shelf, newest = self.shelf.showing(definition.upgrades), definition.upgrades.newest
        blocks = BlockWriter(shelf, self.writer, self.bytes_target, definition.columns)
        chosen = {entry.name: entry for entry in islice(self._of_one_run(root), SWAP_BLOCKS)}
        made: dict[str, list[BlockEntry]] = {}
        for entry in chosen.values():
            rows = rows_between(shelf, entry)
            written = blocks.write(rows, run=entry.run, level=entry.level, kind=entry.kind)
            made[entry.name] = [one.shaped(newest) for one in written]
        runs, pages = self._with(root, made)
        attached = Runs(self.shelf, root.attached, root.attached_pages)
        retired = [self.shelf.page_key(page.name) for page in pages]
        for entry in chosen.values():
            if not attached.names(entry):
                retired += [self.shelf.block_key(entry.name), self.shelf.sidecar_key(entry.sidecar.name)]
        changed = msgspec.structs.replace(
            root,
            blocks=tuple(entry for run in runs for entry in run.entries),
            block_pages=tuple(page for run in runs for page in run.pages),
        )
        return following_root(current, changed, retired, self.writer, self.register.paths)

    def _of_one_run(self, root: Root) -> Iterator[BlockEntry]:
        """Old blocks that one part of the list of one run names, or that the root names itself."""
        upgrades = Upgrades.of(root.versions)
        for run in runs_of(root.blocks, root.block_pages):
            inline = [entry for entry in run.entries if upgrades.is_old(entry)]
            if inline:
                yield from inline
                return
            for page in run.pages:
                if not upgrades.is_old(page):
                    continue
                found = [entry for entry in self.shelf.listed([page])[page.name] if upgrades.is_old(entry)]
                if found:
                    yield from found
                    return

    def _with(self, root: Root, made: dict[str, list[BlockEntry]]) -> tuple[list[Run], list[BlockPageRef]]:
        """The runs of a root with new blocks for some, and the pages of the list that are no longer needed."""
        runs: list[Run] = []
        gone: list[BlockPageRef] = []
        for run in runs_of(root.blocks, root.block_pages):
            parts: list[Part] = []
            inline = [new for entry in run.entries for new in made.get(entry.name, [entry])]
            if inline:
                parts += list_run(inline, self.shelf, self.writer).parts if _changes(run.entries, made) else inline
            for page in run.pages:
                listed = (
                    self.shelf.listed([page])[page.name] if page.run in {one[0].run for one in made.values()} else ()
                )
                if _changes(listed, made):
                    gone.append(page)
                    kept = [new for entry in listed for new in made.get(entry.name, [entry])]
                    parts += list_run(kept, self.shelf, self.writer).parts
                else:
                    parts.append(page)
            runs += runs_of(
                [part for part in parts if isinstance(part, BlockEntry)],
                [part for part in parts if not isinstance(part, BlockEntry)],
            )
        return runs, gone


def _changes(entries: Sequence[BlockEntry], made: dict[str, list[BlockEntry]]) -> bool:
    return any(entry.name in made for entry in entries)
