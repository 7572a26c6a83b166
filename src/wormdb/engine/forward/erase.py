"""Write every block again that has rows of an erased document, without them.

Forwarding does it last, with the root that it is about to swap in: so a root that has applied the entry names nothing
that holds the document, and what it no longer names is retired as ever. Only blocks whose range of keys and whose
filter allow it are read, in all four lists: documents, what jobs attached, history, and history that jobs brought.
Bounds of keys, statistics of columns and filters are made of the rows that stay, with the block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wormdb.engine.blocks.fetch import rows_between
from wormdb.engine.blocks.runs import Runs, list_run, overlaps, runs_of
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.history.changes import member_of
from wormdb.engine.state.definition import Definition
from wormdb.format.blocklist import BlockEntry, BlockPageRef
from wormdb.format.past import HISTORY_COLUMNS, past_range
from wormdb.format.sample import decode_sample, encode_sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.blocks.runs import Part, Run
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.state.projection import Sizes
    from wormdb.format.root import Root
    from wormdb.format.sample import Sample

__all__ = ["Eraser"]

_BlockList = Literal["blocks", "attached", "history", "brought"]
_PAGES: dict[str, str] = {
    "blocks": "block_pages",
    "attached": "attached_pages",
    "history": "history_pages",
    "brought": "brought_pages",
}


@dataclass(slots=True)
class Eraser:
    """Takes documents out of the blocks that a root names. `data` and `past` are the shelves of both folders."""

    data: Shelf
    past: Shelf
    writer: ObjectWriter
    sizes: Sizes
    _gone: dict[str, int] = field(default_factory=dict)

    def run(self, root: Root, erased: Mapping[bytes, int]) -> tuple[Root, dict[str, int]]:
        """A root that is to be swapped in, without rows of documents up to the entries that erased them.

        And the keys of what it no longer names, with the entry that needs each until it is trimmed, or 0. No requests
        if `erased`, by keys of ids, is empty; else 1 GET for the filter of each block whose range has one of the ids,
        unless that is kept, and for each block that has it 1 GET and 2 PUTs; 1 GET and 1 PUT for each page of a list
        in which one stands.
        """
        if not erased:
            return root, {}
        self._gone = {}
        fields: dict[str, Any] = {}
        for where in ("blocks", "attached", "history", "brought"):
            fields |= self._without(root, where, erased)
        sample = decode_sample(root.sample, name="the root")
        if not erased.keys().isdisjoint(sample.rows):
            fields["sample"] = encode_sample(self._sampled(root, sample, erased))
        # What an analysis found out may name values of the document.
        changed = msgspec.structs.replace(root, statistics=None, **fields)
        # A block of a job may be in two lists, and have left both; what one of them still names stays.
        named = set(self._named(changed))
        return changed, {key: number for key, number in self._gone.items() if key not in named}

    def _sampled(self, root: Root, sample: Sample, erased: Mapping[bytes, int]) -> Sample:
        """The sample without what was erased, unless it is there again: then the sample has the new document."""
        there = Runs(self.data, root.blocks, root.block_pages).get_many([key for key in erased if key in sample.rows])
        gone = {key for key in erased if key not in there or there[key].rev <= erased[key]}
        return replace(sample, rows={key: row for key, row in sample.rows.items() if key not in gone})

    # --- one list ---

    def _without(self, root: Root, where: _BlockList, erased: Mapping[bytes, int]) -> dict[str, Any]:
        """The fields of a list that change."""
        entries: Sequence[BlockEntry] = getattr(root, where)
        pages: Sequence[BlockPageRef] = getattr(root, _PAGES[where])
        runs: list[Run] = []
        changed = False
        for run in runs_of(entries, pages):
            parts = list(self._parts(root, where, run, erased))
            changed = changed or parts != list(run.parts)
            runs += runs_of(_blocks(parts), _pages(parts))
        if not changed:
            return {}
        found = [part for run in runs for part in run.parts]
        return {where: tuple(_blocks(found)), _PAGES[where]: tuple(_pages(found))}

    def _parts(self, root: Root, where: _BlockList, run: Run, erased: Mapping[bytes, int]) -> Iterator[Part]:
        shelf = self._shelf(where)
        inline = list(run.entries)
        made = self._rewritten(root, where, inline, erased)
        if made == inline:
            yield from inline
        elif made:
            yield from list_run(made, shelf, self.writer).parts
        for page in run.pages:
            if not any(overlaps(page, low, high) for low, high in _ranges(where, erased)):
                yield page
                continue
            listed = list(shelf.listed([page])[page.name])
            made = self._rewritten(root, where, listed, erased)
            if made == listed:
                yield page
                continue
            self._gone[shelf.page_key(page.name)] = 0
            if made:
                yield from list_run(made, shelf, self.writer).parts

    def _rewritten(
        self, root: Root, where: _BlockList, entries: Sequence[BlockEntry], erased: Mapping[bytes, int]
    ) -> list[BlockEntry]:
        """Blocks with others in the place of those that hold something of what was erased."""
        found: list[BlockEntry] = []
        for entry in entries:
            near = {key for key in erased if overlaps(entry, *_range(where, key))}
            if near and self._may_have(where, entry, near):
                found += self._written(root, where, entry, erased)
            else:
                found.append(entry)
        return found

    def _may_have(self, where: _BlockList, entry: BlockEntry, keys: Iterable[bytes]) -> bool:
        _, filters = self._shelf(where).learn((), [entry])
        membership = filters[entry.name]
        return any(membership.might_contain(key) for key in keys)

    def _written(
        self, root: Root, where: _BlockList, entry: BlockEntry, erased: Mapping[bytes, int]
    ) -> list[BlockEntry]:
        """What takes the place of one block: itself if it has nothing of it, no block if it has nothing else."""
        shelf, is_past = self._shelf(where), where in ("history", "brought")
        upgrades = Definition.of_root(root).upgrades
        # What a job attached is history, so it stays as it was written.
        shown = shelf.showing(upgrades) if where == "blocks" else shelf
        rows = list(rows_between(shown, entry))
        left = [(key, row) for key, row in rows if row.rev > erased.get(member_of(row) if is_past else key, 0)]
        if len(left) == len(rows):
            return [entry]
        needed = entry.run if where in ("attached", "brought") else 0  # the change feed reads what a job attached
        for gone in (shelf.block_key(entry.name), shelf.sidecar_key(entry.sidecar.name)):
            self._gone[gone] = max(needed, self._gone.get(gone, 0))
        columns = HISTORY_COLUMNS if is_past else Definition.of_root(root).columns
        blocks = BlockWriter(shelf, self.writer, self.sizes.block_target, columns, member_of if is_past else None)
        written = blocks.write(left, run=entry.run, level=entry.level, kind=entry.kind)
        if where == "blocks":
            return [one.shaped(upgrades.newest) if upgrades.steps else one for one in written]
        return [one.shaped(entry.shape) for one in written]

    def _shelf(self, where: _BlockList) -> Shelf:
        return self.data if where in ("blocks", "attached") else self.past

    def _named(self, root: Root) -> Iterator[str]:
        """The keys of the blocks of jobs that a root names in the one list or the other."""
        for where in ("blocks", "attached"):
            for run in runs_of(getattr(root, where), getattr(root, _PAGES[where])):
                for entry in run.blocks(self.data):
                    yield self.data.block_key(entry.name)
                    yield self.data.sidecar_key(entry.sidecar.name)


def _range(where: _BlockList, key: bytes) -> tuple[bytes, bytes | None]:
    return (key, key + b"\0") if where in ("blocks", "attached") else past_range(key)


def _ranges(where: _BlockList, erased: Iterable[bytes]) -> list[tuple[bytes, bytes | None]]:
    return [_range(where, key) for key in erased]


def _blocks(parts: Iterable[Part]) -> list[BlockEntry]:
    return [part for part in parts if isinstance(part, BlockEntry)]


def _pages(parts: Iterable[Part]) -> list[BlockPageRef]:
    return [part for part in parts if isinstance(part, BlockPageRef)]
